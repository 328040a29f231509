"""Floating-point arithmetic with PTX's rules for rounding, NaN and zero. Operands are arrays or NumPy scalars.

The payload of a NaN from a float32 or float64 sum, product or `fma` is unspecified, and may depend on whether operands
are scalars.

Many operations are computed in a wider format and then rounded. Where rounding twice could go wrong, the first rounding
is to odd: it keeps a sticky bit, so that a second rounding to a format at least two bits narrower is correct (Boldo and
Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .integer import PerThread, functions_of, sel

U2, U4, U8, F2, F4, F8 = np.uint16, np.uint32, np.uint64, np.float16, np.float32, np.float64
I8 = np.int64
_LEAST = I8(-(1 << 63))
NAN16 = U2(0x7FFF)
_TINY32 = np.finfo(F4).tiny


def ftz(x: PerThread) -> PerThread:
    """Flush subnormals to zero of the same sign."""
    small = np.abs(x) < np.finfo(x.dtype).tiny
    return x if not np.count_nonzero(small) else sel(small, np.copysign(x.dtype.type(0), x), x)


def saturate(x: PerThread) -> PerThread:
    """Clamp to [0, 1]; NaN and -0 become +0."""
    one, zero = x.dtype.type(1), x.dtype.type(0)
    return sel(x > zero, np.minimum(x, one), zero)


def bf16_to_f32(x: PerThread) -> PerThread:
    return (x.astype(U4) << U4(16)).view(F4)


def f32_to_bf16(x: PerThread) -> PerThread:
    """Convert float32 to bf16 bits, rounded to nearest even; NaN becomes 0x7fff."""
    bits = x.view(U4)
    rounded = ((bits + U4(0x7FFF) + ((bits >> U4(16)) & U4(1))) >> U4(16)).astype(U2)
    nan = x != x
    return rounded if not np.count_nonzero(nan) else sel(nan, NAN16, rounded)


def f64_to_bf16(x: PerThread) -> PerThread:
    return f32_to_bf16(f64_to_f32_odd(x))


def f64_to_f32_odd(x: PerThread) -> PerThread:
    """Convert float64 to float32, rounded to odd."""
    near = x.astype(F4)
    return make_odd(near, x - near.astype(F8))


def two_sum(a: PerThread, b: PerThread) -> tuple[PerThread, PerThread]:
    """Return the rounded sum and its exact error (Knuth), barring overflow."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def add_odd(a: PerThread, b: PerThread) -> PerThread:
    """Return the float64 sum rounded to odd."""
    s, error = two_sum(a, b)
    return make_odd(s, error)


def make_odd(near: PerThread, error: PerThread) -> PerThread:
    """Round the exact value near + error to odd; `near` is the nearest number of its format."""
    inexact = (error != 0) & (error == error)
    if not np.count_nonzero(inexact):
        return near
    bits = near.view(f"u{near.dtype.itemsize}")
    kind = bits.dtype.type
    even = inexact & ((bits & kind(1)) == 0)
    grows = even & ((error > 0) != np.signbit(near))
    return (bits + grows.astype(kind) - (even ^ grows).astype(kind)).view(near.dtype)


def fma_f32(a: PerThread, b: PerThread, c: PerThread) -> PerThread:
    """fma.rn.f32. The product is exact in float64; only sums that round to a midpoint of float32 need correction."""
    s = _multiply_add(a, b, c)
    if not np.ndim(s):
        return add_odd(a.astype(F8) * b.astype(F8), c.astype(F8)).astype(F4)
    result = s.astype(F4)
    # Candidates for a double-rounding error are sums that are subnormal as float32 or exactly on a midpoint.
    at = _NOWHERE if _keeps_sums_normal(c) else _subnormal(result, s)
    # Move the 29 bits that float32 lacks to the top. For a midpoint they are a 1 followed by zeros: the least int64.
    bits = s.view(I8)
    bits <<= I8(35)
    if np.minimum.reduce(bits) == _LEAST:
        at = np.concatenate((at, np.flatnonzero(bits == _LEAST)))
    if not at.size:
        return result
    x, y, z = (v[at].astype(F8) if np.ndim(v) else v.astype(F8) for v in (a, b, c))
    s, error = two_sum(x * y, z)
    if np.count_nonzero(error != 0):
        result[at] = make_odd(s, error).astype(F4)
    return result


