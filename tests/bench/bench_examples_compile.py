"""Compile time of the examples at the sizes that people run them at, Python to PTX, against a goal for their length.

The goal is 8 ms and 20 µs for each PTX instruction but the moves that ptxas makes none of. `ms` is the least CPU time
of RUNS compilations, of a process that has compiled the kernel before; `share` is that over the goal. Stages are those
of the same compilation, but for what a stage takes less than a twentieth.

Run: `python tests/bench/bench_examples_compile.py [PART OF A NAME ...]`. No GPU is needed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.example_sizes import EXAMPLES, Make  # noqa: E402
from tests.support.ptx import length  # noqa: E402

RUNS = 7
GOAL_MS, GOAL_MS_AN_INSTRUCTION = 8.0, 0.020


def measured(make: Make) -> tuple[float, dict[str, float], int]:
    """(milliseconds, those by stage, PTX instructions) of the fastest of RUNS compilations."""
    instructions = length(make().ptx)
    fastest, stages = float("inf"), {}
    for _ in range(RUNS):
        began = time.process_time()
        compiled = make()
        ms = 1e3 * (time.process_time() - began)
        if ms < fastest:
            fastest, stages = ms, compiled.timings
    return fastest, {name: ms for name, ms in stages.items() if name != "codegen"}, instructions


def main() -> None:
    print(f"{'example':36}{'PTX':>6}{'ms':>8}{'goal':>8}{'share':>7}   by stage, ms")
    for name, make in EXAMPLES.items():
        if sys.argv[1:] and not any(part in name for part in sys.argv[1:]):
            continue
        ms, stages, instructions = measured(make)
        goal = GOAL_MS + GOAL_MS_AN_INSTRUCTION * instructions
        listed = ", ".join(f"{stage} {each:.1f}" for stage, each in stages.items() if each >= ms / 20)
        print(f"{name:36}{instructions:6}{ms:8.1f}{goal:8.1f}{ms / goal:7.2f}   {listed}", flush=True)


if __name__ == "__main__":
    main()
