"""nvcc's kernels whose threads work together, alone and with CUB, libcu++ and cooperative groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Launch
from .nvcc_entries import kernel, rng

f4, i4, u4 = np.float32, np.int32, np.uint32


@kernel("cooperation", (4,), (256,))
def sum_shuffle(device: Any) -> Launch:
    n = 1000
    x = rng().integers(-1000, 1000, n).astype(i4)
    return Launch([x, np.zeros(1, i4), i4(n)], {1: x.sum(dtype=i4)[None]})


@kernel("cooperation", (3,), (128,), shared_bytes=512)
def sum_tree(device: Any) -> Launch:
    n = 700
    x = rng().integers(-100, 100, n).astype(f4)
    padded = np.zeros(768, f4)
    padded[:n] = x
    return Launch([x, np.zeros(3, f4), i4(n)], {1: padded.reshape(3, 256).sum(1)})


@kernel("cooperation", (5,), (128,), launches=2)
def sum_last_block(device: Any) -> Launch:
    n = 1500
    x = rng().integers(-1000, 1000, n).astype(i4)
    return Launch([x, np.zeros(5, i4), np.zeros(1, i4), i4(n)], {2: x.sum(dtype=i4)[None]})


def softmax(x: Any) -> Any:
    d = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return (d / d.sum(1, keepdims=True)).astype(f4)


@kernel("cooperation", (4,), (128,))
def softmax_rows(device: Any) -> Launch:
    x = rng().normal(size=(4, 300)).astype(f4)
    return Launch([x, np.zeros_like(x), i4(300)], {1: softmax(x)}, rtol=2e-6)


@kernel("cooperation", (2,), (32, 4))
def layernorm_rows(device: Any) -> Launch:
    x = rng().normal(size=(8, 200)).astype(f4)
    w, b = rng().normal(size=(2, 200)).astype(f4)
    d = x.astype(np.float64)
    y = (d - d.mean(1, keepdims=True)) / np.sqrt(d.var(1, keepdims=True) + 1e-5) * w + b
    return Launch([x, w, b, np.zeros_like(x), i4(200), f4(1e-5)], {3: y.astype(f4)}, rtol=1e-5, atol=1e-5)


@kernel("cooperation", (3,), (128,))
def histogram(device: Any) -> Launch:
    x = rng().integers(0, 256, 2000).astype(np.uint8)
    return Launch([x, np.zeros(256, u4), i4(2000)], {1: np.bincount(x, minlength=256).astype(u4)})


@kernel("cooperation", (3,), (128,), shared_bytes=1024)
def scan_block(device: Any) -> Launch:
    x = rng().integers(-99, 99, (3, 128)).astype(i4)
    return Launch([x, np.zeros_like(x)], {1: x.cumsum(1, dtype=i4)})


@kernel("cooperation", (6,), (256,))
def scan_lookback(device: Any) -> Launch:
    n = 1400
    x = rng().integers(-99, 99, n).astype(i4)
    return Launch([x, np.zeros(n, i4), np.zeros(6, np.uint64), np.zeros(1, u4), i4(n)], {1: x.cumsum(dtype=i4)})


@kernel("cooperation", (3,), (128,))
def maximum_by_cas(device: Any) -> Launch:
    x = rng().random(300).astype(f4)
    return Launch([x, np.zeros(1, f4), i4(300)], {1: x.max()[None]})


@kernel("cooperation", (3,), (128,))
def argmax_packed(device: Any) -> Launch:
    x = rng().normal(size=300).astype(f4)
    at = int(x.argmax())
    packed = (int(x[at].view(u4)) | 1 << 31) << 32 | at
    return Launch([x, np.zeros(1, np.uint64), i4(300)], {1: np.array([packed], np.uint64)})


@kernel("cooperation", (1,), (256,))
def compact(device: Any) -> Launch:
    """The order of the warps isn't defined: the data make it irrelevant."""
    x = np.where(rng().random(250) < 0.4, 3, 1).astype(i4)
    count = int((x == 3).sum())
    out = np.zeros(250, i4)
    out[:count] = 3
    return Launch([x, np.zeros(250, i4), np.zeros(1, i4), i4(250)], {1: out, 2: np.array([count], i4)})


