"""nvcc's kernels with cooperative groups and clusters: launches and references."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Launch
from .nvcc_entries import kernel, rng

f4, i4, u4 = np.float32, np.int32, np.uint32


@kernel("groups", (4,), (64,), cooperative=True)
def grid_sum(device: Any) -> Launch:
    n = 900
    x = rng().integers(-999, 999, n).astype(i4)
    padded = np.zeros(1024, i4)
    padded[:n] = x
    parts = padded.reshape(4, 4, 64).sum((0, 2), dtype=i4)
    return Launch([x, np.zeros(4, i4), np.zeros(1, i4), i4(n)], {1: parts, 2: x.sum(dtype=i4)[None]})


@kernel("groups", (3,), (64,), cooperative=True)
def grid_jacobi(device: Any) -> Launch:
    """Integers that four halvings twice over leave exact; the fourth step ends in the first array."""
    x = rng().integers(-99, 99, 250).astype(f4)
    steps = [x]
    for _ in range(4):
        p = np.pad(steps[-1], 1)
        steps.append(p[:-2] / 4 + p[1:-1] / 2 + p[2:] / 4)
    return Launch([x.copy(), np.zeros(250, f4), i4(250), i4(4)], {0: steps[4], 1: steps[3]})


@kernel("groups", (4,), (64,), cooperative=True)
def grid_scan(device: Any) -> Launch:
    x = rng().integers(-99, 99, (4, 64)).astype(i4)
    y = x.cumsum(dtype=i4).reshape(4, 64)
    return Launch([x, np.zeros_like(x), np.zeros(4, i4)], {1: y, 2: x.sum(1, dtype=i4)})


@kernel("groups", (2,), (64,), cooperative=True)
def grid_bfs(device: Any) -> Launch:
    n = 100
    random = rng()
    edges = [sorted(set(random.integers(0, n, random.integers(0, 4)).tolist())) for _ in range(n)]
    first = np.cumsum([0, *map(len, edges)]).astype(i4)
    level = np.full(n, -1, i4)
    start = level.copy()
    start[0] = level[0] = 0
    changed = np.zeros(32, i4)
    front = [0]
    for depth in range(32):
        front = sorted({w for v in front for w in edges[v] if level[w] < 0})
        level[front] = depth + 1
        changed[depth] = len(front)
    assert changed[3] and not changed[20:].any()
    neighbours = np.array([w for row in edges for w in row], i4)
    return Launch([first, neighbours, start, np.zeros(32, i4), i4(n)], {2: level, 3: changed})


@kernel("groups", (4,), (32,), cooperative=True)
def grid_split_barrier(device: Any) -> Launch:
    x = rng().integers(-99, 99, 128).astype(i4)
    return Launch([x, np.zeros(128, i4)], {1: 2 * np.roll(x, 64) + x[::-1]})


@kernel("groups", (2,), (64,))
def tiles_of_four(device: Any) -> Launch:
    x = rng().integers(-99, 99, (32, 4)).astype(i4)
    rank = np.arange(4)
    out = np.zeros((32, 4, 7), i4)
    out[:, :, 0] = x[:, 3:]
    out[:, :, 1] = x[:, np.maximum(rank - 1, 0)]
    out[:, :, 2] = x[:, [2, 3, 2, 3]]
    out[:, :, 3] = x[:, rank ^ 1]
    out[:, :, 4] = ((x > 50).any(1) + 2 * (x > -50).all(1))[:, None]
    out[:, :, 5] = ((x > 0) << rank).sum(1)[:, None]
    out[:, :, 6] = np.arange(32)[:, None] % 16 * 1000 + 160 + rank
    return Launch([x, np.zeros_like(out)], {1: out})


@kernel("groups", (2,), (64,))
def nested_tiles(device: Any) -> Launch:
    x = rng().integers(-99, 99, (4, 2, 8, 2)).astype(i4)
    out = x.sum(3).max(2).min(1)
    return Launch([x, np.zeros(128, i4)], {1: np.repeat(out, 32).astype(i4)})


@kernel("groups", (2,), (64,))
def reductions(device: Any) -> Launch:
    x = rng().integers(0, 2**32, (4, 32), np.uint64).astype(u4) | u4(1)
    x[1] &= u4(0xFF00FF1F)
    f = rng().integers(-99, 99, (4, 32)).astype(f4)
    shape = (4, 32)
    of_words = (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.multiply)
    out = np.stack([
        *(np.broadcast_to(h.reduce(x, axis=1, dtype=u4, keepdims=True), shape) for h in of_words),
        x.cumsum(1, dtype=u4) - x,
    ], 2)
    g = np.stack([np.broadcast_to(f.max(1, keepdims=True), shape), f.cumsum(1)], 2)
    return Launch([x, np.zeros_like(out), f, np.zeros_like(g)], {1: out, 3: g})


@kernel("groups", (2,), (96,))
def reduce_to_memory(device: Any) -> Launch:
    x = rng().integers(-999, 999, 192).astype(i4)
    return Launch([x, np.zeros(1, i4), np.zeros(1, i4)], {1: x.sum(dtype=i4)[None], 2: x.max()[None]})


@kernel("groups", (3,), (64,))
def coalesced_filter(device: Any) -> Launch:
    """The order of the warps isn't defined: the data make it irrelevant."""
    x = np.where(rng().random(170) < 0.4, 6, 1).astype(i4)
    count = int((x == 6).sum())
    kept = np.zeros(170, i4)
    kept[:count] = 6
    return Launch([x, np.zeros(170, i4), np.zeros(1, i4), i4(170)], {1: kept, 2: np.array([count], i4)})


