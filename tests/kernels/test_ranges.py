"""range with run-time ends and steps: as Python's, for every integer type, near the ends of the types too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.support.profiles import times
from tilejit.dtypes import DTYPES, DType
from tilejit.ir.arithmetic.facts import full_range
from tilejit.runtime.device import Launch
from tilejit.runtime.readers import view_of
from tilejit.runtime.simulated import SimulatedFunction

TURNS, THREADS = 20, 32
INTEGERS = [d for d in DTYPES.values() if d.is_integer]
LITERAL_STEPS = (1, 2, 3, 4, 64, 127, -1, -2, -3, -64, -128)


@tj.kernel(threads=32)
def walks(OUT, START, STOP, STEP):
    t = tj.thread_id()
    turns = 0
    for i in range(START[t], STOP[t], STEP[t]):
        OUT[t, turns] = i
        turns += 1
        if turns == 20:
            break
    OUT[t, 20] = turns


@tj.kernel(threads=32)
def walks_by(OUT, START, STOP, STEP: tj.constexpr):
    t = tj.thread_id()
    turns = 0
    for i in range(START[t], STOP[t], STEP):
        if turns == 20:
            break
        OUT[t, turns] = i
        turns += 1
        continue
    OUT[t, 20] = turns


@tj.kernel(threads=32)
def walks_to(OUT, START, ENDS: tj.constexpr):
    t = tj.thread_id()
    for k, (stop, step) in enumerate(ENDS):
        turns = 0
        for i in range(START[t], stop, step):
            if turns == 20:
                break
            OUT[k, t, turns] = i
            turns += 1
        OUT[k, t, 20] = turns


@pytest.fixture(autouse=True)
def simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")


def near_the_ends(dtype: DType) -> st.SearchStrategy[int]:
    """Numbers of a type: around 0, around both ends, anywhere."""
    low, high = full_range(dtype)
    small = st.integers(0, 40)
    around = st.integers(max(low, -40), min(high, 40))
    return st.one_of(around, small.map(lambda n: low + n), small.map(lambda n: high - n), st.integers(low, high))


def expected(ranges: list[range]) -> np.ndarray:
    rows = np.zeros((THREADS, TURNS + 1), np.uint64)
    for row, turns in zip(rows, ranges, strict=True):
        first = list(turns[:TURNS])
        row[: len(first)] = [i % 2**64 for i in first]
        row[TURNS] = len(first)
    return rows


def columns(dtype: DType, rows: list[tuple[int, ...]]) -> list[np.ndarray]:
    return [np.array(column, dtype.numpy) for column in zip(*rows, strict=True)]


@settings(max_examples=times(5))
@given(st.sampled_from(INTEGERS), st.data())
def test_ends_and_step_known_at_run_time(dtype: DType, data: Any) -> None:
    number = near_the_ends(dtype)
    triple = st.tuples(number, number, number.filter(bool))
    rows = data.draw(st.lists(triple, min_size=THREADS, max_size=THREADS))
    out = np.zeros((THREADS, TURNS + 1), np.uint64)
    walks[1](out, *columns(dtype, rows))
    np.testing.assert_array_equal(out, expected([range(*row) for row in rows]))


@settings(max_examples=times(5))
@given(st.sampled_from(INTEGERS), st.sampled_from(LITERAL_STEPS), st.data())
def test_a_step_known_when_compiling(dtype: DType, step: int, data: Any) -> None:
    """One that is negative counts an unsigned index down too."""
    number = near_the_ends(dtype)
    rows = data.draw(st.lists(st.tuples(number, number), min_size=THREADS, max_size=THREADS))
    out = np.zeros((THREADS, TURNS + 1), np.uint64)
    walks_by[1](out, *columns(dtype, rows), step)
    np.testing.assert_array_equal(out, expected([range(*row, step) for row in rows]))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_the_last_step_may_reach_past_the_types_end(dtype: DType) -> None:
    low, high = full_range(dtype)
    steps = [s for s in (high, high - 1, high // 2, 3, 2, 1, -1, -2, low, low + 1, low // 2) if low <= s <= high and s]
    ends = [(low, high), (high, low), (low, low), (high - 1, high), (high, high - 1), (low + 1, low), (0, high)]
    triples = [(*pair, step) for pair in ends for step in steps]
    for at in range(0, len(triples), THREADS):
        rows = [triples[(at + k) % len(triples)] for k in range(THREADS)]
        out = np.zeros((THREADS, TURNS + 1), np.uint64)
        walks[1](out, *columns(dtype, rows))
        np.testing.assert_array_equal(out, expected([range(*row) for row in rows]))


#: how far a stop is from the end of its type, and the step: up to one more than that the index stays in its type
DISTANCES = ((0, 1), (0, 2), (0, 3), (0, 100), (1, 2), (1, 3), (2, 3), (2, 4))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_a_stop_and_a_step_known_when_compiling_may_reach_past_the_types_end(dtype: DType) -> None:
    low, high = full_range(dtype)
    up = tuple((high - distance, step) for distance, step in DISTANCES), [high - k for k in range(THREADS)]
    down = tuple((low + distance, -step) for distance, step in DISTANCES), [low + k for k in range(THREADS)]
    for ends, starts in (up, down):
        out = np.zeros((len(ends), THREADS, TURNS + 1), np.uint64)
        walks_to[1](out, np.array(starts, dtype.numpy), ends)
        for rows, end in zip(out, ends, strict=True):
            np.testing.assert_array_equal(rows, expected([range(start, *end) for start in starts]))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_a_step_of_zero_is_an_error_in_checked_builds_and_runs_no_iteration_in_others(dtype: DType) -> None:
    limits = columns(dtype, [(1, 9, 0)] * THREADS)
    out = np.zeros((THREADS, TURNS + 1), np.uint64)
    with pytest.raises(tj.SimulationError, match="range has a step of 0: range\\(START") as caught:
        walks[1](out, *limits)
    assert "for i in range" in str(caught.value)
    arrays = [out, *limits]
    compiled = walks.compile(*arrays, target="sm_90a")
    function = SimulatedFunction(compiled)
    function.simulate(Launch((1, 1, 1), THREADS, None), [view_of(a) for a in arrays], checks=False, profile=False)
    assert (out == 0).all()


def test_a_step_whose_sign_is_known_costs_one_comparison_and_one_addition_per_iteration() -> None:
    for step in (4, -4):
        text = walks_by.compile(
            tj.spec((32, 21), tj.uint64), tj.spec((32,), tj.int64), tj.spec((32,), tj.int64), step, target="sm_90a"
        ).llvm_ir
        latch = text[text.index("\nnext") :].partition("br i1")[0]
        assert [line.split("= ")[1].split()[0] for line in latch.splitlines() if " = " in line] == ["icmp", "add"]


@tj.kernel(threads=1)
def from_signed_to_unsigned(OUT, start, stop):
    OUT[0] = 0
    OUT[1] = 0
    for i in range(start, stop):
        OUT[0] += 1
        OUT[1] += i


@settings(max_examples=times(1.3))
@given(st.sampled_from([d for d in INTEGERS if d.kind == "int"]), st.integers(-20, 20), st.integers(0, 20))
def test_a_signed_start_and_an_end_of_uint64_count_as_in_python(dtype: DType, start: int, stop: int) -> None:
    out = np.zeros(2, np.int64)
    from_signed_to_unsigned[1](out, dtype.numpy.type(start), np.uint64(stop))
    assert list(out) == [len(range(start, stop)), sum(range(start, stop))]


def test_an_end_of_uint64_past_int64_is_an_error_in_checked_builds() -> None:
    with pytest.raises(tj.SimulationError, match="ends past int64: range\\(start, stop\\)"):
        from_signed_to_unsigned[1](np.zeros(2, np.int64), np.int8(0), np.uint64(2**63))


def test_a_start_of_uint64_with_a_signed_end_asks_for_a_conversion() -> None:
    with pytest.raises(tj.KernelTypeError, match="no integer type holds all values of"):
        from_signed_to_unsigned[1](np.zeros(2, np.int64), np.uint64(0), np.int8(3))
