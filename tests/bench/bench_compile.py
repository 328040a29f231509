"""Compile time of the demonstration kernels, from call to PTX, by stage: the median of 20 after warm-up.

Run: `python tests/bench/bench_compile.py`. No GPU is needed.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

import tilejit as tj
from tilejit import S, laneid

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


def main() -> None:
    print(f"{'kernel':20}{'total ms':>10}   by stage, ms")
    for function, columns in ((global_shared, 32), (shared_registers, 8), (square_root, 8)):
        a = np.zeros((32, columns), np.float32)
        totals, stages = [], []
        for run in range(RUNS + 3):
            kernel = tj.kernel(threads=32)(function)  # a new kernel has an empty cache
            began = time.perf_counter()
            compiled = kernel.compile(a, a.copy(), target="sm_90a")
            if run >= 3:
                totals.append(1e3 * (time.perf_counter() - began))
                stages.append(compiled.timings)
        by_stage = {name: statistics.median(s[name] for s in stages) for name in stages[0]}
        listed = ", ".join(f"{name} {ms:.2f}" for name, ms in by_stage.items())
        print(f"{function.__name__:20}{statistics.median(totals):10.2f}   {listed}")


if __name__ == "__main__":
    main()
