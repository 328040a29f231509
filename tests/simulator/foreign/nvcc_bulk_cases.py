"""nvcc's kernels with double-precision mma, bulk copies and maps of tensors: launches and references."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from .case import Launch
from .nvcc_entries import kernel, rng
from .precise import directed

f2, bf2, f4, f8, i4, u4, u8 = np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int32, np.uint32, np.uint64


def product(m: int, n: int, k: int) -> Launch:
    """Integers whose sums are exact in double."""
    random = rng()
    a, b, c = (random.integers(-(2**20), 2**20, shape).astype(f8) for shape in ((m, k), (k, n), (m, n)))
    return Launch([a, b, c, np.zeros((m, n))], {3: a @ b + c})


@kernel("double_mma", (1,), (32,))
def double_m8n8k4(device: Any) -> Launch:
    return product(8, 8, 4)


@kernel("double_mma", (1,), (32,))
def double_m16n8k4(device: Any) -> Launch:
    return product(16, 8, 4)


@kernel("double_mma", (1,), (32,))
def double_m16n8k8(device: Any) -> Launch:
    return product(16, 8, 8)


@kernel("double_mma", (1,), (32,))
def double_m16n8k16(device: Any) -> Launch:
    return product(16, 8, 16)


@kernel("double_mma", (2, 2), (128,))
def double_gemm(device: Any) -> Launch:
    a = rng().integers(-999, 999, (64, 20)).astype(f8)
    b = rng().integers(-999, 999, (20, 64)).astype(f8)
    return Launch([a, b, np.zeros((64, 64)), i4(64), i4(20)], {2: a @ b})


@kernel("double_mma", (1,), (32,))
def double_distances(device: Any) -> Launch:
    x, y = rng().integers(-999, 999, (2, 8, 12)).astype(f8)
    return Launch([x, y, np.zeros((8, 8))], {2: ((x[:, None] - y[None]) ** 2).sum(2)})


@kernel("double_mma", (1,), (32,))
def double_matrix_power(device: Any) -> Launch:
    """The eighth power; its elements are less than 2**53."""
    a = rng().integers(-3, 4, (8, 8)).astype(f8)
    exact = np.linalg.matrix_power(a.astype(np.int64), 8)
    assert np.abs(exact).max() < 2**53
    return Launch([a, np.zeros((8, 8)), i4(3)], {1: exact.astype(f8)})


@kernel("double_mma", (1,), (32,))
def double_mma_rounding(device: Any) -> Launch:
    """One product and 1: rounded once, to the nearest and towards zero."""
    a, b = rng().normal(size=(2, 8)) * 10.0 ** rng().integers(-9, 9, (2, 8))
    exact = [[Fraction(x) * Fraction(y) + 1 for y in b] for x in a]
    d = np.array([[float(v) for v in row] for row in exact])
    e = np.array([[directed(v, "zero", f8) for v in row] for row in exact])
    assert (d != e).any()
    return Launch([a, b, np.zeros((8, 8)), np.zeros((8, 8))], {2: d, 3: e})


@kernel("bulk", (3,), (64,))
def bulk_there_and_back(device: Any) -> Launch:
    x = rng().integers(-999, 999, (3, 256)).astype(i4)
    return Launch([x.copy()], {0: 2 * x + np.arange(256, dtype=i4)})


@kernel("bulk", (1,), (64,))
def bulk_with_transactions(device: Any) -> Launch:
    x = rng().normal(size=(2, 64))
    return Launch([x, np.zeros(64)], {1: x[0, ::-1] - x[1]})


@kernel("bulk", (2,), (64,))
def bulk_stages(device: Any) -> Launch:
    x = rng().integers(-99, 99, (2, 11, 64)).astype(f4)
    y = (x * np.arange(1, 12, dtype=f4)[:, None]).sum(1)[:, np.arange(64) ^ 5]
    return Launch([x, np.zeros((2, 64), f4), i4(11)], {1: y})


@kernel("bulk", (4,), (64,))
def bulk_add(device: Any) -> Launch:
    x = rng().integers(-999, 999, (4, 128)).astype(i4)
    wide = rng().integers(0, 2**64, (4, 32), u8)
    sums = rng().integers(-999, 999, 128).astype(i4)
    return Launch(
        [x, sums.copy(), wide, np.ones(32, u8)], {1: sums + x.sum(0, dtype=i4), 3: wide.sum(0, dtype=u8) + u8(1)}
    )


@kernel("bulk", (4,), (64,))
def bulk_extremes(device: Any) -> Launch:
    x = rng().integers(-(2**31), 2**31, (5, 64)).astype(i4)
    u = rng().integers(0, 2**32, (5, 64), u8).astype(u4)
    wide = rng().integers(-(2**63), 2**63, (5, 64), np.int64)
    args = [v for a in (x, u, wide) for v in (a[1:].copy(), a[0].copy())]
    return Launch(args, {1: x.min(0), 3: u.max(0), 5: wide.max(0)})


@kernel("bulk", (4,), (32,))
def bulk_bits(device: Any) -> Launch:
    """Four times inc with limit 2: 1, 2, 0, 1."""
    x = rng().integers(0, 2**32, (4, 32), u8).astype(u4)
    x[:3] |= u4(0xFF00)
    expected = {
        1: np.bitwise_and.reduce(x), 2: np.bitwise_or.reduce(x), 3: np.bitwise_xor.reduce(x), 4: np.ones(32, u4),
    }
    return Launch([x, np.full(32, 2**32 - 1, u4), *(np.zeros(32, u4) for _ in range(3))], expected)


@kernel("bulk", (4,), (64,))
def bulk_add_floats(device: Any) -> Launch:
    x, wide = rng().integers(-999, 999, (2, 4, 64))
    return Launch(
        [x.astype(f4), np.ones(64, f4), wide.astype(f8), np.zeros(64)],
        {1: (x.sum(0) + 1).astype(f4), 3: wide.sum(0).astype(f8)},
    )


@kernel("bulk", (4,), (64,))
def bulk_add_halves(device: Any) -> Launch:
    x, b = rng().integers(-99, 99, (2, 4, 64))
    return Launch(
        [x.astype(f2), np.ones(64, f2), b.astype(bf2), np.full(64, -10, bf2)],
        {1: (x.sum(0) + 1).astype(f2), 3: np.maximum(b.max(0), -10).astype(bf2)},
    )


@kernel("bulk", (8,), (64,))
def bulk_add_in_cluster(device: Any) -> Launch:
    x = rng().integers(-999, 999, (2, 4, 64)).astype(i4)
    y = x.sum(1, dtype=i4) + 1000 * np.arange(64, dtype=i4)
    return Launch([x, np.zeros_like(y)], {1: y})


@kernel("bulk", (4,), (64,))
def bulk_to_neighbour(device: Any) -> Launch:
    x = rng().integers(-999, 999, (2, 2, 64)).astype(i4)
    return Launch([x, np.zeros_like(x)], {1: 3 * x[:, ::-1, ::-1]})


@kernel("bulk", (2,), (64,))
def bulk_multicast(device: Any) -> Launch:
    x = rng().integers(-999, 999, 64).astype(i4)
    return Launch([x, np.zeros((2, 64), i4)], {1: np.stack([x, np.roll(x, -1)])})


@kernel("bulk", (2,), (64,))
def bulk_prefetch(device: Any) -> Launch:
    x = rng().integers(-999, 999, (128, 4)).astype(i4)
    return Launch([x, np.zeros(128, i4), i4(128)], {1: x.sum(1, dtype=i4)})


def maps(count: int) -> Any:
    """Memory for maps, aligned as a device's arrays are; a kernel leaves in it what only the hardware reads."""
    raw = np.zeros((count + 1) * 128, np.uint8)
    start = -raw.__array_interface__["data"][0] % 128
    return raw[start : start + count * 128].reshape(count, 128)


