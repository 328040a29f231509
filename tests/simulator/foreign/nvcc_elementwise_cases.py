"""nvcc's kernels of one thread per element: launches and references."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from .case import Launch
from .nvcc_entries import kernel, rng

f4, i4, u4 = np.float32, np.int32, np.uint32


def fma(a: Any, b: Any, c: Any) -> Any:
    """Rounded once where the product is exact in double, as all products of two floats are."""
    return (np.float64(a) * np.float64(b) + np.float64(c)).astype(f4)


@kernel("elementwise", (5,), (128,))
def vector_add(device: Any) -> Launch:
    n = 600
    a, b = rng().normal(size=(2, n)).astype(f4)
    return Launch([a, b, np.zeros(n, f4), i4(n)], {2: a + b})


@kernel("elementwise", (3,), (64,))
def saxpy(device: Any) -> Launch:
    n = 1000
    x, y = rng().integers(-99, 99, (2, n)).astype(f4)
    return Launch([f4(2.5), x, y, i4(n)], {2: 2.5 * x + y})


@kernel("elementwise", (4,), (64,))
def scale_float4(device: Any) -> Launch:
    n = 250
    x = rng().normal(size=(n, 4)).astype(f4)
    s = f4(0.3)
    y = np.stack([x[:, 0] * s, x[:, 1] + s, x[:, 2] - s, x[:, 3] * x[:, 3]], 1)
    return Launch([x, np.zeros((n, 4), f4), s, i4(n)], {1: y})


@kernel("elementwise", (3,), (128,))
def struct_argument(device: Any) -> Launch:
    n = 300
    x = device.array(rng().normal(size=n).astype(f4))
    y = device.array(np.zeros(n, f4))
    layout = np.dtype([("x", "u8"), ("y", "u8"), ("scale", "f4"), ("shift", "i2"), ("negate", "u1"), ("n", "i4")],
                      align=True)
    record = np.array((x.address, y.address, 1.75, -3, 1, n), layout)
    return Launch([record.tobytes()], {}, reached=[(y.array, -fma(x.array, f4(1.75), f4(-3)))])


@kernel("elementwise", (2,), (256,))
def polynomial(device: Any) -> Launch:
    n = 400
    x = rng().integers(-3, 4, n).astype(f4)
    r = np.polyval([0.5, -1.25, 2.0, 0.0625, -3.0, 1.0], x.astype(np.float64)).astype(f4)
    return Launch([x, np.zeros(n, f4), i4(n)], {1: r})


@kernel("elementwise", (1,), (64,))
def tables_of_addresses(device: Any) -> Launch:
    n = 50
    which = rng().integers(0, 6, n).astype(i4)
    tables = [[1, 2, 3], [20, 30, 40]]
    out = np.array([tables[w & 1][w % 3] + ord(("zero", "one", "two")[w % 3][1]) for w in which], i4)
    return Launch([which, np.zeros(n, i4), i4(n)], {1: out})


@kernel("elementwise", (1,), (32,), launches=3)
def count_launches(device: Any) -> Launch:
    out = np.zeros(16, u4)
    out[:3] = 100, 101, 102
    return Launch([np.zeros(16, u4)], {0: out})


@kernel("elementwise", (4,), (128,))
def integer_division(device: Any) -> Launch:
    n = 500
    a = rng().integers(-(2**31), 2**31, n).astype(i4)
    b = rng().integers(1, 5000, n).astype(i4) * rng().choice([-1, 1], n).astype(i4)
    c = rng().integers(0, 2**64, n, np.uint64)
    q = np.trunc(a / b.astype(np.float64)).astype(i4)
    rem = (a - q * b + np.trunc(a / 7).astype(i4) - np.fmod(a, 10)).astype(i4)
    d = c // np.uint64(1000000007) + c % (b.view(u4) | u4(1)).astype(np.uint64)
    return Launch([a, b, np.zeros(n, i4), np.zeros(n, i4), c, np.zeros(n, np.uint64), i4(n)], {2: q, 3: rem, 5: d})


@kernel("elementwise", (3,), (128,))
def bit_tricks(device: Any) -> Launch:
    n = 300
    a, b = rng().integers(0, 2**32, (2, n), np.uint64).astype(u4)
    a[:4] = 0, 1, 2**32 - 1, 2**31
    out = []
    wide = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        parts = x.to_bytes(4, "little") + y.to_bytes(4, "little")
        shift = x & 31
        turn = y & 31
        out.append([
            x.bit_count(), 32 - x.bit_length(), int(f"{x:032b}"[::-1], 2),
            int.from_bytes(bytes([parts[5], parts[1], parts[7], parts[3]]), "little"), x * y >> 32,
            ((y << 32 | x) << shift >> 32) & 0xFFFFFFFF, (x & -x).bit_length(),
            (x >> turn | x << (32 - turn & 31)) & 0xFFFFFFFF,
        ])
        w = x << 32 | y
        wide.append((w.bit_count() + 100 * (64 - w.bit_length()) + (int(f"{w:064b}"[::-1], 2) ^ w)) & (1 << 64) - 1)
    return Launch(
        [a, b, np.zeros((n, 8), u4), np.zeros(n, np.uint64), i4(n)],
        {2: np.array(out, u4), 3: np.array(wide, np.uint64)},
    )


@kernel("elementwise", (2,), (128,))
def dot_int8(device: Any) -> Launch:
    n = 200
    a, b = rng().integers(-128, 128, (2, n, 4)).astype(np.int8)
    c = rng().integers(0, 256, (n, 4)).astype(np.uint8)
    z = c.astype(i4)
    out = (a.astype(i4) * b).sum(1) + z[:, 0] * z[:, 1] - z[:, 2] // (z[:, 3] + 1)
    return Launch([a, b, c, np.zeros(n, i4), i4(n)], {3: out.astype(i4)})


@kernel("elementwise", (2,), (128,))
def dot_packed(device: Any) -> Launch:
    n = 200
    a, b = rng().integers(-128, 128, (2, n, 4)).astype(np.int8)
    c = rng().integers(0, 256, (n, 4)).astype(np.uint8)
    base = np.array([0x40, 0x30, 0x20, 0x10])
    differences = np.abs(c.astype(i4) - base).astype(np.uint8).view(i4)[:, 0]
    largest = np.maximum(c.view(np.uint16), np.uint16(0x80)).view(i4)[:, 0]
    out = (a.astype(i4) * b).sum(1).astype(i4) + 5 + differences + largest
    return Launch([a.view(i4), b.view(i4), c.view(u4), np.zeros(n, i4), i4(n)], {3: out})


@kernel("elementwise", (2,), (128,))
def half_arithmetic(device: Any) -> Launch:
    n = 200
    a, b = rng().integers(-20, 20, (2, n, 2)).astype(np.float16) / np.float16(4)
    # products and sums are exact: ptxas may fuse them
    c = (rng().integers(-15, 15, (n, 2)) / 4).astype(ml_dtypes.bfloat16)
    out = np.maximum(a * b + a, b - a)
    product = (c.astype(f4) * c.astype(f4)).astype(ml_dtypes.bfloat16)
    d = (product.astype(f4) + f4(1.5)).astype(ml_dtypes.bfloat16)
    return Launch([a, b, np.zeros_like(a), c, np.zeros_like(c), i4(n)], {2: out, 4: d})


@kernel("elementwise", (2,), (128,))
def conversions(device: Any) -> Launch:
    n = 200
    x = (rng().normal(size=n) * 90).astype(f4)
    limited = np.clip(x, -128, 127)
    return Launch(
        [x, np.zeros(n, np.int8), np.zeros(n, np.uint8), np.zeros(n, np.int16), np.zeros(n, np.int64),
         np.zeros(n, np.float16), np.zeros(n, ml_dtypes.bfloat16), np.zeros(n), np.zeros(n, ml_dtypes.float8_e4m3fn),
         i4(n)],
        {1: np.trunc(limited).astype(np.int8), 2: np.rint(np.abs(x)).astype(u4).astype(np.uint8),
         3: np.floor(x).astype(np.int16), 4: np.ceil(x * f4(1e6)).astype(np.int64), 5: x.astype(np.float16),
         6: x.astype(ml_dtypes.bfloat16), 7: x.astype(np.float64) / 3.0, 8: x.astype(ml_dtypes.float8_e4m3fn)},
    )


@kernel("elementwise", (2,), (128,))
def double_arithmetic(device: Any) -> Launch:
    n = 200
    a, b = rng().normal(size=(2, n)) * 100
    return Launch([a, b, np.zeros(n), i4(n)], {2: np.sqrt(np.abs(a / b)) + np.floor(a) * b - np.fmin(a, b)})


@kernel("elementwise", (2,), (128,))
def float_rounding(device: Any) -> Launch:
    n = 220
    a, b = (rng().normal(size=(2, n)) * 10).astype(f4)
    a[:6] = 0, -0.0, np.inf, -np.inf, np.nan, 1e-40
    b[3:9] = 0, -0.0, np.inf, 1e-40, 3e38, -1e-39
    with np.errstate(all="ignore"):
        out = np.stack([
            a / b, np.sqrt(np.abs(a)), f4(1) / b, np.rint(a * f4(4)) + np.trunc(b), np.copysign(a, b) + np.ceil(b),
            np.fmod(a, b),
        ], 1)
    return Launch([a, b, np.zeros((n, 6), f4), i4(n)], {2: out})


@kernel("elementwise", (2,), (128,))
def library_functions(device: Any) -> Launch:
    n = 200
    x = (rng().normal(size=n) * 3).astype(f4)
    d = x.astype(np.float64)
    turned = (x * f4(1e5)).astype(np.float64)
    out = np.stack([
        np.exp(d), np.log(np.abs(d)), np.sin(turned), np.cos(d), np.tanh(d), np.abs(d) ** np.float64(f4(1.7)),
        [math.erf(v) for v in d], np.arctan2(d, 2.0),
    ], 1).astype(f4)
    return Launch([x, np.zeros((n, 8), f4), i4(n)], {1: out}, rtol=1e-6, atol=1e-7)


@kernel("elementwise", (2,), (128,))
def fast_functions(device: Any) -> Launch:
    n = 200
    x = rng().uniform(-2, 2, n).astype(f4)
    d = x.astype(np.float64)
    out = np.stack([np.exp(d), d / (d + 3), 1 / np.sqrt(d * d + 1), np.log(d * d + 2) + np.sin(d) * np.cos(d)], 1)
    return Launch([x, np.zeros((n, 4), f4), i4(n)], {1: out.astype(f4)}, rtol=1e-6, atol=1e-6)


@kernel("elementwise", (3,), (128,))
def switch_operations(device: Any) -> Launch:
    n = 300
    op = rng().integers(-1, 10, n).astype(i4)
    a, b = rng().integers(-1000, 1000, (2, n)).astype(i4)

    def one(o: int, x: int, y: int) -> int:
        if o == 7:
            return sum(x >> k & y for k in range(10) if x > 0 and x >> k > 0)
        table = [x + y, x - y, x * y, x & y, x ^ y, x ^ y, max(x, y)]
        return table[o] if 0 <= o < 7 else -1

    out = np.array([one(*v) for v in zip(op.tolist(), a.tolist(), b.tolist(), strict=True)], i4)
    return Launch([op, a, b, np.zeros(n, i4), i4(n)], {3: out})


@kernel("elementwise", (2,), (128,))
def collatz(device: Any) -> Launch:
    n = 200
    start = np.arange(1, n + 1, dtype=u4)
    steps = np.zeros(n, i4)
    for i in range(n):
        x, count = i + 1, 0
        while x != 1 and count < 90:
            x = 3 * x + 1 if x & 1 else x >> 1
            count += 1
        steps[i] = count if x == 1 else -1
    return Launch([start, np.zeros(n, i4), i4(90), i4(n)], {1: steps})


@kernel("elementwise", (1,), (64,))
def sort_local_array(device: Any) -> Launch:
    n = 60
    x = rng().integers(-100, 100, (n, 12)).astype(i4)
    return Launch([x, np.zeros_like(x), i4(n)], {1: np.sort(x, 1)})
