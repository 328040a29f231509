"""The kernels of nvcc: launches and references."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from .case import Case, Launch

CASES: list[Case] = []
f4, i4, u4 = np.float32, np.int32, np.uint32


def kernel(
    file: str, grid: tuple[int, ...], block: tuple[int, ...], shared_bytes: int = 0, launches: int = 1
) -> Callable[[Callable[[Any], Launch]], Callable[[Any], Launch]]:
    """Enter a function that makes a launch; it has the kernel's name."""

    def enter(make: Callable[[Any], Launch]) -> Callable[[Any], Launch]:
        CASES.append(Case("nvcc", file, make.__name__, grid, block, shared_bytes, make, launches))
        return make

    return enter


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


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
    c = (rng().integers(-60, 60, (n, 2)) / 8).astype(ml_dtypes.bfloat16)
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
