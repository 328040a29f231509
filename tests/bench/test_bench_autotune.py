"""The benchmark of tuning runs without a GPU, and finds the best of what it counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_benchmark_runs_on_the_simulator() -> None:
    command = [sys.executable, "tests/bench/bench_autotune.py", "--simulator"]
    run = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    assert "2 of 2 can run" in run.stdout and "of best: 1.000;" in run.stdout
