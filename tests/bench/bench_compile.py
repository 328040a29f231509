"""Compile time of the demonstration kernels and of `examples/matmul.py`, call to PTX, over 20 runs.

Columns: the median of the wall clock; the median and the least of the process's CPU time, which other processes disturb
less; the median wall clock of each stage.

Run: `python tests/bench/bench_compile.py`. No GPU is needed.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import tilejit as tj
from tilejit import S, laneid

sys.path.insert(0, str(Path(__file__).parents[2]))
from examples.matmul import matmul  # noqa: E402

# what is measured is compiled
os.environ["TILEJIT_CACHE"] = "0"

RUNS = 20
ROWS = S[(32, 8) : (1 @ laneid, 1)]


def global_shared(A: tj.Tensor, B: tj.Tensor):
    staged = tj.alloc_shared((32, 32), A.dtype)
    tj.warp.copy(staged, A[0:32, 0:32])
    tj.cta_sync()
    tj.warp.copy(B[0:32, 0:32], staged)


def shared_registers(A: tj.Tensor, B: tj.Tensor):
    staged = tj.alloc_shared((32, 8), A.dtype)
    r = tj.alloc_local((32, 8), A.dtype, layout=ROWS)
    tj.warp.copy(staged, A[0:32, 0:8])
    tj.cta_sync()
    tj.warp.copy(r, staged)
    tj.cta_sync()
    tj.warp.copy(staged, r)
    tj.cta_sync()
    tj.warp.copy(B[0:32, 0:8], staged)


def square_root(A: tj.Tensor, B: tj.Tensor):
    staged = tj.alloc_shared((32, 8), A.dtype)
    r = tj.alloc_local((32, 8), A.dtype, layout=ROWS)
    tj.warp.copy(staged, A[0:32, 0:8])
    tj.cta_sync()
    tj.warp.copy(r, staged)
    tj.warp.sqrt(r, r)
    tj.warp.copy(staged, r)
    tj.cta_sync()
    tj.warp.copy(B[0:32, 0:8], staged)


Made = Callable[[], tj.Compiled]


def demonstrations() -> dict[str, Made]:
    """What compiles each kernel, with an empty cache."""
    found: dict[str, Made] = {}
    for function, columns in ((global_shared, 32), (shared_registers, 8), (square_root, 8)):
        spec = tj.spec((32, columns), tj.float32)
        found[function.__name__] = partial(_compiled, function, 32, (spec, spec))
    square = tj.spec((8192, 8192), tj.float16)
    found["matmul"] = partial(_compiled, matmul.__wrapped__, 256, (square, square, None, square, None))
    return found


def _compiled(function: Callable[..., None], threads: int, arguments: tuple[object, ...]) -> tj.Compiled:
    return tj.kernel(threads=threads)(function).compile(*arguments, target="sm_90a")


def main() -> None:
    print(f"{'kernel':20}{'total ms':>10}{'CPU ms':>9}{'least':>8}   by stage, ms")
    for name, make in demonstrations().items():
        totals, cpu, stages = [], [], []
        for run in range(RUNS + 3):
            began, cpu_began = time.perf_counter(), time.process_time()
            compiled = make()
            if run >= 3:
                cpu.append(1e3 * (time.process_time() - cpu_began))
                totals.append(1e3 * (time.perf_counter() - began))
                stages.append(compiled.timings)
        by_stage = {stage: statistics.median(s[stage] for s in stages) for stage in stages[0]}
        listed = ", ".join(f"{stage} {ms:.2f}" for stage, ms in by_stage.items() if ms >= 0.1)
        times = f"{statistics.median(totals):10.2f}{statistics.median(cpu):9.2f}{min(cpu):8.2f}"
        print(f"{name:20}{times}   {listed}")


if __name__ == "__main__":
    main()
