"""`examples/sort.py` on a GPU, against torch.sort, which moves an index of 8 bytes with each key.

Run: `python tests/bench/bench_sort.py`. Results are compared first. Times are medians of CUDA events, in turn, with
a cold L2. Configurations are `keys of a thread / registers / states that are loaded together`; `count` is the first
kernel alone. `--cub LIBRARY` adds CUB's sort of keys alone (`cub.py`).
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

import tilejit as tj  # noqa: E402
from examples import sort  # noqa: E402
from tests.bench import cub  # noqa: E402
from tests.bench.gpu import machine, measured  # noqa: E402

ROUNDS = 30

#: (keys of a thread, registers of a thread or None, states that are loaded together)
CONFIGURATIONS = (
    (sort.ITEMS, None, sort.WINDOW), (16, None, 4), (24, None, 2), (32, 64, 4), (32, 64, 1), (24, None, 4), (40, 80, 2),
)


def medians(contenders: dict[str, Callable[[], object]]) -> dict[str, float]:
    return {name: statistics.median(each) for name, each in measured(contenders, ROUNDS).items()}


def sorter(keys: torch.Tensor, items: int, registers: int | None, window: int) -> Callable[[], torch.Tensor]:
    """Return what sorts `keys` into one of two buffers, which it returns."""
    sweep = tj.kernel(threads=sort.THREADS, max_registers=registers)(sort.sweep.__wrapped__)  # type: ignore[attr-defined]
    blocks = tj.cdiv(keys.numel(), sort.THREADS * items)
    buffers = [torch.empty_like(keys) for _ in range(2)]
    places = torch.empty((sort.PASSES, sort.DIGITS), device="cuda", dtype=torch.int32)
    # torch fills no uint32
    states = torch.empty((sort.PASSES, blocks, sort.DIGITS), device="cuda", dtype=torch.int32)

    def run() -> torch.Tensor:
        places.zero_()
        states.zero_()
        sort.count[min(blocks, 8 * 132)](keys, places)
        sort.first_places[sort.PASSES](places)
        source = keys
        for k in range(sort.PASSES):
            sweep[blocks](source, buffers[k % 2], places, states[k].view(torch.uint32), k, ITEMS=items, WINDOW=window)
            source = buffers[k % 2]
        return source

    return run


def sorts(count: int, configurations: tuple[tuple[int, int | None, int], ...], library: str) -> None:
    x = torch.randint(-(2**31), 2**31, (count,), device="cuda", dtype=torch.int64).to(torch.int32)
    keys, counts = x.view(torch.uint32), torch.zeros((sort.PASSES, sort.DIGITS), device="cuda", dtype=torch.int32)
    # the order of unsigned keys is that of signed ones with the other sign bit
    flipped = x ^ -(2**31)
    wanted = torch.sort(flipped).values ^ -(2**31)
    contenders: dict[str, Callable[[], object]] = {"torch.sort": lambda: torch.sort(flipped)}
    contenders["count"] = lambda: sort.count[8 * 132](keys, counts)
    for items, registers, window in configurations:
        run = contenders[f"tilejit {items}/{registers}/{window}"] = sorter(keys, items, registers, window)
        for _ in range(3):
            assert torch.equal(run().view(torch.int32), wanted), f"the keys aren't sorted with {items} keys of a thread"
    if library:
        run = contenders["CUB"] = cub.launcher(torch, library, "sort_keys", keys, torch.empty_like(keys))
        assert torch.equal(run().view(torch.int32), wanted)
    for name, time in medians(contenders).items():
        print(f"sort {count} uint32   {name:18}{time:9.3f} ms {count / time / 1e6:8.2f} G keys/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="the radix sort against torch.sort and CUB")
    parser.add_argument("--cub", default="", help="the library that cub.py describes")
    library = parser.parse_args().cub
    print(machine())
    for count in (2**20, 2**24, 2**28):
        sorts(count, CONFIGURATIONS if count == 2**28 else CONFIGURATIONS[:2], library)


if __name__ == "__main__":
    main()