_NOWHERE = np.zeros(0, np.int64)


def _keeps_sums_normal(c: PerThread) -> bool:
    """True if `c` is a scalar of at least 2^-70 in magnitude, so that no product plus `c` is a float32 subnormal.

    A sum is a multiple of the smaller unit in the last place of its operands. If it is near zero, the product is about
    as large as c; for c = 2^-70, the last of the product's 48 bits is worth at least 2^-118, a normal value.
    """
    return not np.ndim(c) and bool(abs(c) >= 2.0**-70)


def _subnormal(result: PerThread, s: PerThread) -> PerThread:
    """Return the indices of nonzero sums `s` whose magnitude as float32 is at most the least normal number."""
    magnitude = np.abs(result)
    # The comparison is False if there is a NaN.
    if np.minimum.reduce(magnitude) > _TINY32:
        return _NOWHERE
    at = np.flatnonzero(magnitude <= _TINY32)
    return at[s[at] != 0]


def _multiply_add(a: PerThread, b: PerThread, c: PerThread) -> PerThread:
    """Return a * b + c in float64, with few temporaries; the caller may overwrite the result."""
    if not np.ndim(a):
        a, b = b, a
    s = a.astype(F8)
    if not np.ndim(a):
        return s * b.astype(F8) + c.astype(F8)
    other = b.astype(F8)
    s *= other
    if np.ndim(b):
        np.copyto(other, c)
    else:
        other = c.astype(F8)
    s += other
    return s


def _split(x: PerThread) -> tuple[PerThread, PerThread]:
    t = x * F8(134217729.0)
    high = t - (t - x)
    return high, x - high


def two_product(a: PerThread, b: PerThread) -> tuple[PerThread, PerThread]:
    """Return the rounded float64 product and its exact error (Dekker), barring overflow and underflow."""
    p = a * b
    ah, al = _split(a)
    bh, bl = _split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def fma_f64(a: PerThread, b: PerThread, c: PerThread) -> PerThread:
    """fma.rn.f64, by error-free transformations or, for extreme operands and products, by exact fractions."""
    p, low = two_product(a, b)
    s, error = two_sum(c, low)
    t, rest = two_sum(p, s)
    result = t + add_odd(rest, error)
    # with a zero or non-finite factor the product is exact, and only the sum is rounded
    simple = (a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b)
    if np.count_nonzero(simple):
        result = sel(simple, p + c, result)
    hard = _hard_f64(a, b, c, p) & ~simple
    if not np.count_nonzero(hard):
        return result
    # imported here, because `exact` imports the module fractions, which takes 3 ms and which few kernels need
    from . import exact

    if not np.ndim(result):
        return F8(exact.fma(float(a), float(b), float(c)))
    a, b, c = (np.broadcast_to(x, result.shape) for x in (a, b, c))
    result = result.copy()
    for i in np.flatnonzero(np.broadcast_to(hard, result.shape)):
        result[i] = exact.fma(float(a[i]), float(b[i]), float(c[i]))
    return result


def _hard_f64(a: PerThread, b: PerThread, c: PerThread, p: PerThread) -> PerThread:
    """Return a mask of the threads that need fractions: a step may overflow, or the product's error underflow."""
    big, small = F8(2.0**960), F8(2.0**-900)
    magnitude = np.abs(p)
    easy = (np.abs(a) < big) & (np.abs(b) < big) & (np.abs(c) < big) & (magnitude < big)
    return ~(easy & (magnitude > small))


def fma_f16(a: PerThread, b: PerThread, c: PerThread) -> PerThread:
    """fma.rn.f16. The product is exact in float64; the sum is rounded to odd there, then to float16."""
    return to_f16(add_odd(a.astype(F8) * b.astype(F8), c.astype(F8)))


def to_f16(x: PerThread) -> PerThread:
    """Convert float64 or float32 to float16, rounded to nearest even; NaN becomes 0x7fff."""
    r = x.astype(F2)
    nan = r != r
    return r if not np.count_nonzero(nan) else sel(nan, NAN16.view(F2), r)


