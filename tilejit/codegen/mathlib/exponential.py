"""exp, exp2 and the functions made of them: sigmoid, silu, tanh.

A power is split as p·2^n or (1 + w)·2^n with an integer n and p in about [0.7, 1.42], so that a caller can do its own
arithmetic on it before the one rounding that scaling to a subnormal result costs.
"""

from __future__ import annotations

from .emitter import Emitter, Value

__all__ = [
    "clamp", "exp", "exp2", "exp2_parts", "exp_parts", "power_of_two", "scale", "scale_factors", "sigmoid", "silu",
    "tanh",
]  # fmt: skip


def clamp(e: Emitter, x: Value, limit: float) -> Value:
    """x limited to ±limit; NaN stays NaN."""
    return e.select(abs(x) > limit, e.intrinsic("copysign", e.constant(x.type, limit), x), x)


def round_to_integer(e: Emitter, x: Value, factor: float = 1.0) -> tuple[Value, Value]:
    """The integer nearest to x·factor, as a float and as an i32 in its low bits.

    The integer may have a multiple of 2^22 added, which shifting it into an exponent field loses.
    Where x is NaN it is garbage, but no poison.
    """
    shift = e.format.round_shift
    shifted = x + shift if factor == 1.0 else e.fma(x, factor, shift)
    return shifted - shift, e.convert("trunc", e.bits(shifted), "i32")


def power_of_two(e: Emitter, n: Value) -> Value:
    """2^n for an n of `round_to_integer` in the range of normal exponents."""
    biased = e.convert("zext", n + e.format.bias, e.format.integer)
    return e.from_bits(biased << e.format.precision_bits)


def scale_factors(e: Emitter, n: Value) -> tuple[Value, Value]:
    """Two powers of two with product 2^n, so that only the second multiplication can round."""
    half = n.logical_shift_right(1)
    return power_of_two(e, half), power_of_two(e, n - half)


def scale(p: Value, factors: tuple[Value, Value]) -> Value:
    """p·2^n, rounded once, also where the result is subnormal, zero or infinite."""
    return p * factors[0] * factors[1]


def exp_parts(e: Emitter, x: Value, correction: Value | None = None) -> tuple[Value, Value]:
    """(w, n) with (1 + w)·2^n = exp(x + correction), |x| small enough for n to be an exponent.

    Whoever multiplies the power by c takes c + c·w: one rounding for the sum and the product.
    """
    ln2_high, ln2_low = e.format.table("LN2")
    n_float, n = round_to_integer(e, x, e.format.table("LOG2E")[0])
    r = e.fma(n_float, -ln2_high, x)  # exact
    r = e.fma(n_float, -ln2_low, r)
    if correction is not None:
        r = r + correction
    return e.fma(r * r, e.horner(r, e.format.table("EXP")), r), n


def exp2_parts(e: Emitter, x: Value, correction: Value | None = None) -> tuple[Value, Value]:
    """(p, n) with p·2^n = 2^(x + correction)."""
    n_float, n = round_to_integer(e, x)
    r = x - n_float  # exact
    if correction is not None:
        r = r + correction
    return e.fma(r, e.horner(r, e.format.table("EXP2")), 1.0), n


def exp(e: Emitter, x: Value) -> Value:
    limit = e.format.exp_limit
    w, n = exp_parts(e, clamp(e, x, limit))
    return scale(w + 1.0, scale_factors(e, n))


def exp2(e: Emitter, x: Value) -> Value:
    limit = e.format.exp2_limit
    p, n = exp2_parts(e, clamp(e, x, limit))
    return scale(p, scale_factors(e, n))


def sigmoid(e: Emitter, x: Value) -> Value:
    """1/(1 + exp(-x)); for negative x as exp(x)/(1 + exp(x)), which can't overflow."""
    magnitude = abs(x)
    limited = e.select(magnitude > e.format.exp_limit, e.format.exp_limit, magnitude)
    w, n = exp_parts(e, -limited)
    t = scale(w + 1.0, scale_factors(e, n))
    return e.select(x < 0.0, t, 1.0) * (1.0 / (t + 1.0))


def silu(e: Emitter, x: Value) -> Value:
    """x·sigmoid(x), NaN at minus infinity as the product is."""
    limit = e.format.silu_limit
    magnitude = abs(x)
    limited = e.select(magnitude > limit, limit, magnitude)
    w, n = exp_parts(e, -limited)
    factors = scale_factors(e, n)
    t = scale(w + 1.0, factors)
    is_negative = x < 0.0
    quotient = e.select(is_negative, e.fma(-limited, w, -limited), x) * (1.0 / (t + 1.0))
    result = e.select(is_negative, scale(quotient, factors), quotient)
    return e.select(x.equals(-float("inf")), float("nan"), result)


def tanh(e: Emitter, x: Value) -> Value:
    """Up to 9/16 x + x³·P(x²), beyond that 1 - 2/(exp(2|x|) + 1) with x's sign."""
    square = x * x
    small = e.fma(x * square, e.horner(square, e.format.table("TANH")), x)
    magnitude = abs(x)
    limit = e.format.tanh_limit
    limited = e.select(magnitude > limit, limit, magnitude)
    w, n = exp_parts(e, limited + limited)
    power = (w + 1.0) * power_of_two(e, n)
    large = e.fma(1.0 / (power + 1.0), -2.0, 1.0)
    return e.intrinsic("copysign", e.select(magnitude > 0.5625, large, small), x)
