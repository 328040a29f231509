"""The inclusive sum of `examples/scan.py` against torch.cumsum and a copy of as many bytes.

Run on a machine with a GPU and torch: `python tests/bench/bench_scan.py [--count N] [--quick]`. Results are checked
first; times are medians of CUDA events round single launches, each after a large array was read. Clearing the blocks'
states is part of each launch of ours. Configurations are `elements of a CTA / threads / words of a lane / registers`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import tilejit as tj  # noqa: E402
from examples import scan  # noqa: E402
from tests.bench.bench_memory_bound import LAUNCHES, QUICK_LAUNCHES, Case, Run, measure, returning  # noqa: E402

#: (elements of a CTA, threads, words that a lane looks at, registers of a thread or None)
CONFIGURATIONS = (
    (scan.BLOCK, scan.THREADS, scan.WORDS, None), (8192, 512, 4, 40), (8192, 512, 2, None), (8192, 512, 8, None),
    (8192, 256, 4, 64), (4096, 256, 4, None), (4096, 512, 4, None), (16384, 1024, 2, None), (16384, 512, 2, 64),
)


def contender(torch: Any, x: Any, y: Any, block: int, threads: int, words: int, registers: int | None) -> Run:
    """Return what clears the states of the blocks and launches the kernel."""
    blocks = tj.cdiv(x.numel(), block)
    state = torch.zeros(blocks, device="cuda", dtype=torch.int64).view(torch.uint64)
    function = scan.inclusive_sum.__wrapped__  # type: ignore[attr-defined]
    kernel = tj.kernel(threads=threads, max_registers=registers)(function)
    launch = kernel[blocks].bind(x, y, state, BLOCK=block, WORDS=words)
    cleared = state.view(torch.int64)
    return returning(lambda: (cleared.zero_(), launch()), y)


def case(torch: Any, count: int) -> Case:
    x = torch.randn(count, device="cuda")
    y = torch.empty_like(x)
    contenders: dict[str, Run] = {
        f"tilejit {'/'.join(map(str, each))}": contender(torch, x, y, *each) for each in CONFIGURATIONS
    }
    contenders["torch.cumsum"] = lambda: torch.cumsum(x, 0, out=y)
    tolerance = (1e-5, 1e-4 * count**0.5)
    return Case(2 * x.nbytes, lambda: x.double().cumsum(0), contenders, (y,), tolerance)


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description="the inclusive sum against a copy and torch.cumsum")
    parser.add_argument("--count", type=int, default=2**28, help="elements, 2^28 by default")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_LAUNCHES} launches instead of {LAUNCHES}")
    arguments = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(f"{'':36}{'':26}{'median':>13}{'spread':>8}{'moved':>13}{'share':>8}")
    label = f"inclusive sum f32 {arguments.count}"
    measure(torch, label, case(torch, arguments.count), QUICK_LAUNCHES if arguments.quick else LAUNCHES)


if __name__ == "__main__":
    main()
