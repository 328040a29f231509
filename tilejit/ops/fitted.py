"""Polynomials and constants, each with the function that it stands for and the numbers that a fit gave.

The numbers are made by `tests/codegen/math_fits.py`, never by hand; a test makes them again.
"""

from __future__ import annotations

from functools import cache

from ..dataclass import dataclass

__all__ = ["Polynomial", "RealConstant", "RealRatio"]


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A polynomial with the least weighted error on an interval.

    function, weight: of `x`, in mpmath's words: `mp` is mpmath, `dtype` the format's name, `f` (in the weight) the
    function's value; only the fit reads them. low, high: the interval, in the same words.
    float32, float64: the coefficients in each format, lowest power first, as hexadecimal floats; none in a format in
    which nothing uses it.
    nudges: of float32: power -> how many floats its coefficient lies above the fit's, where the function then erred
    less on all arguments.
    """

    function: str
    low: str
    high: str
    float32: str = ""
    float64: str = ""
    weight: str = "mp.mpf(1)"
    nudges: tuple[tuple[int, int], ...] = ()

    def coefficients(self, dtype: str) -> tuple[float, ...]:
        """The coefficients for a format, lowest power first."""
        return _floats(self.float32 if dtype == "float32" else self.float64)


@dataclass(frozen=True, slots=True)
class RealConstant:
    """A real number as a sum of the format's numbers, each the nearest to what is left.

    value: in mpmath's words. float32, float64: the parts in each format, largest first, as hexadecimal floats.
    """

    value: str
    float32: str
    float64: str

    def parts(self, dtype: str) -> tuple[float, ...]:
        """The parts in a format, largest first."""
        return _floats(self.float32 if dtype == "float32" else self.float64)


@dataclass(frozen=True, slots=True)
class RealRatio:
    """A real number as the quotient of two numbers of float32, the first of few bits, nearer than one number comes.

    value: in mpmath's words. dividend, divisor: as hexadecimal floats. precision_bits: how near the quotient comes.
    """

    value: str
    dividend: str
    divisor: str
    precision_bits: int

    @property
    def numbers(self) -> tuple[float, float]:
        """The dividend and the divisor."""
        return float.fromhex(self.dividend), float.fromhex(self.divisor)


@cache
def _floats(text: str) -> tuple[float, ...]:
    return tuple(float.fromhex(word) for word in text.split())
