"""`examples/matmul.py` against cuBLAS (through torch) and a Triton kernel, float16, in one run.

Run on a machine with a GPU, torch and triton: `python tests/bench/bench_matmul.py [sizes]`. Inputs are random and
rotated among sets larger than L2 together; times are medians of CUDA event times. At these sizes a GPU runs into its
power limit, and a launch inherits the clocks that those before it left behind. Hence three columns:

alone     launches of one contender back to back, until the clocks are its own; as triton.testing.do_bench measures
rested    single launches of the contenders in turn, each after a pause in which the clocks recover
in turn   the same without a pause: each runs at clocks that the others, who take more power or less, have left
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from examples import matmul as example  # noqa: E402

SIZES = (2048, 4096, 8192)
ROUNDS = 3
ALONE_SECONDS = 0.4
BATCH = 20  # launches timed together: the events between them would cost as much as a small product
TURNS = 20
PAUSE_SECONDS = 0.03
L2_BYTES = 50 * 2**20
SLEEP_CYCLES = 1_000_000  # the host gets ahead meanwhile, so that no launch overhead is timed

Run = Callable[..., object]


def triton_matmul() -> Run:
    """A Triton kernel in the style of its matrix multiplication tutorial: grouped tiles, autotuned."""
    import triton
    import triton.language as tl

    configs = [
        triton.Config({"BM": bm, "BN": bn, "BK": bk, "GROUP": 8}, num_stages=stages, num_warps=warps)
        for bm, bn, bk, stages, warps in (
            (128, 256, 64, 3, 8),
            (128, 128, 64, 4, 4),
            (128, 128, 32, 4, 4),
            (64, 256, 32, 4, 4),
            (256, 128, 64, 3, 8),
        )
    ]

    @triton.autotune(configs, key=["M", "N", "K"])
    @triton.jit
    def kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
        cta = tl.program_id(0)
        columns = "".join(
            f"{each[name]:9.3f} ms {2 * size**3 / each[name] / 1e9:4.0f} TFLOP/s {each['cuBLAS'] / each[name]:5.2f}"
            for each in found
        )
        print(f"{size:6} {name:8}{columns}   error {errors[name]:.1e}", flush=True)


def main() -> None:
    import torch
    import triton

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    print(f"{'':15}" + "".join(f"{column + ', of cuBLAS':>31}" for column in ("alone", "rested", "in turn")))
    launch = triton_matmul()
    for size in [int(argument) for argument in sys.argv[1:]] or SIZES:
        measure(size, launch)


if __name__ == "__main__":
    main()
