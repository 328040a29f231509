"""Rounds of timings: their order, when something leaves them, and when they end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import numpy as np
import pytest

import tilejit as tj
from tilejit.runtime import timing
from tilejit.runtime.simulated import SECTOR, THREAD_INSTRUCTION, WAVEFRONT
from tilejit.runtime.timing import Contender, race
from tilejit.testing import do_bench


class FakeBench:
    """A clock that believes what work says that it takes. rounds: the work of each."""

    unit = "ms"

    def __init__(self, is_exact: bool = False) -> None:
        self.is_exact = is_exact
        self.rounds: list[list[Callable[[], object]]] = []

    def staged(self, call: object) -> object:
        return call

    def round(self, works: Sequence[Callable[[], object]]) -> list[float]:
        self.rounds.append(list(works))
        return [float(work()) for work in works]  # type: ignore[arg-type]


def steady(*times: float) -> list[Contender]:
    return [Contender(lambda time=time: time) for time in times]


def test_contenders_take_turns_and_each_is_first_once() -> None:
    bench, contenders = FakeBench(), steady(1.0, 1.01, 1.02)
    race(bench, contenders, most=6, enough=1e9)
    order = [[[c.work for c in contenders].index(work) for work in works] for works in bench.rounds]
    assert order == [[1, 2, 0], [2, 0, 1], [0, 1, 2]] * 2
    assert [c.samples for c in contenders] == [[1.0] * 6, [1.01] * 6, [1.02] * 6]


def test_clear_losers_leave_early_and_close_ones_stay() -> None:
    bench, contenders = FakeBench(), steady(1.0, 5.0, 1.2, 1.05)
    race(bench, contenders, most=20, enough=1e9)
    assert [len(c.samples) for c in contenders] == [20, 2, 4, 20]
    assert [c.is_out for c in contenders] == [False, True, True, False]


def test_one_slow_timing_eliminates_no_contender() -> None:
    # the clock was still low, or another program ran
    times = [iter([9.0, *[1.0] * 99]), iter([2.0] * 99)]
    contenders = [Contender(lambda t=t: next(t)) for t in times]
    race(FakeBench(), contenders, most=20, enough=1e9)
    assert [c.is_out for c in contenders] == [False, True]
    assert contenders[0].median == 1.0 and len(contenders[1].samples) == 4


def test_the_median_and_not_the_luckiest_timing_wins() -> None:
    lucky = count()
    contenders = [Contender(lambda: 0.95 if next(lucky) == 4 else 1.05), Contender(lambda: 1.0)]
    race(FakeBench(), contenders, most=11, enough=1e9)
    assert [c.median for c in contenders] == [1.05, 1.0]


def test_it_ends_when_enough_was_timed_or_one_is_left() -> None:
    contenders = steady(10.0, 10.5)
    race(FakeBench(), contenders, most=100, enough=80.0)
    assert [len(c.samples) for c in contenders] == [8, 8]
    contenders = steady(100.0, 101.0)
    race(FakeBench(), contenders, most=100, enough=80.0)
    assert [len(c.samples) for c in contenders] == [timing.LEAST] * 2
    contenders = steady(1.0, 3.0)
    race(FakeBench(), contenders, most=100, enough=1e9)
    assert [len(c.samples) for c in contenders] == [timing.LEAST, 2]


def test_what_is_exact_is_timed_once() -> None:
    bench, contenders = FakeBench(is_exact=True), steady(2.0, 1.0)
    race(bench, contenders, most=100, enough=1e9)
    race(bench, contenders, most=100, enough=1e9)
    assert [c.samples for c in contenders] == [[2.0], [1.0]]


def test_what_was_timed_before_counts() -> None:
    contenders = steady(1.0, 1.0)
    contenders[0].samples.extend([1.0] * 7)
    race(FakeBench(), contenders, most=10, enough=1e9)
    assert [len(c.samples) for c in contenders] == [10, 10]


@tj.kernel(threads=32)
def sums(A: tj.Tensor, B: tj.Tensor, N: tj.constexpr):
    s = tj.alloc_shared((32, 33), tj.float32)
    i = tj.thread_id()
    total = 0.0
    for j in tj.static_range(N):
        total = total + A[i, j]
    s[i, 0] = total
    B[i] = s[i, 0]


def test_on_the_simulator_costs_are_counted() -> None:
    a, b = np.ones((32, 64), np.float32), np.zeros(32, np.float32)
    with tj.use_device("sim:sm_90a"):
        few, more = do_bench([lambda: sums[1](a, b, 4), lambda: sums[1](a, b, 16)])
        assert few < more and (few, more) == (
            do_bench(lambda: sums[1](a, b, 4)), do_bench([lambda: sums[1](a, b, 16)])[0]
        )
        assert do_bench(lambda: None) == 0
        # what is counted is what a GPU would run, and the arrays are written
        report = tj.simulate(sums, 1, a, b, 4, profile=True)
        assert b[0] == 4.0 and not any("pmevent" in name for name in report.instructions)
    traffic = [line.traffic for line in report.lines.values()]
    parts = (
        THREAD_INSTRUCTION * report.thread_instructions, WAVEFRONT * sum(t.wavefronts for t in traffic),
        SECTOR * sum(t.sectors for t in traffic),
    )
    assert min(parts) > 0 and few == sum(parts)


def test_launches_are_checked_again_afterwards() -> None:
    @tj.kernel(threads=32)
    def beyond(A: tj.Tensor):
        A[tj.thread_id() + 1 - 1, 40] = 1.0

    a = np.zeros((64, 32), np.float32)
    with tj.use_device("sim"):
        do_bench(lambda: beyond[1](a))
        with pytest.raises(tj.OutOfBoundsError):
            beyond[1](a)


def test_warming_up_ends_and_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = FakeBench()

    class Device:
        def bench(self, *_: object) -> Device:
            return self

        def __enter__(self) -> FakeBench:
            return bench

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(timing.devices, "default", Device)
    times = iter([50.0, *[10.0] * 100])
    assert do_bench(lambda: next(times), warmup=45, rep=100) == 10.0
    assert len(bench.rounds) == 1 + 10
    bench.rounds.clear()
    assert do_bench([lambda: 0.0], warmup=1) == [0.0]
    assert len(bench.rounds) == 2 * timing._MOST


@pytest.mark.parametrize("work", [[], [3], (None,), 3, None])
def test_what_is_no_function_is_refused(work: object) -> None:
    with pytest.raises(tj.LaunchError, match="do_bench times functions without arguments"):
        do_bench(work)  # type: ignore[call-overload]
