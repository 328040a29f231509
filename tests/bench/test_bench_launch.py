"""The benchmark of launches treats its contenders alike, and runs without a GPU."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.bench.bench_launch import WARM_UP_ROUNDS, in_turn


def test_each_contender_has_one_batch_a_round_and_begins_as_often_as_the_others() -> None:
    calls: list[str] = []
    in_turn({name: lambda name=name: calls.append(name) for name in "abc"}, rounds=9 - WARM_UP_ROUNDS, batch=2)
    assert Counter(calls) == dict.fromkeys("abc", 18)
    assert Counter(calls[::6]) == dict.fromkeys("abc", 3)
    assert all(sorted(calls[at : at + 6]) == list("aabbcc") for at in range(0, len(calls), 6))


def test_a_clock_that_slows_down_favours_nobody_whatever_the_order() -> None:
    def medians(names: str) -> dict[str, float]:
        now = 0.0

        def launch() -> None:
            nonlocal now
            now += 1000 + now / 1000

        return in_turn(dict.fromkeys(names, launch), rounds=300, batch=1, clock=lambda: int(now))

    for names in ("abc", "cba"):
        found = medians(names).values()
        assert max(found) < 1.01 * min(found)


def test_what_waits_for_launches_is_not_measured() -> None:
    now = 0

    def passing(time: int) -> None:
        nonlocal now
        now += time

    found = in_turn({"a": lambda: passing(7)}, 3, settle=lambda: passing(1_000_000), clock=lambda: now)
    assert found == {"a": 7}


def test_the_benchmark_runs_without_a_gpu() -> None:
    pytest.importorskip("cuda.bindings")
    from tilejit.runtime import devices

    if devices.cuda_problem() is None:
        pytest.skip("there is a GPU: it is for the benchmark itself to be run there")
    command = [sys.executable, "-m", "tests.bench.bench_launch", "1"]
    run = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("fake driver") and run.stdout.count(" us  tilejit, ") == 6
