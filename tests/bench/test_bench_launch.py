"""The benchmark of launches treats all contenders in the same way, and runs without a GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.bench.bench_launch import (
    GOALS,
    GUARDED,
    OWN,
    TORCH,
    WARM_UP_ROUNDS,
    Contenders,
    check_status,
    in_turn,
    judged,
    of_peer,
)

pytestmark = pytest.mark.integration


def test_each_contender_has_one_batch_a_round_and_begins_as_often_as_the_others() -> None:
    calls: list[str] = []
    in_turn({name: lambda name=name: calls.append(name) for name in "abc"}, rounds=9 - WARM_UP_ROUNDS, batch=2)
    assert Counter(calls) == dict.fromkeys("abc", 18)
    assert Counter(calls[::6]) == dict.fromkeys("abc", 3)
    assert all(sorted(calls[at : at + 6]) == list("aabbcc") for at in range(0, len(calls), 6))


def test_a_clock_that_slows_down_favours_no_contender_whatever_the_order() -> None:
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
    # the fake driver is a GPU's: the simulator would take its place
    environment = {name: value for name, value in os.environ.items() if name != "TILEJIT_DEVICE"}
    folder = Path(__file__).parents[2]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.startswith("fake driver") and run.stdout.count(" us  tilejit, ") == 6
    # goals are of contenders that there are, as they are called on a GPU
    ends = re.findall(rf" us  tilejit, {OWN}(.*)$", run.stdout, re.MULTILINE)
    there = {f"tilejit, {owner}{end}" for owner in (OWN, TORCH, GUARDED) for end in ends}
    assert {goal.contender for goal in GOALS} <= there and len(ends) == 3
    assert run.stdout.count("not measured here") == len(GOALS)


def test_what_the_driver_refuses_is_no_launch() -> None:
    check_status("ctypes", 0)
    check_status("binding", (0,))
    for status in (400, (400,)):
        with pytest.raises(RuntimeError, match="raw ends with error 400"):
            check_status("raw", status)


def test_a_goal_is_reached_or_missed_by_its_own_peer() -> None:
    times = {goal.contender: 10.0 for goal in GOALS}
    lines = judged({**times, "Triton": 16.2, "raw: one way": 4.35, "raw: another": 9.0})
    assert [line.rpartition("  ")[2] for line in lines] == [
        "0.62: reached", "2.30: reached", "0.62: MISSED", "2.30: MISSED", "0.62: MISSED", "2.30: MISSED",
        "2.30: MISSED",
    ]


def test_raw_is_the_fastest_of_its_ways_and_a_peer_that_is_absent_is_none() -> None:
    times = {"raw: a": 5.0, "raw: b": 4.0, "rawer": 1.0}
    assert of_peer(times, "raw") == 4 and of_peer(times, "Triton") is None
    assert all("not measured here" in line for line in judged(times))


def test_a_contender_that_cant_run_says_why() -> None:
    contenders = Contenders()
    contenders.add("away", ("sys", "tests.not_there", "tests.neither"), dict)
    contenders.add("unmade", (), lambda: {"unmade": 1 // 0})  # type: ignore[dict-item]
    contenders.add("failing", (), lambda: {"fine": list, "failing": lambda: [].pop()})
    contenders.add("there", ("sys",), lambda: {"one": list, "two": dict})
    assert contenders.launches == {"one": list, "two": dict}
    assert contenders.absent == {
        "away": "no tests.not_there and no tests.neither",
        "unmade": "ZeroDivisionError: integer division or modulo by zero",
        "failing": "IndexError: pop from empty list",
    }
