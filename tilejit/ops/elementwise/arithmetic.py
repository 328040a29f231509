"""Sums, differences, products, fused multiply-add, negation and absolute values."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from ..scalar import Code, Number, ScalarBuilder
from .record import NAN, Elementwise, Formula


def _sum_or_product(name: str, symbol: str, formula: Formula, write: Callable[..., Number]) -> Elementwise:
    code = Code(write)
    return Elementwise(
        name=name, operands=("x", "y"), kind="arithmetic", meaning=f"x {symbol} y; integers wrap", formula=formula,
        floats=code, integers=code,
    )


ADD = _sum_or_product("add", "+", np.add, lambda b, x, y: x + y)
SUB = _sum_or_product("sub", "-", np.subtract, lambda b, x, y: x - y)
MUL = _sum_or_product("mul", "*", np.multiply, lambda b, x, y: x * y)


def _fma_formula(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    if x.dtype == np.float32:
        return _fma_single(x, y, z)
    if x.dtype == np.float64:
        return np.asarray(_fma_double(x, y, z))
    return np.asarray(x * y + z)


def _fma_single(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return x·y + z rounded once: the product is exact in float64, and the sum is rounded to odd, then to float32."""
    product, addend = np.broadcast_arrays(x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64))
    total = product + addend
    # Knuth's two-sum: the exact error of the addition
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
        # exact cancellation gives +0; -0 would require two negative zeros, but the product isn't zero
        return 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


_fma_double = np.vectorize(_fma_one, otypes=[np.float64])

FMA = Elementwise(
    name="fma", operands=("x", "y", "z"), kind="arithmetic",
    meaning="x * y + z, rounded once in the type of the computation", formula=_fma_formula,
    floats=Code(lambda b, x, y, z: b.fma(x, y, z)), integers=Code(lambda b, x, y, z: x * y + z),
)


def _neg_narrow(b: ScalarBuilder, x: Number) -> Number:
    return b.convert("bitcast", b.convert("bitcast", x, "i16") ^ -(1 << 15), x.type)


NEG = Elementwise(
    name="neg", operands=("x",), kind="exact", meaning="-x; integers wrap", formula=np.negative,
    floats=Code(lambda b, x: -x), integers=Code(lambda b, x: -x), narrow=Code(_neg_narrow), symmetry="odd",
)


def _abs_integer(b: ScalarBuilder, x: Number) -> Number:
    return b.intrinsic("abs", x) if x.is_signed else x


def _abs_narrow(b: ScalarBuilder, x: Number) -> Number:
    return b.convert("bitcast", b.convert("bitcast", x, "i16") & (1 << 15) - 1, x.type)


ABS = Elementwise(
    name="abs", operands=("x",), kind="exact", meaning="|x|; the minimum of a signed integer type is unchanged",
    formula=np.abs, floats=Code(lambda b, x: abs(x)), integers=Code(_abs_integer), narrow=Code(_abs_narrow),
    symmetry="even",
)


def _sign(b: ScalarBuilder, x: Number) -> Number:
    # -0.0 + 0.0 is 0.0
    return b.select(x > 0.0, 1.0, b.select(x < 0.0, b.constant(x.type, -1.0), x + 0.0))


def _sign_integer(b: ScalarBuilder, x: Number) -> Number:
    zero = b.constant(x.type, 0)
    return b.select(x > 0, 1, b.select(x < 0, -1, zero) if x.is_signed else zero)


SIGN = Elementwise(
    name="sign", operands=("x",), kind="exact", meaning="1 if x > 0, -1 if x < 0, 0 if x is 0 or -0.0; nan stays nan",
    formula=np.sign, floats=Code(_sign), integers=Code(_sign_integer),
    special=((0.0, 0.0), (-0.0, 0.0), (2.5, 1.0), (-2.5, -1.0), (NAN, NAN)), is_ascending=True,
)
