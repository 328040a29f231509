"""A sample of the stored corpus compiles to what is stored; `python -m tests.corpus.compare` compares all of it."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from . import store
from .compare import differences
from .compiling import Outcome, from_source

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


@pytest.mark.integration
def test_threads_that_compile_at_once_make_what_one_thread_makes() -> None:
    """Eight threads, 50 kernels each, as many switches between them as Python allows."""
    programs = store.spaced([p for kind in store.kinds() for p in store.programs(kind) if p.source], 400)

    def made(program: store.Program) -> Outcome:
        # linecache holds one source per file
        return from_source(program.source, program.kernel, program.call, "sm_90a", f"/corpus/{program.name}.py")

    alone = [made(program) for program in programs]
    assert sum(bool(outcome.ptx) for outcome in alone) > 200
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(made, programs))
    finally:
        sys.setswitchinterval(interval)
    assert together == alone
