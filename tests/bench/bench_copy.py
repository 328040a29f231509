"""Bandwidth of a 1 GiB float32 copy through registers and through shared memory, against the GPU's own copy.

Run on a machine with a GPU and torch: `python tests/bench/bench_copy.py`. Each time is the median of CUDA event
times over single launches, the three in turn, with a cold L2, on random data; GB/s count bytes read and written.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import tilejit as tj  # noqa: E402
from tests.bench.gpu import machine, measured  # noqa: E402
from tilejit import S, tx  # noqa: E402

N = 2**28  # float32: 1 GiB
THREADS = 256
LAUNCHES = 30

#: 16 registers a thread, four 16-byte accesses in flight, coalesced: round f, thread t, element 4 * (256 * f + t).
OWNERS = S[(4, THREADS, 4) : (4, 1 @ tx, 1)]
BLOCK = 4 * THREADS * 4


@tj.kernel(threads=THREADS)
def copy_registers(X: tj.Tensor, Y: tj.Tensor):
    start = tj.cta_id(0) * BLOCK
    r = tj.alloc_local((BLOCK,), X.dtype, layout=OWNERS)
    tj.cta.copy(r, X[start : start + BLOCK])
    tj.cta.copy(Y[start : start + BLOCK], r)


@tj.kernel(threads=THREADS)
def copy_shared(X: tj.Tensor, Y: tj.Tensor):
    start = tj.cta_id(0) * BLOCK
    staged = tj.alloc_shared((BLOCK,), X.dtype)
    tj.cta.copy(staged, X[start : start + BLOCK])
    tj.cta_sync()
    tj.cta.copy(Y[start : start + BLOCK], staged)


def main() -> None:
    import torch

    x = torch.randn(N, device="cuda")
    y = torch.empty_like(x)
    grid = N // BLOCK
    ways = {
        "device to device": lambda: y.copy_(x),
        "tilejit registers": copy_registers[grid].bind(x, y),
        "tilejit shared": copy_shared[grid].bind(x, y),
    }
    for name, way in ways.items():
        y.fill_(float("nan"))
        way()
        torch.cuda.synchronize()
        assert torch.equal(x, y), name
    times = measured(ways, LAUNCHES)
    own = statistics.median(times["device to device"])
    print(f"{machine()}, 1 GiB float32")
    for name, each in times.items():
        median = statistics.median(each)
        rate = 2 * x.nbytes / median / 1e6
        print(f"{name:20}{median:8.4f} ms  {rate:8.1f} GB/s  {own / median:6.3f} of the GPU's own")


if __name__ == "__main__":
    main()
