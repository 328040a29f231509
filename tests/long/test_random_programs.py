"""20,000 random programs by seeds of the day: NumPy = simulator = GPU, and none takes long to compile.

    pytest -m long tests/long/test_random_programs.py -n auto
    TILEJIT_SEED=20260101 pytest -m long tests/long             those of another day

`random_programs.py` runs as many as fit into some seconds.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import Any

import pytest

from tests.long import random_programs
from tests.long.random_programs import DAY, KINDS, Batch

#: programs of one test, and the longest that one may take from Python to PTX, in seconds
PROGRAMS = 250
LONGEST = 5.0


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "number"), [pytest.param(k, n, id=f"{k}-{DAY}-{n}") for k in KINDS for n in range(KINDS[k][2])]
)
def test_random_programs(kind: str, number: int) -> None:
    batch = Batch(kind, DAY * 1000 + number).run(PROGRAMS)
    assert len(batch.compiled) >= PROGRAMS // 2, "next to nothing was compiled"
    assert batch.longest <= LONGEST, "\n\n".join(batch.slow)


@pytest.mark.integration
def test_one_batch_again_prints_its_seed_and_count(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(random_programs, "BATCH", 3)
    assert random_programs.main(["--seed", "5", "--only", "cp.async:2"]) == 0
    assert "seed 5: 3 programs on sim" in capsys.readouterr().out.replace(" and cuda", "")


@pytest.mark.integration
def test_a_batch_that_fails_prints_how_it_runs_again(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def fails(case: Any) -> None:
        raise AssertionError("the wrong sum")

    monkeypatch.setitem(KINDS, "products", (KINDS["products"][0], fails, 1))
    assert random_programs.main(["--seed", "5", "--only", "products:2"]) == 1
    said = capsys.readouterr().out
    assert "the wrong sum" in said and "1 batches failed" in said
    assert "again: python -m tests.long.random_programs --seed 5 --only products:2" in said


@pytest.mark.integration
def test_a_compilation_that_is_slow_is_named(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(random_programs, "BATCH", 3)
    monkeypatch.setattr(random_programs, "SLOW", 1e-3)
    assert random_programs.main(["--seed", "5", "--only", "scalars:2"]) == 0
    said = capsys.readouterr().out
    assert "s to compile, " in said and "frontend" in said
    assert "most recent call first" in said and "def kernel(" in said
    assert "again: python -m tests.long.random_programs --seed 5 --only scalars:2" in said


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.integration
def test_a_seed_gives_the_same_programs(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setitem(KINDS, kind, (KINDS[kind][0], lambda case: drawn.append(str(case)), 1))
    for _ in range(2):
        Batch(kind, 5).run(40, simplest=False)
    assert len(drawn) >= 2 and drawn[: len(drawn) // 2] == drawn[len(drawn) // 2 :]


@pytest.mark.integration
def test_a_program_that_ends_its_process_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_programs, "outcome", ends_its_process)
    with pytest.raises(SystemExit, match="a process ended with 7; it ran scalars 0"):
        list(random_programs.outcomes(5, ["scalars"], 60, 1))


def ends_its_process(day: int, kind: str, number: int) -> None:
    """In place of `random_programs.outcome`, in another process."""
    assert random_programs._running is not None
    random_programs._running.write_text(f"{kind} {number}")
    os._exit(7)


@pytest.mark.integration
def test_kinds_have_batches_in_their_shares() -> None:
    kinds = list(KINDS)
    begun = list(islice(random_programs.in_turn(kinds), 10 * sum(KINDS[k][2] for k in kinds)))
    assert len(set(begun)) == len(begun)
    for kind in kinds:
        assert abs(sum(k == kind for k, _ in begun) - 10 * KINDS[kind][2]) <= 1
