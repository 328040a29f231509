"""A sample of the stored corpus compiles to what is stored; `python -m tests.corpus.compare` compares all of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from . import store
from .compare import differences

#: of each kind
SAMPLE = 3


@pytest.mark.parametrize("kind", store.kinds())
def test_a_sample_of_programs_compiles_to_what_is_stored(kind: str) -> None:
    stored = store.expected(kind)
    found = [d for p in store.spaced(store.programs(kind), SAMPLE) for d in differences(p, stored[p.name], "source")]
    assert not found, "\n\n".join(map(str, found[:3]))


def test_every_program_has_something_stored_and_nothing_else_is() -> None:
    for kind in store.kinds():
        assert [p.name for p in store.programs(kind)] == sorted(store.expected(kind))


def test_every_refusal_says_what_to_do() -> None:
    outcomes = [o for kind in store.kinds() for each in store.expected(kind).values() for o in each.values()]
    refusals = [o.refusal for o in outcomes if o.refusal]
    assert refusals and [refusal for refusal in refusals if "\nhelp: " not in refusal] == []


def test_what_differs_is_said() -> None:
    program = store.programs("examples")[0]
    stored = store.expected("examples")[program.name]
    target, outcome = next((t, o) for t, o in stored.items() if o.ptx)
    changed = replace(outcome, tile=outcome.tile + "x\n", ptx=outcome.ptx.replace(".entry", ".func"))
    said = [d.what for d in differences(program, {**stored, target: changed}, "source")]
    assert said == ["tile IR differs", "PTX differs (from source)"]


def test_a_refusal_of_what_was_accepted_is_said() -> None:
    program = store.programs("examples")[0]
    stored = store.expected("examples")[program.name]
    target = next(t for t, o in stored.items() if o.ptx)
    refused = {**stored, target: store.Outcome(refusal="DispatchError: no")}
    (found,) = differences(program, refused, "source")
    assert found.what == "refusal differs (from source)" and "+accepted" in str(found)
