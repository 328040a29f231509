"""`examples/matmul.py` against cuBLAS (through torch) and a Triton kernel, float16, in one run.

Run on a machine with a GPU, torch and triton: `python tests/bench/bench_matmul.py [sizes]`. Times are medians of CUDA
event times over single launches, the contenders in turn, inputs random and rotated among sets larger than L2 together.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from examples import matmul as example  # noqa: E402

SIZES = (2048, 4096, 8192)
LAUNCHES = 30
L2_BYTES = 50 * 2**20
SLEEP_CYCLES = 500_000


def triton_matmul() -> Callable[..., None]:
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


def measure(size: int, triton_launch: Callable[..., None]) -> None:
    """Prints one row a contender for a size³ product."""
    import torch

    sets = max(2, -(-2 * L2_BYTES // (2 * size * size * 2)))
    inputs = [
        (torch.randn(size, size, device="cuda", dtype=torch.float16) / size**0.5,
         torch.randn(size, size, device="cuda", dtype=torch.float16))
        for _ in range(sets)
    ]  # fmt: skip
    c = torch.empty(size, size, device="cuda", dtype=torch.float16)
    bias = torch.zeros(1, size, device="cuda", dtype=torch.float16).expand(size, size)
    ours = example.matmul[example.grid(size, size)]
    contenders: dict[str, Callable[..., object]] = {
        "cuBLAS": lambda a, b: torch.matmul(a, b, out=c),
        "Triton": lambda a, b: triton_launch(a, b, c),
        "tilejit": lambda a, b: ours(a, b, bias, c, None),
    }
    a, b = inputs[0]
    exact = a.double() @ b.double()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    errors = {}
    for name, run in contenders.items():
        c.fill_(float("nan"))
        run(a, b)
        errors[name] = float((c.double() - exact).norm() / exact.norm())
        assert errors[name] < 1e-2, f"{name} is wrong: {errors[name]}"
    for trip in range(LAUNCHES):
        for name, run in contenders.items():
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(SLEEP_CYCLES)  # the host gets ahead, so that no launch overhead is timed
            start.record()
            run(*inputs[trip % sets])
            stop.record()
            stop.synchronize()
            times[name].append(start.elapsed_time(stop))

    own = statistics.median(times["cuBLAS"])
    for name, each in times.items():
        median = statistics.median(each)
        print(
            f"{size:6} {name:8} {median:8.3f} ms {2 * size**3 / median / 1e9:7.0f} TFLOP/s"
            f"  {own / median:5.2f} of cuBLAS  error {errors[name]:.1e}"
        )


def main() -> None:
    import torch
    import triton

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    launch = triton_matmul()
    for size in [int(argument) for argument in sys.argv[1:]] or SIZES:
        measure(size, launch)


if __name__ == "__main__":
    main()
