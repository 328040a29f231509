"""nvcc's kernels with packed numbers and seldom used integer instructions: launches and references."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .case import Launch
from .nvcc_entries import kernel, rng

f2, f4, i4, u4, i8 = np.float16, np.float32, np.int32, np.uint32, np.int64
bf2 = ml_dtypes.bfloat16
N = 100


def halves(dtype: Any, arrays: int = 2) -> Any:
    """Pairs of few values, so that many are equal; infinities, zeros of both signs and NaNs among them."""
    x = rng().choice([0.0, -0.0, 0.5, -0.5, 1.25, -2, np.inf, -np.inf, np.nan], (arrays, N, 2))
    return x.astype(dtype)


def ordered(x: Any, y: Any) -> Any:
    return ~(np.isnan(x.astype(f4)) | np.isnan(y.astype(f4)))


def masks(holds: Any) -> Any:
    """0xffff in the half whose comparison holds."""
    return np.ascontiguousarray(np.where(holds, 0xFFFF, 0).astype(np.uint16)).view(u4)[..., 0]


@kernel("packed", (2,), (64,))
def half2_comparisons(device: Any) -> Launch:
    a, b = halves(f2)
    holds = [a == b, (a != b) & ordered(a, b), a < b, a <= b, a > b, a >= b]
    return Launch([a, b, np.zeros((N, 6, 2), f2), i4(N)], {2: np.stack(holds, 1).astype(f2)})


@kernel("packed", (2,), (64,))
def half2_unordered_comparisons(device: Any) -> Launch:
    a, b = halves(f2)
    either = ~ordered(a, b)
    holds = [(a == b) | either, a != b, ~(a >= b), ~(a > b), ~(a <= b), ~(a < b), np.isnan(a)]
    return Launch([a, b, np.zeros((N, 7, 2), f2), i4(N)], {2: np.stack(holds, 1).astype(f2)})


@kernel("packed", (2,), (64,))
def half2_masks(device: Any) -> Launch:
    a, b = halves(f2)
    holds = [a == b, (a != b) & ordered(a, b), a < b, ~(a < b), a > b, ~(a > b)]
    return Launch([a, b, np.zeros((N, 6), u4), i4(N)], {2: masks(np.stack(holds, 1))})


@kernel("packed", (2,), (64,))
def half2_both(device: Any) -> Launch:
    a, b = halves(f2)
    either = ~ordered(a, b)
    both = [a == b, (a != b) & ~either, a < b, a >= b, (a == b) | either, ~(a <= b)]
    out = sum(x.all(1) * 2**k for k, x in enumerate(both)) + 64 * ((a[:, 0] == b[:, 1]) | (a[:, 0] < b[:, 0]))
    return Launch([a, b, np.zeros(N, i4), i4(N)], {2: out.astype(i4)})


@kernel("packed", (2,), (64,))
def bfloat2_comparisons(device: Any) -> Launch:
    a, b = halves(bf2)
    x, y = a.astype(f4), b.astype(f4)
    either = ~ordered(a, b)
    out = np.stack([x == y, x != y, x < y, ~(x < y)], 1).astype(f4).astype(bf2)
    mask = masks(np.stack([x > y, (x == y) | either], 1))
    return Launch([a, b, np.zeros((N, 4, 2), bf2), np.zeros((N, 2), u4), i4(N)], {2: out, 3: mask})


@kernel("packed", (2,), (64,))
def half2_selections(device: Any) -> Launch:
    """fma's products and sums of these values are exact in double, and so rounded once."""
    a, b, c = halves(f2, 3)
    a[50:] = (rng().normal(size=(50, 2)) * 3).astype(f2)
    x, y, z = (v.astype(np.float64) for v in (a, b, c))
    with np.errstate(all="ignore"):
        fused = x * y + z
        relu = np.where(np.isnan(fused), np.nan, np.maximum(fused, 0))
        saturated = [np.where(np.isnan(v), 0, np.clip(v, 0, 1)) for v in (x + y, x * y)]
        out = np.stack([
            np.fmin(x, y), np.maximum(x, y), relu, saturated[0], np.abs(x), np.rint(x),
            np.stack([x[:, 0], y[:, 0]], 1), saturated[1],
        ], 1).astype(f2)
    return Launch([a, b, c, np.zeros((N, 8, 2), f2), i4(N)], {3: out})


