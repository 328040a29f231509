"""nvcc's users' programs that sort, select and merge: launches and references."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Launch
from .nvcc_entries import kernel, rng

f4, i4, u4 = np.float32, np.int32, np.uint32


@kernel("sorting", (1,), (128,))
def radix_sort_pass(device: Any) -> Launch:
    keys = rng().integers(0, 2**32, 500, np.uint64).astype(u4)
    order = np.argsort(keys >> u4(8) & u4(15), kind="stable")
    return Launch([keys, np.zeros(500, u4), i4(500), i4(8)], {1: keys[order]})


@kernel("sorting", (3,), (32,))
def split_sort(device: Any) -> Launch:
    x = rng().integers(0, 40, (3, 32)).astype(np.uint8)
    order = np.argsort(x, 1, kind="stable")
    return Launch([x, np.zeros_like(x), np.zeros_like(x)], {1: np.sort(x, 1), 2: order.astype(np.uint8)})


@kernel("sorting", (2,), (64,))
def bitonic_by_shuffles(device: Any) -> Launch:
    x = rng().integers(-99, 99, (4, 32)).astype(i4)
    return Launch([x, np.zeros_like(x)], {1: np.sort(x, 1)})


@kernel("sorting", (2,), (64,))
def odd_even_sort(device: Any) -> Launch:
    x = rng().normal(size=(2, 75)).astype(f4)
    return Launch([x.copy(), i4(75)], {0: np.sort(x, 1)})


@kernel("sorting", (2,), (64,))
def rank_sort(device: Any) -> Launch:
    x = rng().integers(-99, 99, 90).astype(i4)
    return Launch([x, np.zeros(90, i4), i4(90)], {1: np.sort(x)})


@kernel("sorting", (2,), (128,))
def merge_sort(device: Any) -> Launch:
    x = rng().integers(-99, 99, (2, 128)).astype(i4)
    return Launch([x, np.zeros_like(x)], {1: np.sort(x, 1)})


@kernel("sorting", (2,), (32,))
def merge_path(device: Any) -> Launch:
    a, b = (np.sort(rng().integers(-99, 99, n)).astype(i4) for n in (170, 233))
    return Launch([a, i4(170), b, i4(233), np.zeros(403, i4), i4(8)], {4: np.sort(np.concatenate([a, b]))})


@kernel("sorting", (2,), (32,))
def top_k(device: Any) -> Launch:
    """The five largest lie as the kernel's heap has them: each is at most its children."""
    x = rng().normal(size=(64, 40)).astype(f4)
    y = np.full((64, 5), -np.inf, f4)
    for row, heap in zip(x, y, strict=True):
        for v in row:
            if v > heap[0]:
                at = 0
                while 2 * at + 1 < 5:
                    child = min(range(2 * at + 1, min(2 * at + 3, 5)), key=lambda i: heap[i])
                    if heap[child] >= v:
                        break
                    heap[at], at = heap[child], child
                heap[at] = v
    assert (np.sort(y, 1) == np.sort(x, 1)[:, -5:]).all()
    return Launch([x, np.zeros((64, 5), f4), i4(40)], {1: y})


@kernel("sorting", (2,), (32,))
def quickselect(device: Any) -> Launch:
    x = rng().integers(-20, 20, (60, 15)).astype(i4)
    return Launch([x, np.zeros(60, i4), i4(60)], {1: np.median(x, 1).astype(i4)})


@kernel("sorting", (1,), (128,))
def unique_of_sorted(device: Any) -> Launch:
    x = np.sort(rng().integers(-99, 99, 300)).astype(i4)
    values, first = np.unique(x, return_index=True)
    y, positions = np.zeros((2, 300), i4)
    y[: len(values)], positions[: len(values)] = values, first
    args = [x, np.zeros(300, i4), np.zeros(300, i4), np.zeros(1, i4), i4(300)]
    return Launch(args, {1: y, 2: positions, 3: np.array([len(values)], i4)})


@kernel("sorting", (2, 3), (16, 8))
def median_filter(device: Any) -> Launch:
    x = rng().integers(0, 256, (20, 30)).astype(np.uint8)
    p = np.pad(x, 1, mode="edge")
    windows = np.stack([p[r : r + 20, c : c + 30] for r in range(3) for c in range(3)])
    return Launch([x, np.zeros_like(x), i4(20), i4(30)], {1: np.median(windows, 0).astype(np.uint8)})


@kernel("sorting", (2,), (64,))
def search_sorted(device: Any) -> Launch:
    a = np.sort(rng().integers(-99, 99, 201)).astype(i4)
    v = rng().integers(-110, 110, 100).astype(i4)
    out = np.stack([np.searchsorted(a, v, side) for side in ("left", "right")], 1).astype(i4)
    return Launch([a, i4(201), v, np.zeros((100, 2), i4), i4(100)], {3: out})


@kernel("sorting", (1,), (64,))
def most_urgent(device: Any) -> Launch:
    urgency = rng().integers(0, 12, 50).astype(i4)
    order = np.argsort(urgency, kind="stable")[:10]
    best = urgency[order].astype(np.uint64) << np.uint64(32) | order.astype(np.uint64)
    args = [urgency, np.zeros(10, np.uint64), np.zeros(10, i4), i4(50), i4(10)]
    return Launch(args, {1: best, 2: order.astype(i4)})
