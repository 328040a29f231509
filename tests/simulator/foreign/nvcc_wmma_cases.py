"""nvcc's kernels with nvcuda::wmma: launches and references. The numbers are small: all sums are exact."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .case import Launch
from .nvcc_entries import kernel, rng

f2, bf2, f4, f8, i4, u4 = np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int32, np.uint32


def stored(x: Any, layout: str) -> Any:
    """The matrix as it lies in memory: rows, or columns, one after the other."""
    return np.ascontiguousarray(x if layout == "row" else x.T)


def product(m: int, n: int, k: int, types: tuple[Any, Any], layouts: str, low: int = -4, high: int = 5) -> Launch:
    """d = a * b + c; types of the operands and of the accumulator, layouts of a, b, and both c and d."""
    random = rng()
    operand, result = types
    a, b, c = (random.integers(low, high, shape) for shape in ((m, k), (k, n), (m, n)))
    of_a, of_b, of_c = layouts.split()
    d = stored((a @ b + c).astype(result), of_c)
    args = [stored(x.astype(t), o) for x, t, o in ((a, operand, of_a), (b, operand, of_b), (c, result, of_c))]
    return Launch([*args, np.zeros_like(d)], {3: d})


@kernel("wmma", (1,), (32,))
def wmma_f16_f16_columns(device: Any) -> Launch:
    return product(16, 16, 16, (f2, f2), "col col col")


@kernel("wmma", (1,), (32,))
def wmma_f16_f32_rows(device: Any) -> Launch:
    return product(16, 16, 16, (f2, f4), "row row row")


@kernel("wmma", (1,), (32,))
def wmma_f16_m32n8k16(device: Any) -> Launch:
    return product(32, 8, 16, (f2, f4), "col row row")


@kernel("wmma", (1,), (32,))
def wmma_f16_m8n32k16(device: Any) -> Launch:
    return product(8, 32, 16, (f2, f2), "row col col")


@kernel("wmma", (1,), (32,))
def wmma_bf16(device: Any) -> Launch:
    return product(16, 16, 16, (bf2, f4), "row col row")


@kernel("wmma", (1,), (32,))
def wmma_bf16_m8n32k16(device: Any) -> Launch:
    return product(8, 32, 16, (bf2, f4), "col row row")


@kernel("wmma", (1,), (32,))
def wmma_int8(device: Any) -> Launch:
    return product(16, 16, 16, (np.int8, i4), "row col row", -128, 128)


@kernel("wmma", (1,), (32,))
def wmma_uint8_m32n8k16(device: Any) -> Launch:
    return product(32, 8, 16, (np.uint8, i4), "row col col", 0, 256)


@kernel("wmma", (1,), (32,))
def wmma_int8_m8n32k16(device: Any) -> Launch:
    """Columns of 8 numbers lie 16 bytes apart, the least that a load can take."""
    launch = product(8, 32, 16, (np.int8, i4), "col row row", -128, 128)
    launch.args[0] = np.pad(launch.args[0], ((0, 0), (0, 8)))
    return launch


@kernel("wmma", (1,), (32,))
def wmma_int8_saturated(device: Any) -> Launch:
    """Sums stop at the limits of an int; in each row all products have one sign, so that their order is irrelevant."""
    a = np.abs(rng().integers(1, 128, (16, 16)))
    a[::2] *= -1
    b = rng().integers(0, 128, (16, 16))
    far = rng().integers(0, 160000, (16, 16))
    c = np.where(a[:, :1] < 0, far - 2**31, 2**31 - 1 - far)
    exact = a @ b + c
    assert (exact > 2**31).any() and (exact < -(2**31)).any() and (np.abs(exact) < 2**31).any()
    d = np.clip(exact, -(2**31), 2**31 - 1).astype(i4)
    operands = [stored(x.astype(np.int8), "col") for x in (a, b)]
    return Launch([*operands, c.astype(i4), np.zeros_like(d)], {3: d})


@kernel("wmma", (1,), (32,))
def wmma_double(device: Any) -> Launch:
    return product(8, 8, 4, (f8, f8), "row col row", -(2**20), 2**20)


@kernel("wmma", (1,), (32,))
def wmma_double_columns(device: Any) -> Launch:
    return product(8, 8, 4, (f8, f8), "col row col", -(2**20), 2**20)


@kernel("wmma", (1,), (32,))
def wmma_tf32(device: Any) -> Launch:
    """Numbers near 1 and -1 with more than tf32's 11 digits, rounded to the nearest, ties away from zero."""
    random = rng()
    a = 1 + random.integers(0, 3, (16, 24)) * 2.0**-10 + random.integers(-3, 4, (16, 24)) * 2.0**-13
    a[0] = 1 + 3 * 2.0**-11
    a = (a * random.choice([-1, 1], (16, 24))).astype(f4)
    b = random.integers(-3, 4, (24, 16)).astype(f4)
    rounded = ((a.view(u4) + u4(0x1000)) & u4(0xFFFFE000)).view(f4)
    assert (np.abs(rounded[0]) == f4(1 + 2.0**-9)).all()
    return Launch([a, stored(b, "col"), np.zeros((16, 16), f4)], {2: rounded @ b})


