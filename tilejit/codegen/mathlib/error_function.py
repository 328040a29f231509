"""erf and gelu."""

from __future__ import annotations

from .emitter import Emitter, Value
from .exponential import exp2_parts, exp_parts, power_of_two, scale, scale_factors

__all__ = ["erf", "gelu"]


def erf(e: Emitter, x: Value) -> Value:
    """Up to 1 x + x·P(x²), beyond that 1 - 2^Q(|x|) with x's sign, where Q fits log2(erfc)."""
    magnitude = abs(x)
    square = x * x
    small = e.fma(x, e.horner(square, e.format.table("ERF")), x)

    limit = e.format.erf_limit
    centre = 1.0 + (limit - 1.0) / 2.0
    limited = e.select(magnitude > limit, limit, magnitude)
    p, n = exp2_parts(e, e.horner(limited - centre, e.format.table("ERFC")))
    large = e.intrinsic("copysign", e.fma(-p, power_of_two(e, n), 1.0), x)
    return e.select(magnitude > 1.0, large, small)


def gelu(e: Emitter, x: Value) -> Value:
    """x·Phi(x), Phi the normal distribution's cumulative function; NaN at minus infinity as the product is.

    Phi(-a) = exp(-a²/2)·u·P(8u - 1) with u = 1/(a + 4), a = |x|, keeps its relative precision
    where 1 + erf(x/sqrt(2)) cancels.
    """
    magnitude = abs(x)
    limit = e.format.gelu_limit
    a = e.select(magnitude > limit, limit, magnitude)
    u = 1.0 / (a + 4.0)
    mills = u * e.horner(e.fma(u, 8.0, -1.0), e.format.table("GELU"))

    square = a * a
    square_low = e.fma(a, a, -square)
    p, n = exp_parts(e, square * -0.5, square_low * -0.5)
    tail = p * mills
    factors = scale_factors(e, n)
    is_negative = x < 0.0
    result = e.select(is_negative, scale(-a * tail, factors), x * (1.0 - scale(tail, factors)))
    return e.select(x.equals(-float("inf")), float("nan"), result)
