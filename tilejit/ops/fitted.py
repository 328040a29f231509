"""Polynomials and constants, each with the function that it stands for and the numbers that a fit gave.

The numbers are made by `tests/codegen/math_fits.py`, never by hand; a test makes them again.
"""

from __future__ import annotations

from functools import cache

from ..dataclass import dataclass

__all__ = ["RealConstant", "Polynomial"]


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A polynomial with the least weighted error on an interval.

    function, weight: of `x`, in mpmath's words: `mp` is mpmath, `dtype` the format's name, `f` (in the weight) the
    function's value; only the fit reads them. low, high: the interval, in the same words.
    float32, float64: the coefficients in each format, lowest power first, as hexadecimal floats; none in float64 of
    a polynomial for halves.
    """

    function: str
    low: str
    high: str
    float32: str
    float64: str = ""
    weight: str = "mp.mpf(1)"

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


@cache
def _floats(text: str) -> tuple[float, ...]:
    return tuple(float.fromhex(word) for word in text.split())