@kernel("tensormaps", (3, 3), (32,))
def map_of_a_matrix(device: Any) -> Launch:
    x = rng().normal(size=(20, 40)).astype(f4)
    return Launch([x, maps(9), np.zeros((40, 20), f4), i4(20), i4(40)], {2: x.T.copy()})


@kernel("tensormaps", (4,), (32,))
def map_per_group(device: Any) -> Launch:
    shapes = [(8, 32), (5, 12), (17, 40), (1, 4)]
    matrices = [device.array(rng().integers(-99, 99, shape).astype(i4)) for shape in shapes]
    layout = np.dtype([("x", "u8"), ("rows", "i4"), ("columns", "i4")])
    problems = np.array([(m.address, *shape) for m, shape in zip(matrices, shapes, strict=True)], layout)
    sums = np.zeros((4, 32), i4)
    for total, matrix in zip(sums, matrices, strict=True):
        for (r, c), v in np.ndenumerate(matrix.array):
            total[c % 32] += v * (r % 8 + 1)
    return Launch([problems.view(np.uint8), maps(4), np.zeros((4, 32), i4)], {2: sums})


@kernel("tensormaps", (1,), (32,))
def map_with_new_addresses(device: Any) -> Launch:
    matrices = [device.array(rng().integers(-99, 99, (8, 8)).astype(i4) + i4(k)) for k in range(3)]
    weighted = sum(m.array * 3 ** (2 - k) for k, m in enumerate(matrices))
    t = np.arange(32)
    addresses = np.array([m.address for m in matrices], u8)
    return Launch([addresses, i4(3), maps(3), np.zeros(32, i4)], {3: weighted[t % 8, t // 8].astype(i4)})


@kernel("tensormaps", (2, 3), (32,))
def map_for_stores(device: Any) -> Launch:
    """10 rows of 20 columns, each row with room for 24."""
    y = np.full((12, 24), -1, i4)
    r, c = np.mgrid[:10, :20]
    expected = y.copy()
    expected[:10, :20] = r // 4 * 4000 + c // 16 * 1000 + r % 4 * 16 + c % 16
    return Launch([y, maps(6), i4(10), i4(20), i4(96)], {0: expected})


@kernel("tensormaps", (1,), (32,))
def map_with_swizzle(device: Any) -> Launch:
    x = rng().normal(size=(8, 32)).astype(f4)
    return Launch([x, maps(1), np.zeros((8, 32), f4)], {2: x})


@kernel("tensormaps", (1,), (32,))
def map_changed_in_global(device: Any) -> Launch:
    x = rng().integers(-99, 99, (16, 8)).astype(i4)
    y = np.concatenate([x[12:].reshape(-1), np.zeros(32, i4)])
    return Launch([x, maps(1), np.zeros(64, i4)], {2: y})