@kernel("cooperation", (2,), (64,))
def warp_collectives(device: Any) -> Launch:
    x = rng().integers(0, 40, (4, 32)).astype(u4)
    lane = np.arange(32)
    out = np.zeros((4, 32, 6), u4)
    weights = (np.uint64(1) << lane.astype(np.uint64))
    for w, v in enumerate(x):
        out[w, :, 0] = (((v[:, None] ^ v[None, :]) & 7 == 0) * weights).sum(1)
        out[w, :, 1] = v.sum()
        out[w, :, 2] = v.max()
        out[w, :, 3] = (v == 3).any() + 2 * (v != 5).all()
        out[w, :, 4] = v[(lane & ~7) + (lane * 7 & 7)]
        odd = v & 1 == 1
        out[w, :, 5] = np.where(odd, (v[odd] & 2 != 0).any(), False)
    return Launch([x.reshape(-1), np.zeros((4, 32, 6), u4)], {1: out})


@kernel("cooperation", (3,), (128,))
def aggregated_count(device: Any) -> Launch:
    x = rng().integers(-20, 10, 300).astype(i4)
    return Launch([x, np.zeros(1, i4), i4(300)], {1: (x > 0).sum(dtype=i4)[None]})


@kernel("cooperation", (5,), (64,))
def spin_lock(device: Any) -> Launch:
    value = 0
    for _ in range(15):
        value = value * 3 % 1009 + 1
    return Launch([np.zeros(1, i4), np.zeros(1, i4), i4(3)], {0: np.zeros(1, i4), 1: np.array([value], i4)})


@kernel("cooperation", (2,), (128,))
def vector_atomics(device: Any) -> Launch:
    n = 200
    where = rng().integers(0, 9, n).astype(i4)
    x = rng().integers(-9, 9, (n, 4)).astype(f4)
    sums, pairs = np.zeros((9, 4), f4), np.zeros((9, 2), f4)
    np.add.at(sums, where, x)
    np.add.at(pairs, where, np.stack([x[:, 0], np.ones(n, f4)], 1))
    return Launch([where, x, np.zeros_like(sums), np.zeros_like(pairs), i4(n)], {2: sums, 3: pairs})


@kernel("cooperation", (3,), (96,))
def barrier_votes(device: Any) -> Launch:
    x = rng().integers(-20, 10, (3, 96)).astype(i4)
    x[1] = -5
    x[2, 50] = 9
    value = (x > 0).sum(1) * 4 + (x != 7).all(1) * 2 + (x == 9).any(1)
    return Launch([x, np.zeros_like(x)], {1: np.repeat(value, 96).reshape(3, 96).astype(i4)})


@kernel("tiles", (3, 2), (32, 8))
def transpose(device: Any) -> Launch:
    x = rng().normal(size=(50, 70)).astype(f4)
    return Launch([x, np.zeros((70, 50), f4), i4(50), i4(70)], {1: x.T.copy()})


@kernel("tiles", (3, 2), (16, 16))
def matmul_tiled(device: Any) -> Launch:
    a = rng().integers(-9, 9, (30, 40)).astype(f4)
    b = rng().integers(-9, 9, (40, 37)).astype(f4)
    return Launch([a, b, np.zeros((30, 37), f4), i4(30), i4(37), i4(40)], {2: a @ b})


@kernel("tiles", (1,), (32,))
def matmul_wmma(device: Any) -> Launch:
    a, b = rng().integers(-9, 9, (2, 16, 16)).astype(np.float16)
    return Launch([a, b, np.zeros((16, 16), f4)], {2: a.astype(f4) @ b.T.astype(f4)})


@kernel("tiles", (3, 2), (16, 16))
def convolve_5x5(device: Any) -> Launch:
    x = rng().integers(-9, 9, (30, 45)).astype(f4)
    mask = rng().integers(-3, 4, (5, 5)).astype(f4)
    padded = np.pad(x, 2)
    y = sum(padded[i : i + 30, j : j + 45] * mask[i, j] for i in range(5) for j in range(5))
    return Launch([x, np.zeros_like(x), i4(30), i4(45)], {1: y}, variables={"mask": mask})


