"""Bandwidth of dropout of 1 GiB of float32 against copies of as many bytes. The goal is 0.97 of the faster copy.

Run on a machine with a GPU and torch: `python tests/bench/bench_dropout.py`. Each time is the median of CUDA event
times over single launches, all in turn, with a cold L2; GB/s count bytes read and written.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import tilejit as tj  # noqa: E402
from examples import dropout  # noqa: E402
from tests.bench.gpu import machine, measured  # noqa: E402

N = 2**28  # float32: 1 GiB
LAUNCHES = 30


@tj.kernel(threads=256)
def copy(X: tj.Tensor, Y: tj.Tensor) -> None:
    i = tj.cta_id(0)
    tj.cta.store(Y.tile(dropout.BLOCK, i), tj.cta.load(X.tile(dropout.BLOCK, i)))


def main() -> None:
    import torch

    x = torch.randn(N, device="cuda").abs_() + 1
    y = torch.empty_like(x)
    grid = dropout.grid(N)
    ways = {
        "device to device": lambda: y.copy_(x),
        "tilejit copy": copy[grid].bind(x, y),
        "tilejit dropout": dropout.dropout[grid].bind(x, y, 0.25, 7),
        "tilejit noise": dropout.noisy[grid].bind(x, y, 0.1, 7),
        "torch dropout": lambda: torch.nn.functional.dropout(x, 0.25),
    }
    ways["tilejit dropout"]()
    is_kept = y != 0
    assert abs(is_kept.double().mean().item() - 0.75) < 1e-4
    assert torch.equal(y[is_kept], (x * (1 / (1 - torch.tensor(0.25, device="cuda"))))[is_kept])
    medians = {name: statistics.median(each) for name, each in measured(ways, LAUNCHES).items()}
    print(machine())
    fastest = min(medians["device to device"], medians["tilejit copy"])
    for name, milliseconds in medians.items():
        rate = 2 * x.nbytes / milliseconds / 1e6
        print(f"{name:17} {milliseconds:7.3f} ms {rate:7.0f} GB/s {fastest / milliseconds:5.2f} of the faster copy")


if __name__ == "__main__":
    sys.exit(main())