def words(arrays: int) -> Any:
    x = rng().integers(0, 2**32, (arrays, N), np.uint64).astype(u4)
    x[0, :5], x[1, :5] = (0x80808080, 0x7F7F7F7F, 0xFFFFFFFF, 0x80007FFF, 0), (0x7F7F7F7F, 0x80808080, 1, 0x7FFF8000, 0)
    x[1, 5:20] = x[0, 5:20] ^ u4(0x00FF0000)
    return x


def lanes(x: Any, dtype: Any) -> Any:
    """The small numbers of each word."""
    return x.view(dtype).reshape(N, -1).astype(i8)


def packed(x: Any, bits: int) -> Any:
    """Pack numbers of `bits` bits into words."""
    return np.ascontiguousarray(x.astype(np.uint8 if bits == 8 else np.uint16)).view(u4)[:, 0]


@kernel("packed", (2,), (64,))
def dot_products_of_bytes(device: Any) -> Launch:
    a, b, c = words(3)
    out, sums = np.zeros((N, 3), i4), np.zeros((N, 3), u4)
    for result, wide, narrow in ((out, np.int16, np.int8), (sums, np.uint16, np.uint8)):
        low = (lanes(a, wide) * lanes(b, narrow)[:, :2]).sum(1)
        high = (lanes(a, wide) * lanes(b, narrow)[:, 2:]).sum(1)
        whole = (lanes(a, narrow) * lanes(b, narrow)).sum(1)
        for k, x in enumerate((whole, low, high)):
            result[:, k] = (x + c).astype(u4).view(result.dtype)
    args = [a.view(i4), b.view(i4), c.view(i4), np.zeros_like(out), np.zeros_like(sums), i4(N)]
    return Launch(args, {3: out, 4: sums})


@kernel("packed", (2,), (64,))
def dot_products_of_vectors(device: Any) -> Launch:
    a, b, c = words(3)
    x, y, z = lanes(a, np.int8), lanes(b, np.int16), lanes(c, np.int8)
    out = (y * z[:, :2]).sum(1) + (x * z).sum(1) + 7 - (y * x[:, 2:]).sum(1)
    arrays = [a.view(np.int8).reshape(N, 4), b.view(np.int16).reshape(N, 2), c.view(np.int8).reshape(N, 4)]
    return Launch([*arrays, np.zeros(N, i4), i4(N)], {3: out.astype(i4)})


@kernel("packed", (2,), (64,))
def simd_differences(device: Any) -> Launch:
    a, b = words(2)
    by_type = {t: np.abs(lanes(a, t) - lanes(b, t)) for t in (np.uint8, np.int8, np.uint16, np.int16)}
    absolute = packed(np.minimum(np.abs(lanes(a, np.int8)), 127), 8)
    negated = packed(np.minimum(-lanes(b, np.int16), 32767), 16)
    out = np.stack([
        *(packed(x, bits) for x, bits in zip(by_type.values(), (8, 8, 16, 16), strict=True)),
        *(by_type[t].sum(1).astype(u4) for t in (np.uint8, np.int8, np.uint16)), absolute ^ negated,
    ], 1)
    return Launch([a, b, np.zeros((N, 8), u4), i4(N)], {2: out})


@kernel("packed", (2,), (64,))
def simd_extremes(device: Any) -> Launch:
    a, b = words(2)
    out = []
    for signed, unsigned, bits in ((np.int8, np.uint8, 8), (np.int16, np.uint16, 16)):
        for t in (signed, unsigned):
            out += [packed(f(lanes(a, t), lanes(b, t)), bits) for f in (np.maximum, np.minimum)]
    return Launch([a, b, np.zeros((N, 8), u4), i4(N)], {2: np.stack(out, 1)})


@kernel("packed", (2,), (64,))
def simd_sums(device: Any) -> Launch:
    """Averages are rounded to the nearest, ties away from zero; those of __vhaddu4 down."""
    a, b = words(2)
    (sa, sb), (ua, ub), (wa, wb) = ((lanes(a, t), lanes(b, t)) for t in (np.int8, np.uint8, np.int16))
    out = np.stack([
        packed(ua + ub, 8), packed(np.clip(sa + sb, -128, 127), 8), packed(np.minimum(ua + ub, 255), 8),
        packed(wa - wb, 16), packed(np.clip(wa - wb, -32768, 32767), 16), packed(np.maximum(ua - ub, 0), 8),
        packed(ua + ub + 1 >> 1, 8), packed(wa + wb + (wa + wb >= 0) >> 1, 16), packed(ua + ub >> 1, 8), packed(-ua, 8),
    ], 1)
    return Launch([a, b, np.zeros((N, 10), u4), i4(N)], {2: out})


