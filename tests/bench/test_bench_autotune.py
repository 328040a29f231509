"""The benchmark of tuning tells what tuning chose from what is best, and runs without a GPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.bench import bench_autotune
from tests.bench.bench_autotune import Found, Resumed, exhaustive, find, go_on, resumption, table
from tests.tuning.kernels import Clock, adding, configs, grid, installed_clock
from tilejit.tuning.table import Tuning

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def run(*argv: str) -> str:
    command = [sys.executable, "-m", "tests.bench.bench_autotune", *argv]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def arrays() -> Iterator[tuple[Any, ...]]:
    with tj.use_device("sim:sm_90a"):
        yield np.zeros(256, np.float32), np.zeros(1, np.int32), 256


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, arrays: Any) -> Clock:
    return installed_clock(monkeypatch, arrays[1])


def test_the_benchmark_runs_on_the_simulator() -> None:
    lines = run("--simulator").splitlines()
    row = next(" ".join(line.split()) for line in lines if line.startswith("64 "))
    assert "2 of 2 64 64 32 3 (2,2)" in row and row.endswith(" 1.000 within 1.03")
    assert "killed with 1 timing on the disk, of 2 in the end: the next process went on" in lines


def test_what_was_chosen_is_compared_with_each_configuration_timed_anew(clock: Clock, arrays: Any) -> None:
    k = adding()
    found = find(k, grid, 256, arrays, 3)
    assert (found.timings, found.runnable) == (2 + 30 + 30, 3)
    assert (found.chosen, found.chosen_ms, found.best, found.best_ms) == ("64", 1.0, "64", 1.0) and found.is_found
    clock.times = {32: 3.0, 64: 1.0, 128: 0.8}
    found = find(k, grid, 256, arrays, 3)
    assert (found.chosen, found.chosen_ms, found.best, found.best_ms) == ("64", 1.0, "128", 0.8)
    assert found.ratio == 1.25 and not found.is_found


def test_what_the_tuned_launch_leaves_is_checked_before_anything_else_is_launched(clock: Clock, arrays: Any) -> None:
    left: list[int] = []
    find(adding(), grid, 256, arrays, 3, lambda a, t, n: left.append(int(t[0])))
    assert left == [64] and arrays[1][0] == 128


def test_the_first_round_warms_up_and_the_median_counts(clock: Clock, arrays: Any) -> None:
    times = iter([9.0, 9.0, 3.0, 1.0, 1.0, 2.0, 2.0, 7.0])
    clock.time = lambda work: next(times)  # type: ignore[method-assign]
    assert exhaustive(adding().kernel, grid, configs(32, 64), arrays, 3) == [2.0, 2.0]


def test_what_cannot_run_is_not_compared(clock: Clock, arrays: Any) -> None:
    found = find(adding(configs=configs(64, 1 << 22, 128)), grid, 256, arrays, 3)
    assert found.runnable == 2 and found.chosen == found.best == "64"


FOUND = Found(1024, 12.34, 300, 24, "a", 0.1029, "b", 0.1)
RESUMED = Resumed(True, 80, 300, True)


def test_each_size_has_a_line_that_ends_with_the_verdict() -> None:
    lines = table([FOUND, FOUND._replace(size=2048, chosen_ms=0.1031)], 24, "ms")
    assert [" ".join(line.split()) for line in lines] == [
        "size tuned in timings can run chosen ms best ms of best",
        "1024 12.3 s 300 24 of 24 a 0.1029 b 0.1 1.029 within 1.03",
        "2048 12.3 s 300 24 of 24 a 0.1031 b 0.1 1.031 MISSED: more than 1.03",
    ]


@pytest.mark.parametrize(
    ("found", "resumed", "status"),
    [
        (FOUND, RESUMED, 0),
        (FOUND._replace(chosen_ms=0.1031), RESUMED, 1),
        (FOUND, RESUMED._replace(was_killed=False), 1),
        (FOUND, RESUMED._replace(known=0), 1),
        (FOUND, RESUMED._replace(known=300), 1),
        (FOUND, RESUMED._replace(kept=False), 1),
    ],
)
def test_the_exit_status_says_whether_anything_was_missed(
    found: Found, resumed: Resumed, status: int, clock: Clock, arrays: Any, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    k = adding()
    k[grid](*arrays)
    monkeypatch.setenv("TILEJIT_DEVICE", "sim:sm_90a")
    monkeypatch.setenv("TILEJIT_CACHE", "0")
    monkeypatch.setattr(tj, "autotune", lambda *_, **__: lambda _: k)
    for name, answer in (("find", found), ("kill_and_resume", resumed), ("product", ()), ("check", None)):
        monkeypatch.setattr(bench_autotune, name, lambda *_, answer=answer: answer)
    assert bench_autotune.main(["--simulator"]) == status
    assert ("MISSED" in capsys.readouterr().out) == bool(status)


def test_what_a_killed_tuning_leaves_is_compared_with_the_end(
    clock: Clock, arrays: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TILEJIT_CACHE", "1")
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    clock.limit = 3 + 6
    with pytest.raises(KeyboardInterrupt):
        adding()[grid](*arrays)
    clock.limit = 10**9
    resume, count = Tuning.resume, 0

    def once(self: Tuning, stored: bytes) -> None:
        nonlocal count
        count += 1
        if count == 1:
            resume(self, stored)

    # a search that doesn't go on: what is timed anew takes longer now
    with monkeypatch.context() as patch:
        patch.setattr(Tuning, "resume", once)
        patch.setattr(clock, "times", {32: 4.0, 64: 2.0, 128: 2.1})
        patch.setattr("tilejit.runtime.store.DiskStore.put", lambda *_: None)
        forgetful = go_on(adding(), grid, arrays)
    assert not forgetful.kept and resumption(forgetful).endswith("MISSED, what was timed was timed again")
    resumed = go_on(adding(), grid, arrays)
    assert resumed == Resumed(True, 2 + 6 + 6, 2 + 30 + 30, True) and resumed.is_right
    again = go_on(adding(), grid, arrays)
    assert resumption(again) == "killed with 62 timings on the disk, of 62 in the end: MISSED, it ended on its own"


def test_launches_are_timed_without_a_gpu() -> None:
    pytest.importorskip("cuda.bindings")
    from tilejit.runtime import devices

    if devices.cuda_problem() is None:
        pytest.skip("there is a GPU: it is for the benchmark itself to be run there")
    first, *rows = run("--launches").splitlines()
    assert first == "fake driver" and [row.partition("plain  ")[2] for row in rows] == [
        "plain", "tuned", "one configuration", "pruned to one", "plain, a new grid function",
        "tuned, a new grid function", "plain", "TILEJIT_AUTOTUNE=off",
    ]
