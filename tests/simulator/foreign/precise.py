"""Mathematical functions to 100 digits, and rounding in a given direction: references for CUDA's functions."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb
from statistics import NormalDist
from typing import Any

import numpy as np

DIGITS = 100
PI = Decimal("3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679")


def precisely(function: Callable[[Decimal], Decimal]) -> Callable[[Any], Any]:
    """The function over an array of doubles, each result rounded once."""

    def over(values: Any) -> Any:
        with localcontext() as context:
            context.prec = DIGITS
            return np.array([float(function(Decimal(float(v)))) for v in np.asarray(values)])

    return over


def series(term: Decimal, factor: Callable[[int], Decimal]) -> Decimal:
    """Sum of a series: each term is the one before times factor(number)."""
    total, k = Decimal(0), 0
    while total + term != total or k < 3:
        total, k = total + term, k + 1
        term *= factor(k)
    return total


def sine(x: Decimal) -> Decimal:
    return series(x, lambda k: -x * x / (2 * k * (2 * k + 1)))


def erf(x: Decimal) -> Decimal:
    return 2 / PI.sqrt() * x * series(Decimal(1), lambda k: -x * x / k * (2 * k - 1) / (2 * k + 1)) if x else x


def normal_cdf(x: Decimal) -> Decimal:
    return (1 + erf(x / Decimal(2).sqrt())) / 2


def normal_quantile(p: Decimal) -> Decimal:
    """By Newton's method."""
    x = Decimal(NormalDist().inv_cdf(float(p)))
    for _ in range(4):
        x -= (normal_cdf(x) - p) * (2 * PI).sqrt() * (x * x / 2).exp()
    return x


def bernoulli(count: int) -> list[Fraction]:
    numbers = [Fraction(1)]
    for n in range(1, count):
        numbers.append(-sum((comb(n + 1, k) * b for k, b in enumerate(numbers)), Fraction(0)) / (n + 1))
    return numbers


BERNOULLI = bernoulli(42)


def gamma_parts(x: Decimal) -> tuple[Decimal, int]:
    """The logarithm of |gamma(x)| and gamma's sign, by Stirling's series at x + n."""
    z, logarithm, sign = x, Decimal(0), 1
    while z < 40:
        logarithm -= abs(z).ln()
        sign = -sign if z < 0 else sign
        z += 1
    logarithm += (z - Decimal("0.5")) * z.ln() - z + (2 * PI).ln() / 2
    for k in range(1, 21):
        b = BERNOULLI[2 * k]
        logarithm += Decimal(b.numerator) / b.denominator / (2 * k * (2 * k - 1)) / z ** (2 * k - 1)
    return logarithm, sign


def lgamma(x: Decimal) -> Decimal:
    return gamma_parts(x)[0]


def gamma(x: Decimal) -> Decimal:
    logarithm, sign = gamma_parts(x)
    return sign * logarithm.exp()


def bessel(order: int, sign: int) -> Callable[[Decimal], Decimal]:
    """J (sign -1) or I (sign 1) of order 0 or 1."""
    return lambda x: series(x / 2 if order else Decimal(1), lambda k: sign * x * x / (4 * k * (k + order)))


def directed(exact: Fraction, direction: str, dtype: Any) -> Any:
    """The neighbour of an exact value: down, up or towards zero."""
    return neighbour(lambda f: f >= exact, lambda f: f <= exact, float(exact), direction, dtype)


def directed_sqrt(exact: Fraction, direction: str, dtype: Any) -> Any:
    return neighbour(lambda f: f * f >= exact, lambda f: f * f <= exact, float(exact) ** 0.5, direction, dtype)


def neighbour(
    at_least: Callable[[Fraction], bool], at_most: Callable[[Fraction], bool], near: float, direction: str, dtype: Any
) -> Any:
    """The least number of a type that is at least a value (up), or the greatest that is at most it (down)."""
    up = direction == "up" or (direction == "zero" and near < 0)
    enough, away = (at_least, np.inf) if up else (at_most, -np.inf)
    number = dtype(near)
    while not enough(Fraction(float(number))):
        number = np.nextafter(number, dtype(away))
    while enough(Fraction(float(closer := np.nextafter(number, dtype(-away))))):
        number = closer
    return number