@kernel("packed", (2,), (64,))
def simd_comparisons(device: Any) -> Launch:
    a, b = words(2)
    (sa, sb), (ua, ub) = ((lanes(a, t), lanes(b, t)) for t in (np.int8, np.uint8))
    (ha, hb), (va, vb) = ((lanes(a, t), lanes(b, t)) for t in (np.int16, np.uint16))
    out = np.stack([
        packed(-(ua == ub).astype(i8), 8), packed(-(sa > sb).astype(i8), 8), packed(-(ua < ub).astype(i8), 8),
        packed(-(ha >= hb).astype(i8), 16), packed(ua != ub, 8), packed(va <= vb, 16), packed(va == vb, 16),
        packed(-(va < vb).astype(i8), 16),
    ], 1)
    return Launch([a, b, np.zeros((N, 8), u4), i4(N)], {2: out})


@kernel("packed", (2,), (64,))
def nth_set_bits(device: Any) -> Launch:
    """The ISA's fns: from base upwards or downwards; offset 0 asks for bit base itself."""
    mask = words(2)[0] & rng().integers(0, 2**32, N, np.uint64).astype(u4)
    base = rng().integers(0, 32, N).astype(i4)
    offset = rng().integers(-6, 7, N).astype(i4)
    out = np.full(N, 2**32 - 1, u4)
    for i, (m, b, o) in enumerate(zip(mask.tolist(), base.tolist(), offset.tolist(), strict=True)):
        places = range(b, 32) if o > 0 else range(b, -1, -1) if o < 0 else [b]
        bits = [p for p in places if m >> p & 1]
        at = max(abs(o), 1) - 1
        if at < len(bits):
            out[i] = bits[at]
    return Launch([mask, base, offset, np.zeros(N, u4), i4(N)], {3: out})


@kernel("packed", (2,), (64,))
def permuted_bytes(device: Any) -> Launch:
    a, b, selectors = words(3)
    out = np.zeros((N, 5), u4)
    for i, (x, y, s) in enumerate(zip(a.tolist(), b.tolist(), selectors.tolist(), strict=True)):
        parts = (y << 32 | x).to_bytes(8, "little")
        nibbles = [s >> 4 * k & 15 for k in range(4)]
        plain = bytes(parts[k & 7] for k in nibbles)
        signs = bytes((255 if parts[k & 7] & 128 else 0) if k & 8 else parts[k] for k in nibbles)
        rows = [plain, parts[3::-1], bytes(parts[k] for k in (0, 1, 4, 5)), parts[s & 3 : (s & 3) + 4], signs]
        out[i] = [int.from_bytes(row, "little") for row in rows]
    return Launch([a, b, selectors, np.zeros((N, 5), u4), i4(N)], {3: out})


@kernel("packed", (2,), (64,))
def funnel_shifts(device: Any) -> Launch:
    low, high, shifts = words(3)
    shifts[:70] %= 40
    out = []
    for x, y, s in zip(low.tolist(), high.tolist(), shifts.tolist(), strict=True):
        wide, turn, most = y << 32 | x, s & 31, min(s, 32)
        out.append([v & 0xFFFFFFFF for v in (wide << turn >> 32, wide >> turn, wide << most >> 32, wide >> most)])
    return Launch([low, high, shifts, np.zeros((N, 4), u4), i4(N)], {3: np.array(out, u4)})


def signed24(x: Any) -> Any:
    return ((x & 0xFFFFFF) ^ 0x800000) - 0x800000


