"""Correctly rounded float64 arithmetic on scalars, with exact fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np


def fma(a: float, b: float, c: float) -> float:
    """Return a * b + c, rounded to nearest even."""
    product = np.float64(a) * np.float64(b)
    if not (np.isfinite(a) and np.isfinite(b)):
        return float(product + np.float64(c))
    if not np.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return float(product + np.float64(c)) if a == 0 or b == 0 or c == 0 else 0.0
    return _nearest(exact)


def _nearest(x: Fraction) -> float:
    try:
        return x.numerator / x.denominator
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")


def _mul(a: float, b: float, mode: str) -> float:
    return _rounded(float(np.float64(a) * np.float64(b)), lambda: Fraction(a) * Fraction(b), mode)


def _div(a: float, b: float, mode: str) -> float:
    return _rounded(float(np.float64(a) / np.float64(b)), lambda: Fraction(a) / Fraction(b), mode)


def _fma(a: float, b: float, c: float, mode: str) -> float:
    near = fma(a, b, c)
    if near == 0 and mode == "rm" and Fraction(a) * Fraction(b) == -Fraction(c):
        return -0.0 if np.signbit(a) != np.signbit(b) or np.signbit(c) else 0.0
    return _rounded(near, lambda: Fraction(a) * Fraction(b) + Fraction(c), mode)


def _sqrt(a: float, mode: str) -> float:
    near = float(np.sqrt(np.float64(a)))
    if not np.isfinite(near) or near == 0:
        return near
    return _step(near, Fraction(a) - Fraction(near) ** 2, mode)


#: directed operations, called with the operands and the mode "rz", "rm" or "rp"
DIRECTED: dict[str, Callable[..., float]] = {"mul": _mul, "div": _div, "fma": _fma, "sqrt": _sqrt}


def _rounded(near: float, exact: Callable[[], Fraction], mode: str) -> float:
    """Round the exact value in `mode`. near: the nearest float64, or the result for special operands."""
    if np.isnan(near):
        return near
    try:
        value = exact()
    except (OverflowError, ValueError, ZeroDivisionError):
        return near
    if np.isinf(near):
        near = float(np.nextafter(near, 0))
    return _step(near, value - Fraction(near), mode)


def _step(near: float, error: Fraction, mode: str) -> float:
    """Round the exact value near + error in `mode`. near: the nearest finite float64."""
    if error == 0:
        return near
    down = mode == "rm" or (mode == "rz" and (near > 0 or (near == 0 and error > 0)))
    if down and error < 0:
        return float(np.nextafter(near, -np.inf))
    if not down and error > 0:
        return float(np.nextafter(near, np.inf))
    return near