@kernel("wmma", (1,), (32,))
def wmma_int4(device: Any) -> Launch:
    """Two numbers per byte, the first in its lower half."""
    a, b = rng().integers(-8, 8, (2, 8, 32))
    packed = [((x[:, ::2] & 15) | (x[:, 1::2] & 15) << 4).astype(np.uint8).view(i4) for x in (a, b)]
    return Launch([*packed, np.zeros((8, 8), i4)], {2: (a @ b.T + 100).astype(i4)})


@kernel("wmma", (1,), (32,))
def wmma_bits(device: Any) -> Launch:
    a, b = rng().integers(0, 2, (2, 8, 128))
    packed = [np.packbits(x.astype(np.uint8), axis=1, bitorder="little").view(i4) for x in (a, b)]
    different = (a[:, None] ^ b[None]).sum(2).astype(i4)
    both = (a[:, None] & b[None]).sum(2).astype(i4) + i4(1)
    return Launch([*packed, np.zeros((8, 8), i4), np.zeros((8, 8), i4)], {2: different, 3: stored(both, "col")})


@kernel("wmma", (2, 3), (64, 1))
def wmma_gemm(device: Any) -> Launch:
    """The matrix has fewer tiles than there are warps."""
    m, n, k = 48, 48, 32
    random = rng()
    a, b, c = (random.integers(-4, 5, shape) for shape in ((m, k), (k, n), (m, n)))
    d = stored((2 * a @ b - 3 * c).astype(f4), "col")
    args = [stored(x.astype(t), "col") for x, t in ((a, f2), (b, f2), (c, f4))]
    return Launch([*args, i4(m), i4(n), i4(k), f4(2), f4(-3)], {2: d})


@kernel("wmma", (1,), (128,))
def wmma_shared_tiles(device: Any) -> Launch:
    a = rng().integers(-4, 5, (32, 48))
    b = rng().integers(-4, 5, (48, 32))
    return Launch([a.astype(f2), b.astype(f2), np.zeros((32, 32), f4), i4(48)], {2: (a @ b).astype(f4)})


@kernel("wmma", (1,), (32,))
def wmma_layer(device: Any) -> Launch:
    x, w = rng().integers(-4, 5, (2, 16, 16))
    bias = rng().integers(-20, 20, 16)
    y = np.maximum(x @ w + bias, 0).astype(f2)
    return Launch([x.astype(f2), w.astype(f2), bias.astype(f4), np.zeros((16, 16), f2)], {3: y})


@kernel("wmma", (1,), (32,))
def wmma_twice(device: Any) -> Launch:
    a, b = rng().integers(-1, 2, (2, 16, 16))
    d = a @ b @ b + 1
    return Launch([a.astype(f2), stored(b.astype(f2), "col"), np.zeros((16, 16), f2)], {2: stored(d.astype(f2), "col")})
