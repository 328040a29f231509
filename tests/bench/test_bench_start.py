"""The benchmark of starts names programs that exist, and judges each row by its goals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import pytest

from tests.bench.bench_start import CACHES, GPU, ROWS, Medians, comparison, medians, table
from tests.bench.start_programs import PROGRAMS

pytestmark = pytest.mark.integration


def all_marks(seconds: float) -> Medians:
    """Every contender's, all of one value."""
    names = [c.program + suffix for c in GPU for suffix in (("", " cached") if c.cached else ("",))]
    marks: Mapping[str, float] = defaultdict(lambda: seconds)
    return dict.fromkeys(names, marks)


def test_contenders_are_programs_and_every_one_of_them_has_caches_of_its_own() -> None:
    assert {c.program for c in GPU} | {"quickstart"} == set(PROGRAMS)
    assert len(set(CACHES)) == 4


def test_every_row_is_computed_from_runs_of_the_contenders() -> None:
    for row in ROWS:
        assert row.ours(all_marks(1.0)) == 1
        assert all(most(all_marks(1.0)) > 0 for _, most in row.at_most)


def test_a_row_is_reached_or_missed_by_its_own_goal() -> None:
    lines = [line for line in table(all_marks(1.0)) if "first kernel" in line or "150" in line]
    assert lines == [
        "first kernel, nothing cached, from the call       1000 of     300  (0.3 x Triton's): MISSED",
        "process start to first result, cached             1000 of    1150  (imports + context + 150): reached",
    ]


def test_rows_without_their_contenders_say_so() -> None:
    assert sum("not measured here" in line for line in table({"floor": {"context": 1.0}})) == len(ROWS)


def test_medians_are_taken_mark_by_mark() -> None:
    assert medians({"a": [{"x": 1.0, "y": 5.0}, {"x": 3.0, "y": 4.0}, {"x": 2.0, "y": 9.0}]}) == {
        "a": {"x": 2.0, "y": 5.0}
    }


def test_the_simulators_start_is_judged_against_another_checkouts_of_the_same_round() -> None:
    # a machine that halves its speed meanwhile
    here = [{"result": 0.6, "explained": 0.8}, {"result": 1.2, "explained": 1.6}, {"result": 1.0, "explained": 1.0}]
    there = [{"result": 1.0, "explained": 1.0}, {"result": 2.0, "explained": 2.0}, {"result": 1.0, "explained": 1.0}]
    lines = comparison({"here": here, "there": there})
    assert lines[2:] == ["to result: 0.60 of 0.70: reached", "to explained: 0.80 of 0.70: MISSED"]
    assert len(comparison({"here": here})) == 1