def fma_bf16(a: PerThread, b: PerThread, c: PerThread) -> PerThread:
    product = bf16_to_f32(a).astype(F8) * bf16_to_f32(b).astype(F8)
    return f64_to_bf16(add_odd(product, bf16_to_f32(c).astype(F8)))


def _f16_form(function: Callable[..., PerThread]) -> Callable[..., PerThread]:
    return lambda *x: to_f16(function(*(v.astype(F4) for v in x)))


def _bf16_form(function: Callable[..., PerThread]) -> Callable[..., PerThread]:
    return lambda *x: f32_to_bf16(function(*(bf16_to_f32(v) for v in x)))


add_f16, sub_f16, mul_f16 = map(_f16_form, (np.add, np.subtract, np.multiply))


def add_bf16(a: PerThread, b: PerThread) -> PerThread:
    return f64_to_bf16(add_odd(bf16_to_f32(a).astype(F8), bf16_to_f32(b).astype(F8)))


def sub_bf16(a: PerThread, b: PerThread) -> PerThread:
    return add_bf16(a, b ^ U2(0x8000))


def mul_bf16(a: PerThread, b: PerThread) -> PerThread:
    return f64_to_bf16(bf16_to_f32(a).astype(F8) * bf16_to_f32(b).astype(F8))


def _fix_zero(r: PerThread, a: PerThread, b: PerThread, join: Callable[..., PerThread]) -> PerThread:
    """Correct `r`, the minimum or maximum of a and b: `join` the bits of two zeros, and make NaNs canonical."""
    if np.count_nonzero(r == 0):
        unsigned = np.dtype(f"u{r.dtype.itemsize}")
        r = sel((a == 0) & (b == 0), join(a.view(unsigned), b.view(unsigned)).view(r.dtype), r)
    return canonical(r)


def canonical(r: PerThread) -> PerThread:
    """Replace NaN by the canonical NaN of NVIDIA GPUs: all bits but the sign set; for float64, 0x7ff8000000000000."""
    nan = r != r
    if not np.count_nonzero(nan):
        return r
    unsigned = np.dtype(f"u{r.dtype.itemsize}")
    if r.dtype.itemsize == 8:
        return sel(nan, U8(0x7FF8000000000000).view(F8), r)
    return sel(nan, unsigned.type(2 ** (8 * r.dtype.itemsize - 1) - 1).view(r.dtype), r)


def _picker(pick: Callable[..., PerThread], join: Callable[..., PerThread]) -> Callable[..., PerThread]:
    return lambda a, b: _fix_zero(pick(a, b), a, b, join)


# -0 < +0; if exactly one operand is NaN, the first two return the other operand, and the last two NaN
min_float, max_float = _picker(np.fmin, np.bitwise_or), _picker(np.fmax, np.bitwise_and)
min_nan, max_nan = _picker(np.minimum, np.bitwise_or), _picker(np.maximum, np.bitwise_and)


def sort_keys(x: PerThread, nan_is_largest: bool) -> PerThread:
    """Map float32 to int32 keys that compare in the order of the numbers, with -0 < +0 and NaN at one end."""
    bits = sel(x != x, np.int32(0x7FFFFFFF if nan_is_largest else -1), x.view(np.int32))
    return bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))


