"""NumPy formulas that NumPy itself has no name for, or whose float32 it rounds less well than float64.

Each takes arrays of one type and gives an array of that type. Functions of float32 are evaluated in float64 and
rounded once, so that they serve as a reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

__all__ = [
    "clamp", "cos", "erf", "exp", "exp2", "floordiv", "fma", "gelu", "log", "log2", "mod", "power", "reciprocal",
    "relu", "rsqrt", "sigmoid", "silu", "sin", "sqrt", "tanh",
]  # fmt: skip

Array = np.ndarray


def _in_double(formula: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def evaluate(x: Array) -> Array:
        return np.asarray(formula(np.asarray(x, dtype=np.float64))).astype(x.dtype)

    return evaluate


_erf_of = np.vectorize(math.erf, otypes=[np.float64])
_erfc_of = np.vectorize(math.erfc, otypes=[np.float64])

sqrt = _in_double(np.sqrt)
rsqrt = _in_double(lambda x: 1 / np.sqrt(x))
exp = _in_double(np.exp)
exp2 = _in_double(np.exp2)
log = _in_double(np.log)
log2 = _in_double(np.log2)
sin = _in_double(np.sin)
cos = _in_double(np.cos)
tanh = _in_double(np.tanh)
erf = _in_double(lambda x: np.asarray(_erf_of(x)))
sigmoid = _in_double(lambda x: 1 / (1 + np.exp(-x)))
silu = _in_double(lambda x: x / (1 + np.exp(-x)))
gelu = _in_double(lambda x: 0.5 * x * np.asarray(_erfc_of(-x / math.sqrt(2))))
reciprocal = _in_double(lambda x: 1 / x)


def relu(x: Array) -> Array:
    return np.asarray(np.where(x <= 0, x.dtype.type(0), x))


def clamp(x: Array, low: Array, high: Array) -> Array:
    return np.asarray(np.minimum(np.maximum(x, low), high))


def floordiv(x: Array, y: Array) -> Array:
    return np.asarray(np.floor_divide(x, y))


def mod(x: Array, y: Array) -> Array:
    """NumPy's remainder, with the sign of `y`; fmod is exact, and one addition follows it."""
    return np.asarray(np.remainder(x, y))


def power(x: Array, y: Array) -> Array:
    """x to the power y; of integers modulo 2**bits, and the true value cut toward zero where y is negative."""
    if x.dtype.kind == "f":
        return np.asarray(np.power(x.astype(np.float64), y.astype(np.float64))).astype(x.dtype)
    negative = y < 0
    whole = np.power(x, np.where(negative, 0, y).astype(y.dtype))
    odd = (y & 1) != 0
    minus_one = x.dtype.type(0) - x.dtype.type(1)
    of_minus_one = np.where(odd, minus_one, x.dtype.type(1))
    of_negative = np.where(x == 1, x, np.where((x == minus_one) & (x < 0), of_minus_one, x.dtype.type(0)))
    return np.asarray(np.where(negative, of_negative, whole)).astype(x.dtype)


def fma(x: Array, y: Array, z: Array) -> Array:
    """x * y + z, rounded once."""
    if x.dtype == np.float32:
        return _fma_single(x, y, z)
    if x.dtype == np.float64:
        return np.asarray(_fma_double(x, y, z))
    return np.asarray(x * y + z)


def _fma_single(x: Array, y: Array, z: Array) -> Array:
    """The product is exact in float64; the sum is rounded to odd there, so that float32 rounds it once."""
    product, addend = np.broadcast_arrays(x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64))
    total = product + addend
    # Knuth's two-sum: the error of the addition, exact
    virtual = total - product
    error = (product - (total - virtual)) + (addend - virtual)
    inexact = np.isfinite(total) & (error != 0)
    away = np.where(error > 0, np.inf, -np.inf)
    bits = total.view(np.uint64)
    neighbour = np.nextafter(total, away)
    odd = np.where(inexact & ((bits & np.uint64(1)) == 0), neighbour, total)
    return np.asarray(odd.astype(np.float32))


def _fma_one(x: float, y: float, z: float) -> float:
    product = x * y
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)) or x == 0 or y == 0:
        return product + z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        # two parts that cancel give +0; only two negative zeros would give -0, and the product isn't zero
        return 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


_fma_double = np.vectorize(_fma_one, otypes=[np.float64])
