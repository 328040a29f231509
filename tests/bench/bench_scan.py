"""The inclusive sum of `examples/scan.py`, and sums along rows, against torch.cumsum and a copy of as many bytes.

Run on a machine with a GPU and torch: `python tests/bench/bench_scan.py [--count N] [--quick]`. Results are checked
first; times are medians of CUDA events round single launches, each after a large array was read. Clearing the blocks'
states is part of each launch of ours. Configurations are `elements of a CTA / threads / groups / registers`.
`--cub LIBRARY` adds CUB (`cub.py`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import tilejit as tj  # noqa: E402
from examples import scan  # noqa: E402
from tests.bench import cub  # noqa: E402
from tests.bench.bench_memory_bound import LAUNCHES, QUICK_LAUNCHES, Case, Run, measure, returning  # noqa: E402
from tests.bench.gpu import machine  # noqa: E402

#: (elements of a CTA, threads, groups that a warp looks at, registers of a thread or None)
CONFIGURATIONS = (
    (scan.BLOCK, scan.THREADS, scan.GROUPS, None), (16384, 512, 7, 64), (8192, 256, 3, 64), (8192, 256, 7, 64),
    (4096, 128, 7, 64), (8192, 512, 3, None), (12288, 512, 3, 48),
)


def contender(torch: Any, x: Any, y: Any, block: int, threads: int, groups: int, registers: int | None) -> Run:
    """Return what clears the states of the blocks and launches the kernel."""
    blocks = tj.cdiv(x.numel(), block)
    state = torch.zeros(blocks, device="cuda", dtype=torch.int64)
    function = scan.inclusive_sum.__wrapped__  # type: ignore[attr-defined]
    kernel = tj.kernel(threads=threads, max_registers=registers)(function)
    launch = kernel[blocks].bind(x, y, state.view(torch.uint64), BLOCK=block, GROUPS=groups)
    return returning(lambda: (state.zero_(), launch()), y)


@tj.kernel(threads=256)
def row_sums(X: tj.Tensor, Y: tj.Tensor, N: tj.constexpr) -> None:
    """Y = the inclusive sums of each row of X, of N elements; a CTA for each row."""
    row = tj.cta_id(0)
    tj.cta.store(Y[row, 0:N], tj.cumsum(tj.cta.load(X[row, 0:N]), 0))


def rows(torch: Any, count: int, length: int) -> Case:
    x = torch.randn(count, length, device="cuda")
    y = torch.empty_like(x)
    contenders: dict[str, Run] = {"torch.cumsum": lambda: torch.cumsum(x, 1, out=y)}
    for threads in (128, 256, 512, 1024):
        launch = row_sums[(count,), threads].bind(x, y, N=length)
        contenders[f"tilejit, {threads} threads"] = returning(launch, y)
    return Case(2 * x.nbytes, lambda: x.double().cumsum(1), contenders, (y,), (1e-5, 1e-4 * length**0.5))


def case(torch: Any, count: int, library: str) -> Case:
    x = torch.randn(count, device="cuda")
    y = torch.empty_like(x)
    contenders: dict[str, Run] = {
        f"tilejit {'/'.join(map(str, each))}": contender(torch, x, y, *each) for each in CONFIGURATIONS
    }
    contenders["torch.cumsum"] = lambda: torch.cumsum(x, 0, out=y)
    if library:
        contenders["CUB"] = cub.launcher(torch, library, "inclusive_sum", x, y)
    tolerance = (1e-5, 1e-4 * count**0.5)
    return Case(2 * x.nbytes, lambda: x.double().cumsum(0), contenders, (y,), tolerance)


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description="the inclusive sum against a copy and torch.cumsum")
    parser.add_argument("--count", type=int, default=2**28, help="elements, 2^28 by default")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_LAUNCHES} launches instead of {LAUNCHES}")
    parser.add_argument("--cub", default="", help="the library that cub.py describes")
    arguments = parser.parse_args()
    print(machine())
    print(f"{'':36}{'':26}{'median':>13}{'spread':>8}{'moved':>13}{'share':>8}")
    launches = QUICK_LAUNCHES if arguments.quick else LAUNCHES
    measure(torch, "row sums f32 16384x4096", rows(torch, 16384, 4096), launches)
    measure(torch, f"inclusive sum f32 {arguments.count}", case(torch, arguments.count, arguments.cub), launches)


if __name__ == "__main__":
    main()
