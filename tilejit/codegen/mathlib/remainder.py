"""The floored remainder, exact for any quotient, and the floored quotient."""

from __future__ import annotations

from .emitter import Block, Emitter, Value

__all__ = ["floordiv", "mod"]

_INFINITY = float("inf")


def _step(e: Emitter, x: Value, y: Value) -> Value:
    """x mod y for 0 <= x < 2^precision·y, y > 0: exact.

    The rounded quotient is at most one too large after truncation, and x - q·y is a multiple of the
    smaller unit in the last place, smaller than y.
    """
    quotient = e.intrinsic("trunc", x / y)
    remainder = e.fma(-quotient, y, x)
    return e.select(remainder < 0.0, remainder + y, remainder)


def _times_power_of_two(e: Emitter, y: Value, k: Value) -> Value:
    """y·2^k for k >= 0 where the result is finite; 2^k alone needn't be."""
    f = e.format
    half = k.logical_shift_right(1)
    result = y
    for part in (half, k - half):
        biased = e.convert("zext", part + f.bias, f.integer)
        result = result * e.from_bits(biased << f.precision_bits)
    return result


def _exponent(e: Emitter, x: Value) -> Value:
    """The biased exponent field of a positive x, extended below zero for subnormal x."""
    f = e.format
    lift = f.precision_bits + 1
    is_subnormal = x < f.smallest_normal
    bits = e.bits(e.select(is_subnormal, x * 2.0**lift, x))
    field = e.convert("trunc", bits.logical_shift_right(f.precision_bits), "i32")
    return field - e.select(is_subnormal, e.constant("i32", lift), 0)


def _magnitude(e: Emitter, x: Value, y: Value) -> Value:
    """|x| - trunc(|x|/|y|)·|y|, exact, for finite x and y other than 0.

    A large quotient goes in rounds: x mod y·2^k leaves x mod y alone and is shorter by about a
    significand's length each.
    """
    f = e.format
    a, b = abs(x), abs(y)
    before, loop, done = e.block, Block("loop"), Block("done")
    bound = b * 2.0**f.precision_bits
    is_finite = a < _INFINITY
    b_exponent = _exponent(e, b)
    e.branch(is_finite & (b > 0.0) & (a >= bound), loop, done)

    # current >= bound, so that k >= 1 and the step's quotient is below 2^precision.
    e.start(loop)
    current = e.phi((a, before))
    k = _exponent(e, current) - b_exponent - (f.precision_bits - 1)
    reduced = _step(e, current, _times_power_of_two(e, b, k))
    e.add_incoming(current, reduced, loop)
    e.branch(reduced >= bound, loop, done)

    e.start(done)
    small = e.phi((a, before), (reduced, loop))
    remainder = _step(e, small, b)
    return e.select(small < b, small, remainder)


def mod(e: Emitter, x: Value, y: Value) -> Value:
    """x - floor(x/y)·y as NumPy computes it: the exact remainder, then y added where the signs differ."""
    magnitude = _magnitude(e, x, y)
    signed = e.intrinsic("copysign", magnitude, x)
    result = e.select(_signs_differ(e, x, y), signed + y, signed)
    result = e.select(magnitude.equals(0.0), e.intrinsic("copysign", magnitude, y), result)
    has_value = (abs(x) < _INFINITY) & (abs(y) > 0.0)
    return e.select(has_value, result, float("nan"))


def floordiv(e: Emitter, x: Value, y: Value) -> Value:
    """floor(x/y) as NumPy computes it: (x - remainder)/y, rounded to the nearest whole number."""
    magnitude = _magnitude(e, x, y)
    quotient = x / y
    whole = (x - e.intrinsic("copysign", magnitude, x)) / y
    crosses = _signs_differ(e, x, y) & (magnitude > 0.0)
    whole = e.select(crosses, whole - 1.0, whole)
    below = e.intrinsic("floor", whole)
    nearest = e.select(whole - below > 0.5, below + 1.0, below)
    signed_zero = e.intrinsic("copysign", e.constant(x.type, 0.0), quotient)
    result = e.select(whole.equals(0.0), signed_zero, nearest)
    result = e.select(abs(x) < _INFINITY, result, float("nan"))
    return e.select(y.equals(0.0), quotient, result)


def _signs_differ(e: Emitter, x: Value, y: Value) -> Value:
    return (e.bits(x) ^ e.bits(y)) < 0
