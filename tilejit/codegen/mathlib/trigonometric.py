"""sin and cos over the whole range.

x = n·pi/2 + r with |r| <= pi/4; the low two bits of n choose between ±sin(r) and ±cos(r).
Moderate x subtract n·pi/2 in three parts with fma. Larger ones multiply their integer significand by
the window of 2/pi's bits that can matter, in integers.

source: Payne and Hanek, "Radian reduction for trigonometric functions" (1983); Cody and Waite,
"Software Manual for the Elementary Functions" (1980).
"""

from __future__ import annotations

import math

from .coefficients import TWO_OVER_PI_BITS, TWO_OVER_PI_FRACTION
from .emitter import Block, Emitter, Value

__all__ = ["cos", "sin"]

#: Below these n·pi/2 in three parts is exact enough for the result nearest to a multiple of pi/2.
_MODERATE = {"float32": 2.0**17, "float64": 2.0**30}


def _reduce_moderate(e: Emitter, x: Value) -> tuple[Value, Value]:
    """(r, n as integer) for |x| below the moderate bound."""
    high, middle, low = e.format.table("HALF_PI")
    shifted = e.fma(x, e.format.table("TWO_OVER_PI")[0], e.format.round_shift)
    n = shifted - e.format.round_shift
    r = e.fma(n, -high, x)  # exact
    r = e.fma(n, -middle, r)
    return e.fma(n, -low, r), e.convert("trunc", e.bits(shifted), "i32")


def _two_over_pi_words(e: Emitter, offset: Value, first_bit: int, rows: int) -> list[Value]:
    """Three words of the format's width from bit `offset` of 2/pi shifted right by `first_bit`.

    The window's first word is chosen by halving: each step keeps or drops the first half of what is left,
    which costs selects between constants and no table in memory.
    """
    bits = e.format.bits
    count = (1 << rows) + 3
    shifted = TWO_OVER_PI_FRACTION >> (TWO_OVER_PI_BITS - bits * count + first_bit)
    words = [
        e.constant(e.format.integer, (shifted >> (bits * (count - 1 - i))) & ((1 << bits) - 1)) for i in range(count)
    ]
    for row in reversed(range(rows)):
        skip = (offset & (bits << row)).differs(0)
        step = 1 << row
        words = [e.select(skip, words[i + step], words[i]) for i in range(len(words) - step)]
    within = e.convert("zext", offset & (bits - 1), e.format.integer)
    return [e.intrinsic("fshl", words[i], words[i + 1], within) for i in range(3)]


def _reduce_large(e: Emitter, x: Value) -> tuple[Value, Value]:
    """(r, n as integer) for any finite x from the moderate bound on.

    x = M·2^E with an integer M, and M·(2^E·2/pi/4 mod 1) mod 1 is x·2/pi/4 mod 1: two bits of n, then
    the fraction. Three words of the window leave at least a word of the fraction after the cancellation
    next to a multiple of pi/2.
    """
    f = e.format
    wide = f"i{2 * f.bits}"
    bits = e.bits(x)
    exponent = e.convert("trunc", bits.logical_shift_right(f.precision_bits), "i32")
    significand = (bits & ((1 << f.precision_bits) - 1)) | (1 << f.precision_bits)
    smallest = f.bias + int(math.log2(_MODERATE[f.dtype]))
    # Bit `smallest - bias - precision - 2` of 2/pi has weight 1 after scaling: count from there.
    first_bit = -(smallest - f.bias - f.precision_bits - 2)
    words = _two_over_pi_words(e, exponent - smallest, first_bit, rows=2 if f.bits == 32 else 4)

    factor = e.convert("zext", significand, wide)
    products = [factor * e.convert("zext", word, wide) for word in words]
    fraction = (products[0] << f.bits) + products[1] + products[2].logical_shift_right(f.bits)

    quarter = fraction + (1 << (2 * f.bits - 3))
    n = e.convert("trunc", quarter.logical_shift_right(2 * f.bits - 2), "i32")
    return _fraction_to_angle(e, fraction << 2), n


def _fraction_to_angle(e: Emitter, signed: Value) -> Value:
    """signed·2^-width·pi/2 for a signed integer of twice the format's width."""
    f = e.format
    high, low, _ = f.table("HALF_PI")
    unit = 2.0 ** (-2 * f.bits)
    if f.bits == 32:
        value = e.convert("sitofp", signed, f.llvm)
    else:
        # The top 53 bits convert exactly, and the next 64 hold what a cancellation leaves of them.
        top = e.convert("trunc", signed >> 64, "i64") & -(1 << 11)
        rest = e.convert("trunc", signed.logical_shift_right(11), "i64")
        value = e.fma(e.convert("sitofp", top, f.llvm), 2.0**64, e.convert("uitofp", rest, f.llvm) * 2.0**11)
    return e.fma(value, high * unit, value * (low * unit))


def _reduce(e: Emitter, x: Value) -> tuple[Value, Value]:
    """(r, n as i32) for x >= 0; r is NaN for infinite and NaN x."""
    before, large, done = e.block, Block("large"), Block("done")
    r, n = _reduce_moderate(e, x)
    is_large = x >= _MODERATE[e.format.dtype]
    e.branch(is_large, large, done)

    e.start(large)
    large_r, large_n = _reduce_large(e, x)
    large_r = e.select(x < float("inf"), large_r, float("nan"))
    e.jump(done)

    e.start(done)
    return e.phi((r, before), (large_r, large)), e.phi((n, before), (large_n, large))


def _sin_or_cos(e: Emitter, x: Value, quarter_turns: int) -> tuple[Value, Value]:
    """sin(x + quarter_turns·pi/2) for x >= 0, as a value and a sign bit to flip in it."""
    r, n = _reduce(e, x)
    if quarter_turns:
        n = n + quarter_turns
    s = r * r
    sine = e.fma(r * s, e.horner(s, e.format.table("SIN")), r)
    cosine = e.fma(s, e.fma(s, e.horner(s, e.format.table("COS")), -0.5), 1.0)
    value = e.select((n & 1).equals(0), sine, cosine)
    return value, e.convert("zext", n & 2, e.format.integer) << (e.format.bits - 2)


def sin(e: Emitter, x: Value) -> Value:
    value, sign = _sin_or_cos(e, abs(x), 0)
    own_sign = e.bits(x) & (1 << (e.format.bits - 1))
    return e.from_bits(e.bits(value) ^ sign ^ own_sign)


def cos(e: Emitter, x: Value) -> Value:
    value, sign = _sin_or_cos(e, abs(x), 1)
    return e.from_bits(e.bits(value) ^ sign)
