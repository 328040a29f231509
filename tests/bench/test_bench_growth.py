"""Each stage of a compilation takes time about in proportion to the number of operations, LLVM's too."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.bench.bench_growth import KINDS, Stages, compiled, exponent, least, table
from tilejit import pipeline

pytestmark = pytest.mark.integration

FEW, MANY = 80, 800

#: growth over what would be in proportion; measured 0.5 to 1.5, a quadratic stage has 10
ROOM = 3


@pytest.fixture
def as_users_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "VERIFY_EACH", False)


@pytest.fixture
def processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages are measured by this thread's time on a processor, to which other work on the machine adds little."""
    monkeypatch.setattr(time, "perf_counter", time.thread_time)


def steep(few: Stages, many: Stages, ratio: float) -> Iterator[str]:
    """The stages that grow out of proportion.

    A stage that takes less than a fiftieth of the small kernel's time counts as a fiftieth: it may have nothing to do
    there.
    """
    floor = sum(few.values()) / 50
    for stage, ms in many.items():
        grown = ms / max(few.get(stage, 0.0), floor) / ratio
        if grown > ROOM:
            yield f"{stage} grows by {grown:.1f} x {ratio:g}"


@pytest.mark.usefixtures("as_users_compile", "processor_time")
@pytest.mark.parametrize("kind", list(KINDS))
def test_no_stage_grows_out_of_proportion(kind: str) -> None:
    compiled(kind, FEW)
    few, many = least(kind, FEW, 3), least(kind, MANY, 2)
    assert {"frontend", "lower", "codegen.emit", "codegen.llvm_emit"} <= set(many)
    assert not list(steep(few, many, MANY / FEW))


def test_a_stage_that_grows_by_the_square_is_found_also_where_it_took_no_time() -> None:
    few = {"even": 60.0, "square": 40.0, "late": 0.01, "small": 0.001}
    many = {"even": 660.0, "square": 4000.0, "late": 100.0, "small": 0.1}
    assert list(steep(few, many, 10)) == ["square grows by 10.0 x 10", "late grows by 5.0 x 10"]


def test_the_exponent_is_that_of_the_fit() -> None:
    sizes = (100, 300, 1000)
    assert exponent(sizes, [3 * n**1.5 for n in sizes]) == pytest.approx(1.5)


def test_the_table_has_each_stage_that_counts_and_their_sum() -> None:
    stages = {n: {"frontend": float(n), "lower": n**2 / 100, "rare": 1e-3} for n in (10, 100, 1000)}
    stages[1000]["late"] = 1000.0
    stages[100]["late"] = stages[10]["late"] = 0.0
    head, *lines = table(stages)
    assert head.split() == ["operations", "10", "100", "1000", "exponent"]
    assert [line.split() for line in lines[:2]] == [
        ["frontend", "10.00", "100.00", "1000.00", "1.00"], ["lower", "1.00", "100.00", "10000.00", "2.00"]
    ]
    # it has one time to fit, so it has no exponent
    assert lines[2].split() == ["late", "0.00", "0.00", "1000.00"]
    assert lines[3].split()[:4] == ["all", "11.00", "200.00", "12000.00"] and len(lines) == 4
