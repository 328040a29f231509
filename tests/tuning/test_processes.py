"""Tuning in several processes: candidates are compiled side by side, and one that is killed is gone on with."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.tuning.kernels import Clock, adding, configs, grid
from tilejit.runtime import workers

pytestmark = pytest.mark.integration

#: a program that tunes. It prints the configurations that it counts, and stops at the third if asked to wait
PROGRAM = """
import sys, time
import numpy as np
import tilejit as tj
from tilejit.runtime import workers
workers.START_SECONDS = 1e9  # all are compiled here, in their order

@tj.autotune([tj.Config({"B": block}) for block in (32, 64, 128, 256)], key=["N"], reset=["A"])
@tj.kernel(threads=32)
def add_one(A: tj.Tensor, N: tj.int32, B: tj.constexpr):
    start = tj.cta_id(0) * B
    tj.cta.store(A[start : start + B], tj.cta.load(A[start : start + B]) + 1.0)

def grid(meta):
    print(meta["B"], flush=True)
    if sys.argv[1] == "wait" and meta["B"] == 128:
        time.sleep(600)
    return (tj.cdiv(meta["N"], meta["B"]),)

a = np.zeros(256, np.float32)
add_one[grid](a, 256)
assert (a == 1).all()
print("best", add_one.tuning[0].best.config.values["B"], *(len(t.samples) for t in add_one.tuning[0].trials))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such signal")
def test_a_tuning_that_is_killed_is_gone_on_with_by_the_next_process(disk: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "TILEJIT_DEVICE": "sim:sm_90a", "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, str(program)]
    with subprocess.Popen([*command, "wait"], env=environment, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert [first.stdout.readline() for _ in range(3)] == ["32\n", "64\n", "128\n"]
        first.kill()
        assert first.stdout.read() == ""
    assert first.returncode == -signal.SIGKILL
    for counted in (["128", "256"], []):
        again = subprocess.run([*command, "on"], env=environment, capture_output=True, text=True, check=True)
        *seen, best = again.stdout.splitlines()
        # the last is what is launched
        assert seen == [*counted, "256"] and best == "best 256 1 1 1 1"


def test_candidates_are_compiled_side_by_side(arrays: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    started, begin = [], workers.WorkerProcess.__init__

    def noting(self: workers.WorkerProcess) -> None:
        started.append(self)
        begin(self)

    monkeypatch.setattr(workers, "START_SECONDS", 0.0)
    monkeypatch.setattr(workers, "processors", lambda: 2)
    monkeypatch.setattr(workers.WorkerProcess, "__init__", noting)

    @tj.autotune(configs(32, 64, 128), key=[])
    @tj.kernel(threads=32)
    def stored(A: tj.Tensor, T: tj.Tensor, B: tj.constexpr):
        if tj.thread_id() == 0:
            T[0] = B

    stored[1](*arrays)
    assert len(started) == 2, "the first is compiled here, by whose time processes are worth it, and each other in one"
    # what came from another process is derived again where somebody asks
    assert sorted(v.compiled.is_derived for v in stored.signatures) == [False, False, True]
    assert arrays[1][0] == 64 and len(stored.tuning[0].trials) == 3


def test_where_no_process_comes_up_every_candidate_is_timed(
    arrays: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(workers, "START_SECONDS", 0.0)
    monkeypatch.setattr(workers, "processors", lambda: 2)
    monkeypatch.setattr(sys, "executable", shutil.which("false") or shutil.which("where"))
    kernel = adding()
    kernel[grid](*arrays, 256)
    assert all(trial.reason is None and trial.samples for trial in kernel.tuning[0].trials)


def test_few_candidates_that_are_quickly_compiled_start_no_process(
    arrays: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "START_SECONDS", 1e9)
    monkeypatch.setattr(workers.WorkerProcess, "__init__", lambda _: pytest.fail("a process was started"))
    adding()[grid](*arrays, 256)
    assert len(clock.tried) > 3


def test_an_error_ends_the_processes(arrays: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    started, begin = [], workers.WorkerProcess.__init__

    def noting(self: workers.WorkerProcess) -> None:
        begin(self)
        started.append(self)

    monkeypatch.setattr(workers, "START_SECONDS", 0.0)
    monkeypatch.setattr(workers, "processors", lambda: 2)
    monkeypatch.setattr(workers.WorkerProcess, "__init__", noting)

    @tj.autotune(configs(32, 64, 128, 256), key=[])
    @tj.kernel(threads=32)
    def stored(A: tj.Tensor, B: tj.constexpr):
        A[tj.thread_id()] = B

    def failing(meta: Mapping[str, Any]) -> int:
        if meta["B"] != 32:
            raise ValueError("no grid")
        return 1

    with pytest.raises(tj.LaunchError, match="the grid function failing raised ValueError: no grid"):
        stored[failing](np.zeros(32, np.float32))
    assert started and all(process._process.returncode is not None for process in started)