@kernel("tiles", (2,), (256,))
def bitonic_sort(device: Any) -> Launch:
    x = rng().integers(-1000, 1000, (2, 512)).astype(i4)
    return Launch([x], {0: np.sort(x, 1)})


@kernel("tiles", (2,), (128,))
def gather_scatter(device: Any) -> Launch:
    n = 200
    x = rng().normal(size=300)
    index = rng().integers(0, 300, n).astype(i4)
    target = rng().permutation(n).astype(i4)
    y = np.zeros(n)
    y[target] = x[index] * 2
    return Launch([index, x, np.zeros(n), target, i4(n)], {2: y})


@kernel("tiles", (3,), (64,))
def async_copy_rows(device: Any) -> Launch:
    x = rng().integers(-99, 99, (3, 5, 64, 4)).astype(f4)
    return Launch([x, np.zeros((3, 64, 4), f4), i4(5)], {1: x.sum(1)[:, np.arange(64) ^ 1]})


@kernel("tiles", (2,), (64,))
def calls_a_function(device: Any) -> Launch:
    n = 100
    x = rng().integers(-9, 9, n).astype(f4)
    r = np.ones(n, f4)
    for k in range(3):
        r = np.where(np.arange(n) % 4 > k, r * x + 1, r)
    return Launch([x, np.zeros(n, f4), i4(n)], {1: r})


@kernel("tiles", (2,), (128,))
def heat_steps(device: Any) -> Launch:
    x = rng().integers(-99, 99, (2, 128)).astype(f4)
    y = x.copy()
    for _ in range(4):
        p = np.pad(y, ((0, 0), (1, 1)))
        y = f4(0.25) * p[:, :-2] + f4(0.5) * p[:, 1:-1] + f4(0.25) * p[:, 2:]
    return Launch([x, np.zeros_like(x), i4(4)], {1: y})


@kernel("libraries", (2,), (128,))
def cub_radix_sort(device: Any) -> Launch:
    keys = rng().integers(0, 300, (2, 512)).astype(u4) * u4(10**7)
    values = np.arange(1024, dtype=i4).reshape(2, 512)
    order = np.argsort(keys, 1, kind="stable")
    return Launch(
        [keys.copy(), values.copy()], {0: np.take_along_axis(keys, order, 1), 1: np.take_along_axis(values, order, 1)}
    )


@kernel("libraries", (3,), (128,))
def cub_scan(device: Any) -> Launch:
    x = rng().integers(-99, 99, (3, 512)).astype(i4)
    return Launch(
        [x, np.zeros_like(x), np.zeros(3, i4)], {1: x.cumsum(1, dtype=i4) - x, 2: x.sum(1, dtype=i4)}
    )


@kernel("libraries", (3,), (128,))
def cub_reduce(device: Any) -> Launch:
    x = rng().integers(-99, 99, (3, 128)).astype(np.float64)
    return Launch([x, np.zeros(3)], {1: x.sum(1)})


@kernel("libraries", (2,), (64,))
def cg_tiles(device: Any) -> Launch:
    x = rng().integers(-99, 99, (16, 8)).astype(i4)
    out = np.stack([np.repeat(x.sum(1, dtype=i4)[:, None], 8, 1), np.maximum.accumulate(x, 1)], 2)
    return Launch([x, np.zeros_like(out), np.zeros(1, i4)], {1: out, 2: (x > 0).sum(dtype=i4)[None]})


@kernel("libraries", (5,), (64,))
def libcu_chain(device: Any) -> Launch:
    x = rng().integers(-99, 99, (5, 64)).astype(i4)
    return Launch([x, np.zeros(5, i4), np.zeros(5, i4)], {1: x.sum(1, dtype=i4).cumsum(dtype=i4), 2: np.ones(5, i4)})


@kernel("libraries", (3,), (128,))
def libcu_maximum(device: Any) -> Launch:
    x = rng().random(256).astype(f4)
    value = 0
    for _ in range(256):
        value = (value * 3 + 1) % 2**64
    return Launch(
        [x, np.zeros(1, f4), np.zeros(1, np.uint64), i4(256)], {1: x.max()[None], 2: np.array([value], np.uint64)}
    )