@kernel("groups", (2,), (64,))
def partitioned_branches(device: Any) -> Launch:
    x = rng().integers(-99, 99, (4, 32)).astype(i4)
    out = np.zeros_like(x)
    for row, result in zip(x, out, strict=True):
        odd = row[row % 2 == 1]
        even = row[row % 2 == 0]
        result[row % 2 == 1] = odd.sum() + np.append(odd[:1], odd[:-1])
        result[row % 2 == 0] = (even.cumsum() - even) * 2 + np.arange(len(even))
    return Launch([x, np.zeros_like(x)], {1: out})


@kernel("groups", (2,), (64,))
def labeled_groups(device: Any) -> Launch:
    keys = rng().integers(0, 5, (4, 32)).astype(i4)
    x = rng().integers(-99, 99, (4, 32)).astype(i4)
    same = keys[:, :, None] == keys[:, None]
    rank = (same & (np.arange(32)[:, None] > np.arange(32))).sum(2)
    out = np.stack([same.sum(2), rank, (same * x[:, None]).sum(2)], 2).astype(i4)
    return Launch([keys, x, np.zeros_like(out)], {2: out})


@kernel("groups", (2,), (64,))
def binary_groups(device: Any) -> Launch:
    x = rng().integers(-99, 99, (4, 32)).astype(i4)
    x[2] = 5
    out = np.zeros_like(x)
    for row, result in zip(x, out, strict=True):
        for of in (row > 10, row <= 10):
            if of.any():
                result[of] = row[of].min() * 100 + of.sum()
    return Launch([x, np.zeros_like(x)], {1: out})


@kernel("groups", (2,), (128,))
def large_tiles(device: Any) -> Launch:
    x = rng().integers(-99, 95, (4, 64)).astype(i4)
    x[0], x[1, 3] = -1, 94
    out = x.sum(1) + x[:, 40] * (x > 90).any(1) + np.arange(4) % 2
    return Launch([x, np.zeros_like(x)], {1: np.repeat(out, 64).reshape(4, 64).astype(i4)})


@kernel("clusters", (4,), (64,))
def cluster_histogram(device: Any) -> Launch:
    n = 1000
    x = rng().integers(-9, 80, n).astype(i4)
    return Launch([x, np.zeros(64, i4), i4(n)], {1: np.bincount(np.clip(x, 0, 63), minlength=64).astype(i4)})


@kernel("clusters", (8,), (64,))
def cluster_ring(device: Any) -> Launch:
    x = rng().integers(-99, 99, (2, 4, 64)).astype(f4)
    return Launch([x, np.zeros_like(x)], {1: x - np.roll(x, -1, 1)[:, :, ::-1]})


@kernel("clusters", (8,), (32,))
def cluster_sum(device: Any) -> Launch:
    x = rng().integers(-99, 99, (2, 128)).astype(i4)
    return Launch([x, np.zeros_like(x)], {1: np.repeat(x.sum(1, dtype=i4), 128).reshape(2, 128)})


@kernel("clusters", (4, 2), (32,))
def cluster_ranks(device: Any) -> Launch:
    x = rng().integers(-99, 99, (2, 4)).astype(i4)
    out = np.zeros((2, 4, 32, 4), i4)
    for row in range(2):
        for column in range(4):
            cx, t = column % 2, np.arange(32)
            rank = cx + 2 * row
            out[row, column, :, 0] = rank * 100 + rank * 32 + t
            out[row, column, :, 1] = cx + 10 * row + 2200
            out[row, column, :, 2] = 1280 + rank
            out[row, column, :, 3] = x[1 - row, column ^ 1]
    return Launch([np.zeros_like(out), x], {0: out})


@kernel("clusters", (4,), (32,))
def cluster_stencil(device: Any) -> Launch:
    """Integers that four halvings twice over leave exact."""
    x = rng().integers(-99, 99, 128).astype(f4)
    y = x
    for _ in range(4):
        p = np.pad(y, 1)
        y = p[1:-1] / 2 + (p[:-2] + p[2:]) / 4
    return Launch([x, np.zeros(128, f4), i4(4)], {1: y})


@kernel("clusters", (4,), (64,))
def cluster_split_barrier(device: Any) -> Launch:
    x = rng().integers(-99, 99, (2, 2, 64)).astype(i4)
    return Launch([x, np.zeros_like(x)], {1: 10 * x + x[:, ::-1, ::-1]})


@kernel("clusters", (2,), (128,))
def cluster_transpose(device: Any) -> Launch:
    x = rng().integers(-99, 99, (32, 32)).astype(i4)
    return Launch([x, np.zeros_like(x)], {1: x.T.copy()})


@kernel("clusters", (4,), (32,))
def cluster_messages(device: Any) -> Launch:
    x = rng().integers(-99, 99, (2, 2, 32)).astype(i4)
    return Launch([x, np.zeros_like(x)], {1: x[:, ::-1, ::-1] + 1})


@kernel("clusters", (8,), (32,))
def cluster_remote_additions(device: Any) -> Launch:
    """Each of four blocks sends eight numbers to each block."""
    x = rng().integers(-99, 99, (2, 4, 4, 8)).astype(i4)
    return Launch([x, np.zeros((2, 4, 8), i4)], {1: x.sum(1, dtype=i4)})
