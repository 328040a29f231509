"""nvcc's users' programs on arrays: launches and references. Sums of floats are sums of small integers: exact."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from .case import Launch
from .nvcc_entries import kernel, rng

f4, i4, u4 = np.float32, np.int32, np.uint32


def integers(*shape: int) -> Any:
    return rng().integers(-99, 99, shape).astype(i4)


@kernel("arrays", (2,), (128,))
def histogram_by_warps(device: Any) -> Launch:
    x = rng().integers(0, 256, 2000).astype(np.uint8)
    bins = np.bincount(x >> 2, minlength=64).astype(u4)
    return Launch([x, np.zeros(64, u4), i4(500)], {1: bins})


@kernel("arrays", (1,), (64,), shared_bytes=512)
def scan_two_buffers(device: Any) -> Launch:
    x = integers(60)
    return Launch([x, np.zeros(60, i4), i4(60)], {1: x.cumsum(dtype=i4) - x})


@kernel("arrays", (2,), (128,))
def scan_tree(device: Any) -> Launch:
    x = integers(2, 256)
    return Launch([x, np.zeros_like(x)], {1: x.cumsum(1, dtype=i4) - x})


@kernel("arrays", (1,), (256,))
def scan_by_shuffles(device: Any) -> Launch:
    x = integers(256)
    return Launch([x, np.zeros(256, i4), np.zeros(1, i4)], {1: x.cumsum(dtype=i4), 2: x.sum(dtype=i4)[None]})


@kernel("arrays", (4,), (32,))
def segmented_scan(device: Any) -> Launch:
    x = integers(4, 32)
    heads = (rng().random((4, 32)) < 0.2).astype(np.uint8)
    heads[3] = 0
    y = np.zeros_like(x)
    for row, starts, result in zip(x, heads, y, strict=True):
        total = 0
        for i in range(32):
            total = int(row[i]) + (0 if starts[i] else total)
            result[i] = total
    return Launch([x, heads, np.zeros_like(x)], {2: y})


@kernel("arrays", (3,), (128,))
def reduce_unrolled(device: Any) -> Launch:
    x = integers(1500)
    padded = np.append(x, np.zeros(36, i4)).reshape(2, 3, 256)
    return Launch([x, np.zeros(3, i4), i4(1500)], {1: padded.sum((0, 2), dtype=i4)})


@kernel("arrays", (1,), (128,))
def smallest_and_largest(device: Any) -> Launch:
    x = rng().normal(size=1000).astype(f4)
    return Launch([x, np.zeros(2, f4), i4(1000)], {1: np.array([x.min(), x.max()])})


@kernel("arrays", (1,), (256,))
def compact_in_order(device: Any) -> Launch:
    x = integers(700)
    y = np.zeros(700, i4)
    kept = x[x > 0]
    y[: len(kept)] = kept
    return Launch([x, np.zeros(700, i4), np.zeros(1, i4), i4(700)], {1: y, 2: np.array([len(kept)], i4)})


@kernel("arrays", (3, 3), (16, 16))
def transpose_in_place(device: Any) -> Launch:
    a = rng().normal(size=(40, 40)).astype(f4)
    return Launch([a.copy(), i4(40)], {0: a.T.copy()})


@kernel("arrays", (4,), (64,))
def reverse_in_place(device: Any) -> Launch:
    x = integers(401)
    return Launch([x.copy(), i4(401)], {0: x[::-1].copy()})


@kernel("arrays", (2,), (128,))
def matrix_vector_by_warps(device: Any) -> Launch:
    a, x = integers(7, 90), integers(90)
    return Launch([a.astype(f4), x.astype(f4), np.zeros(7, f4), i4(7), i4(90)], {2: (a @ x).astype(f4)})


@kernel("arrays", (2,), (64,))
def vector_matrix(device: Any) -> Launch:
    x, a = (v.astype(np.float64) for v in (integers(50), integers(50, 100)))
    return Launch([x, a, np.zeros(100), i4(50), i4(100)], {2: x @ a})


@kernel("arrays", (2,), (64,))
def batched_4x4(device: Any) -> Launch:
    a, b = integers(2, 25, 4, 4).astype(f4)
    return Launch([a, b, np.zeros_like(a), i4(25)], {2: a @ b})


def sparse(rows: int, columns: int) -> Any:
    """A matrix with few elements, and its rows without any."""
    a = integers(rows, columns) * (rng().random((rows, columns)) < 0.1)
    a[3] = 0
    return a.astype(i4)


@kernel("arrays", (2,), (64,))
def sparse_matrix_vector(device: Any) -> Launch:
    a = sparse(100, 80)
    x = integers(80).astype(np.float64)
    first = np.append(0, np.cumsum((a != 0).sum(1))).astype(i4)
    column, value = np.nonzero(a)[1].astype(i4), a[a != 0].astype(np.float64)
    return Launch([first, column, value, x, np.zeros(100), i4(100)], {4: a @ x})


@kernel("arrays", (3,), (128,))
def sparse_coordinates(device: Any) -> Launch:
    a, x = sparse(40, 80), integers(80)
    row, column = (v.astype(i4) for v in np.nonzero(a))
    assert 256 < len(row) < 384
    return Launch([row, column, a[a != 0], x, np.zeros(40, i4), i4(len(row))], {4: a @ x})


@kernel("arrays", (2, 2), (16, 8))
def stencil_of_planes(device: Any) -> Launch:
    x = integers(5, 13, 20).astype(f4)
    p = np.pad(x, 1)
    c = p[1:-1, 1:-1, 1:-1]
    y = p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1]
    y = y + p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] - 6 * c
    return Launch([x, np.zeros_like(x), i4(20), i4(13), i4(5)], {1: y})


@kernel("arrays", (3,), (128,))
def convolve_1d(device: Any) -> Launch:
    x, taps = integers(300), integers(9)
    y = np.convolve(x, taps[::-1])[4:-4].astype(i4)
    return Launch([x, np.zeros(300, i4), i4(300)], {1: y}, variables={"taps": taps})


@kernel("arrays", (1,), (32,))
def forward_substitution(device: Any) -> Launch:
    """Made from a solution of integers; all numbers on the way are integers less than 2**53."""
    x = rng().integers(-9, 9, 30)
    lower = np.tril(rng().integers(-2, 3, (30, 30)), -1) + np.eye(30, dtype=int)
    return Launch([lower.astype(np.float64), (lower @ x).astype(np.float64), i4(30)], {1: x.astype(np.float64)})


def determinant(a: Any) -> int:
    rows = [[Fraction(int(v)) for v in row] for row in a]
    result = Fraction(1)
    for k in range(len(rows)):
        at = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if at is None:
            return 0
        if at != k:
            rows[k], rows[at] = rows[at], rows[k]
            result = -result
        result *= rows[k][k]
        for i in range(k + 1, len(rows)):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [v - factor * w for v, w in zip(rows[i], rows[k], strict=True)]
    assert result.denominator == 1
    return int(result)


@kernel("arrays", (4,), (6, 6))
def determinant_modulo(device: Any) -> Launch:
    """One matrix needs exchanges, one is singular."""
    a = rng().integers(0, 1000, (4, 6, 6))
    a[1, :3, 0], a[1, 4, :2] = 0, 0
    a[2, 5] = 2 * a[2, 1] + a[2, 3]
    out = np.array([determinant(m) % 2147483647 for m in a], u4)
    assert out[2] == 0 and out[1] != 0
    return Launch([a.astype(u4), np.zeros(4, u4), i4(6)], {1: out})


@kernel("arrays", (2, 2), (16, 8))
def max_pooling(device: Any) -> Launch:
    """Of equal elements the first is taken."""
    x = rng().integers(-9, 9, (25, 41)).astype(f4)
    windows = x[:24, :40].reshape(12, 2, 20, 2).transpose(0, 2, 1, 3).reshape(12, 20, 4)
    which = windows.argmax(2)
    r, c = np.mgrid[:12, :20]
    at = (2 * r + which // 2) * 41 + 2 * c + which % 2
    args = [x, np.zeros((12, 20), f4), np.zeros((12, 20), i4), i4(25), i4(41)]
    return Launch(args, {1: windows.max(2), 2: at.astype(i4)})
