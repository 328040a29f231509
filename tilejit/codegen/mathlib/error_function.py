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
    limited = e.select(magnitude > limit, limit, magnitude)
    p, n = exp2_parts(e, e.horner(limited - e.format.erf_centre, e.format.table("ERFC")))
    large = e.intrinsic("copysign", e.fma(-p, power_of_two(e, n), 1.0), x)
    return e.select(magnitude > 1.0, large, small)


def gelu(e: Emitter, x: Value) -> Value:
    """x·Phi(x), Phi the normal distribution's cumulative function; NaN at minus infinity as the product is.

    Up to |x| = 1 Phi(x) = 1/2 + x·Q(x²). Beyond, with a = |x| and q = a/(a + 4),
    a·Phi(-a) = exp(-a²/2)·q·P(1 - 2q) keeps its relative precision where 1 + erf(x/sqrt(2)) cancels;
    for positive x the result is x - x·Phi(-x).
    """
    magnitude = abs(x)
    limit = e.format.gelu_limit
    a = e.select(magnitude > limit, limit, magnitude)
    q = a / (a + 4.0)
    mills = q * e.horner(e.fma(q, -2.0, 1.0), e.format.table("GELU"))

    square = a * a
    square_low = e.fma(a, a, -square)
    w, n = exp_parts(e, square * -0.5, square_low * -0.5)
    tail = scale(e.fma(mills, w, mills), scale_factors(e, n))
    large = e.select(x < 0.0, -tail, x - tail)

    small = x * e.fma(x, e.horner(x * x, e.format.table("PHI")), 0.5)
    result = e.select(magnitude > 1.0, large, small)
    return e.select(x.equals(-float("inf")), float("nan"), result)
