"""`examples/sort.py` and `examples/top_k.py` on a GPU, against torch.sort and torch.topk.

Run: `python tests/bench/bench_sort.py`. Times are medians of CUDA events, in turn; before each launch, memory is read
that fills L2. Results are compared first. A sort's speed is in keys per second, that of a selection in bytes read.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

import tilejit as tj  # noqa: E402
from examples import sort, top_k  # noqa: E402

ROUNDS = 30
SWEPT = 2**27  # bytes read before each launch, more than twice what L2 holds


def milliseconds(contenders: dict[str, Callable[[], object]]) -> dict[str, float]:
    swept = torch.zeros(SWEPT // 4, device="cuda")
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(-3, ROUNDS):
        for name, launch in contenders.items():
            swept.sum()
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            began.record()
            launch()
            ended.record()
            torch.cuda.synchronize()
            if number >= 0:
                times[name].append(began.elapsed_time(ended))
    return {name: statistics.median(each) for name, each in times.items()}


def sorts(count: int) -> None:
    x = torch.randint(-(2**31), 2**31, (count,), device="cuda", dtype=torch.int64).to(torch.int32)
    keys, size = x.view(torch.uint32), sort.THREADS * sort.ITEMS
    blocks = tj.cdiv(count, size)
    buffers = [torch.empty_like(keys) for _ in range(2)]
    places = torch.empty((sort.PASSES, sort.DIGITS), device="cuda", dtype=torch.int32)
    # torch fills no uint32
    states = torch.empty((sort.PASSES, blocks, sort.DIGITS), device="cuda", dtype=torch.int32)

    def ours() -> torch.Tensor:
        places.zero_()
        states.zero_()
        sort.count[min(blocks, 4 * 132)](keys, places)
        sort.first_places[sort.PASSES](places)
        source = keys
        for k in range(sort.PASSES):
            sort.sweep[blocks](source, buffers[k % 2], places, states[k].view(torch.uint32), k)
            source = buffers[k % 2]
        return source

    # the order of unsigned keys is that of signed ones with the other sign bit
    flipped = x ^ -(2**31)
    wanted = torch.sort(flipped).values ^ -(2**31)
    assert torch.equal(ours().view(torch.int32), wanted), "the keys aren't sorted"
    for name, time in milliseconds({"tilejit": ours, "torch.sort": lambda: torch.sort(flipped)}).items():
        print(f"sort {count} uint32   {name:12}{time:9.3f} ms {count / time / 1e6:8.2f} G keys/s", flush=True)


def selections(rows: int, columns: int) -> None:
    x = torch.randn((rows, columns), device="cuda")
    values = torch.empty((rows, top_k.K), device="cuda")
    indices = torch.empty((rows, top_k.K), device="cuda", dtype=torch.int32)

    def ours() -> None:
        top_k.top_k[rows](x, values, indices)

    ours()
    assert torch.equal(values, torch.topk(x, top_k.K).values), "the values aren't the largest"
    assert torch.equal(torch.gather(x, 1, indices.long()), values), "the indices aren't those of the values"
    for name, time in milliseconds({"tilejit": ours, "torch.topk": lambda: torch.topk(x, top_k.K)}).items():
        speed = x.nbytes / time / 1e6
        print(f"top {top_k.K} of {rows}x{columns}   {name:12}{time:9.3f} ms {speed:8.0f} GB/s", flush=True)


def main() -> None:
    for count in (2**20, 2**24, 2**28):
        sorts(count)
    for rows in (64, 1024, 4096):
        selections(rows, 65_536)


if __name__ == "__main__":
    main()
