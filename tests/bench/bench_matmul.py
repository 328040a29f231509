"""`examples/matmul.py` against cuBLAS (through torch) and a Triton kernel, float16, in one run.

Run on a machine with a GPU, torch and triton: `python tests/bench/bench_matmul.py [sizes]`. With `float32` before the
sizes, `examples/matmul_float32.py` in each precision against cuBLAS in float32, without tf32; no Triton. Inputs are
random and rotated among sets larger than L2 together; times are medians of CUDA event times. At these sizes a GPU runs
into its power limit, and a launch inherits the clocks of those before it. Hence three columns:

alone     launches of one contender back to back, until the clocks are its own; as triton.testing.do_bench measures
rested    single launches of the contenders in turn, each after a pause in which the clocks recover
in turn   the same without a pause: each runs at clocks that the others, which take more or less power, have left
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from examples import matmul as example  # noqa: E402
from examples import matmul_float32  # noqa: E402
from tests.bench.gpu import machine, milliseconds  # noqa: E402

SIZES = (2048, 4096, 8192)
ROUNDS = 3
ALONE_SECONDS = 0.4
BATCH = 20  # launches timed together: the events between them would cost as much as a small product
TURNS = 20
PAUSE_SECONDS = 0.03
L2_BYTES = 50 * 2**20

Run = Callable[..., object]


def triton_matmul(tuned: bool = True) -> Run:
    """A Triton kernel in the style of its matrix multiplication tutorial: grouped tiles, autotuned or one of them."""
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

    @triton.autotune(configs if tuned else configs[:1], key=["M", "N", "K"])
    @triton.jit
    def kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
        cta = tl.program_id(0)
        columns = tl.cdiv(N, BN)
        first = cta // (GROUP * columns) * GROUP
        height = min(tl.cdiv(M, BM) - first, GROUP)
        row = first + cta % (GROUP * columns) % height
        column = cta % (GROUP * columns) // height
        m = (row * BM + tl.arange(0, BM)) % M
        n = (column * BN + tl.arange(0, BN)) % N
        k = tl.arange(0, BK)
        at = a + m[:, None] * K + k[None, :]
        bt = b + k[:, None] * N + n[None, :]
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(0, tl.cdiv(K, BK)):
            left = tl.load(at, mask=k[None, :] < K - step * BK, other=0.0)
            right = tl.load(bt, mask=k[:, None] < K - step * BK, other=0.0)
            total = tl.dot(left, right, total)
            at += BK
            bt += BK * N
        m = row * BM + tl.arange(0, BM)
        n = column * BN + tl.arange(0, BN)
        tl.store(c + m[:, None] * N + n[None, :], total.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))

    def launch(a, b, c):  # type: ignore[no-untyped-def]
        (m, k), n = a.shape, b.shape[1]
        kernel[lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)](a, b, c, m, n, k)

    return launch


def alone(contenders: dict[str, Run], inputs: Sequence[tuple[Any, Any]]) -> dict[str, float]:
    """Each contender's median time when nothing else runs."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(ROUNDS + 1):
        for name, run in contenders.items():
            own: list[float] = []
            rotated = itertools.cycle(inputs)
            ends = time.perf_counter() + ALONE_SECONDS
            while time.perf_counter() < ends:
                own.append(milliseconds(lambda run=run, rotated=rotated: run(*next(rotated)), BATCH))
            if turn:  # the first only warms up
                times[name] += own[len(own) // 4 :]  # before, the clocks are still the last contender's
    return {name: statistics.median(each) for name, each in times.items()}


def in_turn(contenders: dict[str, Run], inputs: Sequence[tuple[Any, Any]], pause: float) -> dict[str, float]:
    """Each contender's median time in single launches, with seconds of rest before each."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(TURNS):
        for name, run in contenders.items():
            time.sleep(pause)
            times[name].append(milliseconds(partial(run, *inputs[turn % len(inputs)])))
    return {name: statistics.median(each) for name, each in times.items()}


def measure_float16(size: int, triton_launch: Run) -> None:
    import torch

    c = torch.empty(size, size, device="cuda", dtype=torch.float16)
    ours = example.matmul[example.grid(size, size)]
    contenders: dict[str, Run] = {
        "cuBLAS": lambda a, b: torch.matmul(a, b, out=c),
        "Triton": lambda a, b: triton_launch(a, b, c),
        "tilejit": lambda a, b: ours(a, b, None, c, None),
    }
    measure(size, c, contenders)


def measure_float32(size: int) -> None:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    c = torch.empty(size, size, device="cuda", dtype=torch.float32)
    ours = matmul_float32.matmul[matmul_float32.grid(size, size)]
    contenders: dict[str, Run] = {"cuBLAS": lambda a, b: torch.matmul(a, b, out=c)}
    for precision in ("tf32x3", "ieee", "tf32"):
        contenders[precision] = partial(lambda p, a, b: ours(a, b, c, precision=p), precision)
    measure(size, c, contenders)


def measure(size: int, c: Any, contenders: dict[str, Run]) -> None:
    """Prints one row a contender for a size³ product, which each writes to c."""
    import torch

    sets = max(2, -(-2 * L2_BYTES // (2 * size * size * c.element_size())))
    inputs = [
        (torch.randn(size, size, device="cuda", dtype=c.dtype) / size**0.5,
         torch.randn(size, size, device="cuda", dtype=c.dtype))
        for _ in range(sets)
    ]
    a, b = inputs[0]
    exact = a.double() @ b.double()
    errors = {}
    for name, run in contenders.items():
        c.fill_(float("nan"))
        run(a, b)
        errors[name] = float((c.double() - exact).norm() / exact.norm())
        assert errors[name] < 1e-2, f"{name} is wrong: {errors[name]}"
    found = (
        alone(contenders, inputs),
        in_turn(contenders, inputs, PAUSE_SECONDS),
        in_turn(contenders, inputs, 0.0),
    )
    for name in contenders:
        columns = "".join(
            f"{each[name]:9.3f} ms {2 * size**3 / each[name] / 1e9:4.0f} TFLOP/s {each['cuBLAS'] / each[name]:5.2f}"
            for each in found
        )
        print(f"{size:6} {name:8}{columns}   error {errors[name]:.1e}", flush=True)


def main() -> None:
    is_float32 = sys.argv[1:2] == ["float32"]
    print(machine())
    print(f"{'':15}" + "".join(f"{column + ', of cuBLAS':>31}" for column in ("alone", "rested", "in turn")))
    run = measure_float32 if is_float32 else partial(measure_float16, triton_launch=triton_matmul())
    for size in [int(argument) for argument in sys.argv[1 + is_float32 :]] or SIZES:
        run(size)


if __name__ == "__main__":
    main()