@kernel("packed", (2,), (64,))
def averages_and_products(device: Any) -> Launch:
    a, b, c = words(3)
    x, y, z = (v.view(i4).astype(i8) for v in (a, b, c))
    u, v = a.astype(np.uint64), b.astype(np.uint64)
    bits = [
        int(f"{p:032b}"[::-1], 2) ^ 32 - q.bit_length() ^ (r & -r).bit_length()
        for p, q, r in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    out = np.stack([
        x + y >> 1, x + y + 1 >> 1, signed24(x) * signed24(y), x * y >> 32, np.abs(x - y) + z, np.array(bits),
    ], 1).astype(np.uint64).astype(u4).view(i4)
    wide = np.stack([
        np.abs(u.astype(i8) - v.astype(i8)) + c, (u + v >> np.uint64(1)) ^ (u + v + np.uint64(1) >> np.uint64(1)),
        (u & np.uint64(0xFFFFFF)) * (v & np.uint64(0xFFFFFF)) & np.uint64(0xFFFFFFFF) ^ u * v >> np.uint64(32),
    ], 1).astype(np.uint64).astype(u4)
    args = [a.view(i4), b.view(i4), c.view(i4), np.zeros((N, 6), i4), np.zeros((N, 3), u4), i4(N)]
    return Launch(args, {3: out, 4: wide})


@kernel("packed", (2,), (64,))
def dynamic_programming_steps(device: Any) -> Launch:
    """Halves that are small enough for sums not to overflow."""
    h = rng().integers(-8000, 8000, (3, N, 2)).astype(np.int16)
    h[1, :9] = h[0, :9]
    x, y, z = (np.ascontiguousarray(v).view(i4)[:, 0] for v in h)
    a, b, c = h.astype(i8)
    out = np.stack([
        np.maximum(x + y, z), np.maximum(np.maximum(x + y, z), 0), np.maximum(np.maximum(x, y), z),
        np.maximum(np.minimum(np.minimum(x, y), z), 0), np.maximum(x, y), x >= y,
    ], 1).astype(i4)
    pairs = np.stack([
        packed(v, 16) for v in (np.maximum(np.maximum(a, b), c), np.minimum(a + b, c), np.maximum(np.minimum(a, b), 0))
    ], 1)
    return Launch([x, y, z, np.zeros((N, 6), i4), np.zeros((N, 3), u4), i4(N)], {3: out, 4: pairs})


@kernel("packed", (2,), (64,))
def video_instructions(device: Any) -> Launch:
    a, b, c = words(3)
    bytes_a, bytes_b = lanes(a, np.uint8), lanes(b, np.uint8)
    half_a, half_b = lanes(a, np.int16), lanes(b, np.int16)
    largest = np.maximum(half_a[:, 1], lanes(b, np.int8)[:, 0])
    out = np.stack([
        ((bytes_a & 127) + (bytes_b & 127)).sum(1) + c, np.abs(bytes_a - bytes_b).sum(1) + c,
        np.abs(bytes_a[:, 1] - bytes_b[:, 3]), half_a[:, 0] * half_b[:, 1] + c, (a << (b & u4(31))).astype(i8) + c,
        np.minimum(largest, c.view(i4)),
    ], 1).astype(np.uint64).astype(u4)
    return Launch([a, b, c, np.zeros((N, 6), u4), i4(N)], {3: out})


@kernel("packed", (2,), (64,))
def bits_of_words(device: Any) -> Launch:
    x = rng().integers(0, 2**64, N, np.uint64) >> rng().integers(0, 60, N).astype(np.uint64)
    x[:3] = 0, 2**64 - 1, 2**63
    fields = words(2)[0]
    out = np.zeros((N, 3), i8)
    narrow = np.zeros((N, 4), u4)
    for i, (v, f) in enumerate(zip(x.tolist(), fields.tolist(), strict=True)):
        word, first, length = v & 0xFFFFFFFF, f & 31, f >> 8 & 31
        signed = v - (v >> 63 << 64)
        products = v * ((v + 1) & 2**64 - 1) >> 64 ^ (signed * -3 >> 64) & 2**64 - 1
        counts = v.bit_count() * 10000 + (64 - v.bit_length()) * 100 + (v & -v).bit_length()
        out[i] = np.array([counts, int(f"{v:064b}"[::-1], 2), products], np.uint64).view(i8)
        field = word >> first & 2**length - 1
        top = word >> min(first + length - 1, 31) & 1 if length else 0
        taken = min(length, 32 - first)
        extended = field | (2**32 - 2**taken if top else 0)
        mask = (2**length - 1 << first) & 0xFFFFFFFF
        inserted = (word << first) & mask | ~word & ~mask & 0xFFFFFFFF
        magnitude = ~word & 0xFFFFFFFF if word >> 31 else word
        narrow[i] = field, extended, inserted, 32 - magnitude.bit_length() if magnitude else 2**32 - 1
    expected = np.concatenate([out, narrow.view(i8)], 1)
    return Launch([x, fields, np.zeros_like(expected), i4(N)], {2: expected})
