"""nvcc's kernels with asynchronous copies by cuda::pipeline, cuda::barrier and groups: launches and references."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Launch
from .nvcc_entries import kernel, rng

f4, i4 = np.float32, np.int32


@kernel("pipelines", (2,), (64,))
def pipeline_of_one_thread(device: Any) -> Launch:
    x = rng().integers(-(10**6), 10**6, (2, 7, 64, 4)).astype(i4)
    return Launch([x, np.zeros((2, 64, 4), i4), i4(7)], {1: x.sum(1, dtype=i4)})


@kernel("pipelines", (2,), (128,))
def pipeline_of_a_block(device: Any) -> Launch:
    x = rng().integers(-999, 999, (2, 5, 128)).astype(i4)
    y = x.sum(1, dtype=i4)[:, (np.arange(128) * 5 + 1) % 128]
    return Launch([x, np.zeros(y.shape, i4), i4(5)], {1: y})


@kernel("pipelines", (1,), (128,))
def pipeline_with_roles(device: Any) -> Launch:
    x = rng().integers(-999, 999, (6, 96)).astype(i4)
    y = sum(x[b, ::-1] * 2 ** (5 - b) for b in range(6))
    return Launch([x, np.zeros(96, i4), i4(6)], {1: y.astype(i4)})


@kernel("pipelines", (1,), (96,))
def pipeline_of_gathered_rows(device: Any) -> Launch:
    """Eight halvings of small integers: exact."""
    table = rng().integers(-99, 99, (20, 64)).astype(f4)
    numbers = rng().integers(0, 20, 8).astype(i4)
    out = sum(table[row] / f4(2 ** (7 - k)) for k, row in enumerate(numbers))
    return Launch([table, numbers, np.zeros(64, f4), i4(8)], {2: out})


@kernel("pipelines", (1,), (64,))
def barrier_of_gathered_structures(device: Any) -> Launch:
    pixels = rng().integers(-99, 99, (200, 3)).astype(i4)
    order = rng().integers(0, 200, (2, 64)).astype(i4)
    values = (pixels @ np.array([1, -2, 3], i4))[order][:, ::-1]
    return Launch([pixels, order, np.zeros(64, i4)], {2: (values[0] * 7 + values[1]).astype(i4)})


@kernel("pipelines", (1,), (128,))
def barriers_of_warps(device: Any) -> Launch:
    x = rng().integers(-999, 999, (6, 4, 32)).astype(i4)
    y = np.zeros((4, 32), i4)
    for w in range(4):
        for r in range(3 + w):
            y[w] += np.roll(x[r, w], -r)
    return Launch([x, np.zeros_like(y), i4(3)], {1: y})


@kernel("pipelines", (1,), (64,))
def barrier_of_copies(device: Any) -> Launch:
    x = rng().integers(-999, 999, (4, 64)).astype(np.float64)
    return Launch([x, np.zeros(64), i4(4)], {1: x.sum(0)[::-1].copy()})


@kernel("pipelines", (2,), (128,))
def barrier_of_own_copies(device: Any) -> Launch:
    x = rng().integers(-999, 999, (2, 128)).astype(f4)
    return Launch([x, np.zeros_like(x)], {1: 2 * x + x[:, np.arange(128) ^ 3]})


@kernel("pipelines", (1,), (32,))
def barriers_in_turn(device: Any) -> Launch:
    x = rng().integers(-999, 999, (5, 32, 4)).astype(i4)
    y = (x * np.array([1, -1, 1, -1], i4)).sum((0, 2), dtype=i4)[::-1]
    return Launch([x, np.zeros(32, i4), i4(5)], {1: y.copy()})


@kernel("pipelines", (1,), (64,), shared_bytes=1024)
def group_copies(device: Any) -> Launch:
    x = rng().integers(-999, 999, 700).astype(i4)
    y = np.zeros(64, i4)
    for first in (0, 256, 512):
        part = x[first : first + 256][::-1]
        for k, v in enumerate(part):
            y[k % 64] += v * (k % 3)
    return Launch([x, np.zeros(64, i4), i4(700)], {1: y})


@kernel("pipelines", (1,), (64,))
def group_copies_ahead(device: Any) -> Launch:
    x = rng().integers(-999, 999, (4, 64, 4)).astype(i4)
    v = x[:, np.arange(64) ^ 17]
    first = v[0, :, 0] * 27 + v[1, :, 0] * 9 + v[2, :, 0] * 3 + v[3, :, 0]
    y = np.stack([
        first, np.bitwise_xor.reduce(v[:, :, 1]), np.maximum(v[:, :, 2].max(0), 0), v[:, :, 3].sum(0, dtype=i4),
    ], 1)
    return Launch([x, np.zeros((64, 4), i4), i4(4)], {1: y})


@kernel("pipelines", (2,), (128,))
def tile_copies(device: Any) -> Launch:
    x = rng().integers(-999, 999, (8, 32)).astype(i4)
    return Launch([x, np.zeros_like(x)], {1: x[:, ::-1].copy()})


@kernel("pipelines", (1,), (64,))
def split_barrier(device: Any) -> Launch:
    x = rng().integers(-99, 99, 64).astype(f4)
    y = np.zeros((4, 64), f4)
    v = x
    for s in range(4):
        padded = np.pad(v, 1)
        v = y[s] = (padded[:-2] + padded[2:]) / f4(2)
    return Launch([x, np.zeros_like(y), i4(4)], {1: y})


@kernel("pipelines", (1,), (64,))
def barrier_with_drops(device: Any) -> Launch:
    """Some thread is active in all eight rounds."""
    lives = rng().integers(0, 9, 64).astype(i4)
    lives[5] = 8
    rounds = np.arange(8)[:, None]
    there = lives[None] > rounds
    y = np.where(there, (there * np.arange(64)).sum(1, keepdims=True), 0)
    return Launch([lives, np.zeros((8, 64), i4)], {1: y.astype(i4)})


@kernel("pipelines", (1,), (64,))
def barrier_with_completion(device: Any) -> Launch:
    return Launch([np.zeros((3, 64), i4)], {0: np.repeat([1, 7, 31], 64).reshape(3, 64).astype(i4)})


@kernel("pipelines", (1,), (64,))
def producers_and_consumers(device: Any) -> Launch:
    x = rng().integers(-999, 999, (5, 32)).astype(i4)
    y = (x * np.arange(1, 6)[:, None]).sum(0)[::-1]
    return Launch([x, np.zeros(32, i4), i4(5)], {1: y.astype(i4)})


@kernel("pipelines", (2,), (128,))
def copies_by_hand(device: Any) -> Launch:
    x = rng().integers(-999, 999, (2, 128, 4)).astype(i4)
    return Launch([x, np.zeros_like(x)], {1: x[:, ::-1].copy()})


@kernel("pipelines", (1,), (64,))
def copies_by_hand_counted(device: Any) -> Launch:
    x = rng().integers(-999, 999, 64).astype(i4)
    return Launch([x, np.zeros(64, i4)], {1: np.roll(x, -9)})
