"""log, log2 and pow."""

from __future__ import annotations

import struct

from .emitter import Emitter, Value
from .exponential import clamp, exp2_parts, scale, scale_factors

__all__ = ["log", "log2", "power"]

_INFINITY = float("inf")
_NAN = float("nan")


def _split(e: Emitter, x: Value) -> tuple[Value, Value]:
    """(m, k) with m·2^k = x and m in [sqrt(1/2), sqrt(2)), both as floats, for positive finite x."""
    f = e.format
    lift = f.precision_bits + 1
    is_subnormal = x < f.smallest_normal
    bits = e.bits(e.select(is_subnormal, x * 2.0**lift, x))
    code = "<f" if f.bits == 32 else "<d"
    sqrt_half = int.from_bytes(struct.pack(code, f.table("SQRT_HALF")[0]), "little")
    exponent = (bits - sqrt_half) >> f.precision_bits
    mantissa = e.from_bits(bits - (exponent << f.precision_bits))
    k = e.convert("trunc", exponent, "i32") - e.select(is_subnormal, e.constant("i32", lift), 0)
    return mantissa, e.convert("sitofp", k, f.llvm)


def _with_special_values(e: Emitter, x: Value, result: Value) -> Value:
    """`result` for positive finite x; a logarithm's value elsewhere."""
    special = e.select(x > 0.0, x, e.select(x.equals(0.0), e.constant(x.type, -_INFINITY), _NAN))
    return e.select((x > 0.0) & (x < _INFINITY), result, special)


def log(e: Emitter, x: Value) -> Value:
    """k·ln(2) + f + f²·P(f) for x = (1 + f)·2^k."""
    ln2_high, ln2_low = e.format.table("LN2")
    m, k = _split(e, x)
    f = m - 1.0
    tail = e.fma(f * f, e.horner(f, e.format.table("LOG")), k * ln2_low)
    return _with_special_values(e, x, e.fma(k, ln2_high, f + tail))


def log2(e: Emitter, x: Value) -> Value:
    """k + f·P(f) for x = (1 + f)·2^k."""
    m, k = _split(e, x)
    f = m - 1.0
    return _with_special_values(e, x, e.fma(f, e.horner(f, e.format.table("LOG2")), k))


def _log2_in_two_parts(e: Emitter, x: Value) -> tuple[Value, Value]:
    """log2 of a positive finite x as a sum of two floats, to about 12 bits more than one holds.

    log2(m) = u·(2 + 2u²/3 + ...)/ln(2) for u = (m - 1)/(m + 1): division, constant, cubic term
    and the product with u carry their rounding errors along.
    """
    c_high, c_low = e.format.table("TWO_OVER_LN2")
    third_high, third_low = e.format.table("TWO_OVER_3LN2")
    m, k = _split(e, x)
    f, d = m - 1.0, m + 1.0
    d_low = m - (d - 1.0)
    reciprocal = 1.0 / d
    u = f * reciprocal
    u_low = e.fma(-u, d_low, e.fma(-u, d, f)) * reciprocal

    s = u * u
    s_low = e.fma(u + u, u_low, e.fma(u, u, -s))
    cubic = s * third_high
    cubic_low = e.fma(s, third_high, -cubic) + e.fma(s, third_low, s_low * third_high)
    cubic_low = e.fma(s * s, e.horner(s, e.format.table("ATANH")), cubic_low)

    slope = cubic + c_high
    slope_low = (cubic - (slope - c_high)) + (cubic_low + c_low)
    product = u * slope
    product_low = e.fma(u, slope, -product) + e.fma(u, slope_low, u_low * slope)

    high = k + product
    low = (product - (high - k)) + product_low
    total = high + low
    return total, low - (total - high)


def power(e: Emitter, x: Value, y: Value) -> Value:
    """2^(y·log2|x|), with the special values of C's Annex F (pow).

    source: ISO/IEC 9899, F.10.4.4 "The pow functions".
    """
    limit = e.format.exp2_limit
    magnitude = abs(x)
    log_high, log_low = _log2_in_two_parts(e, magnitude)
    product = y * log_high
    product_low = e.fma(y, log_low, e.fma(y, log_high, -product))
    limited = clamp(e, product, limit)
    p, n = exp2_parts(e, limited, e.select(abs(product) > limit, 0.0, product_low))
    result = scale(p, scale_factors(e, n))

    is_zero = magnitude.equals(0.0)
    is_extreme = is_zero | magnitude.equals(_INFINITY)
    extreme = e.select((y < 0.0) ^ is_zero, e.constant(x.type, 0.0), _INFINITY)
    result = e.select(is_extreme, extreme, result)
    result = e.select(magnitude.equals(1.0), 1.0, result)

    is_integer = e.intrinsic("rint", y).equals(y)
    half = y * 0.5
    is_odd = is_integer & e.intrinsic("rint", half).differs(half)
    is_negative = e.bits(x) < 0
    result = e.select(is_negative & is_odd, -result, result)
    is_complex = is_negative & ~(is_extreme | is_integer)
    is_nan = e.compare("uno", x, y)
    result = e.select(is_complex | is_nan, _NAN, result)
    return e.select(x.equals(1.0) | y.equals(0.0), 1.0, result)