def from_sort_keys(keys: PerThread) -> PerThread:
    """Invert `sort_keys`; NaN becomes canonical."""
    return canonical((keys ^ ((keys >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(F4))


def f16_low(x: PerThread) -> PerThread:
    return (x & U4(0xFFFF)).astype(U2).view(F2)


def f16_high(x: PerThread) -> PerThread:
    return (x >> U4(16)).astype(U2).view(F2)


def bf16_low(x: PerThread) -> PerThread:
    return (x << U4(16)).view(F4)


def bf16_high(x: PerThread) -> PerThread:
    return (x & U4(0xFFFF0000)).view(F4)


def halves(function: Callable[..., PerThread], dtype: Any, *operands: PerThread) -> PerThread:
    """Apply a function to the low and high halves of packed operands. dtype: the type of a half of 16 or 32 bits."""
    whole, half, size = (U4, U2, 16) if operands[0].dtype.itemsize == 4 else (U8, U4, 32)
    bits, mask = whole(size), whole((1 << size) - 1)
    low = function(*((x & mask).astype(half).view(dtype) for x in operands))
    high = function(*((x >> bits).astype(half).view(dtype) for x in operands))
    return low.view(half).astype(whole) | (high.view(half).astype(whole) << bits)


min_bf16, max_bf16, min_nan_bf16, max_nan_bf16 = map(_bf16_form, (min_float, max_float, min_nan, max_nan))


def _halves_of(function: Callable[..., PerThread], dtype: Any) -> Callable[..., PerThread]:
    return lambda *operands: halves(function, dtype, *operands)


def _flushed(function: Callable[..., PerThread]) -> Callable[..., PerThread]:
    return lambda *operands: ftz(function(*(ftz(x) for x in operands)))


def div_approx(a: PerThread, b: PerThread) -> PerThread:
    """div.approx.f32. For finite |b| > 2^126, 1 / b counts as 0, so the result is 0 for finite a, else NaN.

    source: PTX ISA, "Floating Point Instructions: div", div.approx.f32; CUDA Math API, __fdividef.
    """
    quotient = a / b
    huge = (np.abs(b) > F4(2.0**126)) & np.isfinite(b)
    if not np.count_nonzero(huge):
        return quotient
    return sel(huge, canonical(a * np.copysign(F4(0), b)), quotient)


def _in_f64(function: Callable[[PerThread], PerThread]) -> Callable[[PerThread], PerThread]:
    return lambda x: function(x.astype(F8)).astype(F4)


# computed in float64 and rounded, with smaller errors than the ISA allows
ex2, lg2, sin, cos, tanh = (_in_f64(f) for f in (np.exp2, np.log2, np.sin, np.cos, np.tanh))
ex2_f16, tanh_f16 = map(_f16_form, (ex2, tanh))
ex2_bf16, tanh_bf16 = map(_bf16_form, (ex2, tanh))


def rsqrt(x: PerThread) -> PerThread:
    return (F8(1) / np.sqrt(x.astype(F8))).astype(F4)


def rsqrt_f64(x: PerThread) -> PerThread:
    return F8(1) / np.sqrt(x)


def rcp_ftz_f64(x: PerThread) -> PerThread:
    """rcp.approx.ftz.f64. Like rsqrt.approx.ftz.f64, it reads and writes only the upper 32 bits of its operands."""
    return _upper(ftz(F8(1) / _upper(ftz(x))))


def rsqrt_ftz_f64(x: PerThread) -> PerThread:
    return _upper(F8(1) / np.sqrt(_upper(ftz(x))))


def _upper(x: PerThread) -> PerThread:
    return (x.view(U8) & U8(0xFFFFFFFF00000000)).view(F8)


_TESTS: dict[str, Callable[[PerThread], PerThread]] = {
    "finite": np.isfinite, "infinite": np.isinf, "number": lambda x: x == x, "notanumber": np.isnan,
}


def testp(x: PerThread, how: str) -> PerThread:
    if how in _TESTS:
        return _TESTS[how](x)
    subnormal = (np.abs(x) < np.finfo(x.dtype).tiny) & (x != 0)
    # PTX counts zero as normal.
    return subnormal if how == "subnormal" else np.isfinite(x) & ~subnormal


_BASIC: dict[str, Callable[..., Any]] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "fma": fma_f32}
FUNCTIONS: dict[str, Callable[..., Any]] = functions_of(globals()) | {
    **{f"{name}_f32x2": _halves_of(function, F4) for name, function in _BASIC.items()},
    **{f"{name}_ftz_f32x2": _halves_of(_flushed(function), F4) for name, function in _BASIC.items()},
    "minimum": np.minimum, "maximum": np.maximum, "add": np.add, "sqrt": np.sqrt, "copysign": np.copysign,
    "not_": np.logical_not,
    "add_f16x2": _halves_of(add_f16, F2), "add_bf16x2": _halves_of(add_bf16, U2),
    "min_f16x2": _halves_of(min_float, F2), "max_f16x2": _halves_of(max_float, F2),
    "min_bf16x2": _halves_of(min_bf16, U2), "max_bf16x2": _halves_of(max_bf16, U2),
}
