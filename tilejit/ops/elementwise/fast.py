"""Approximations by hardware instructions; `tj.fast.exp` is called `fast_exp` here.

source: PTX ISA, "Floating Point Instructions", for the error bounds of the instructions.

No other operation uses such instructions: PTX bounds their errors, but doesn't specify the bits of their results.
"""

from __future__ import annotations

import math

import numpy as np

from ...isa import Row, approximate
from ..scalar import Code
from .exponential import LN2, LOG2E
from .record import Approximation, Elementwise, Formula, in_double

#: bound on the relative error when a number is rounded to float32
_ROUNDING = 2.0**-24
_NORMAL = (2.0**-126, 2.0**126)
_POSITIVE = (2.0**-126, 2.0**127)


def _direct(row: Row) -> Code:
    return Code(lambda b, *operands: b.machine(row, *operands))


def _fast(
    name: str,
    meaning: str,
    formula: Formula,
    code: Code,
    approximation: Approximation,
    operands: tuple[str, ...] = ("x",),
) -> Elementwise:
    return Elementwise(
        name=f"fast_{name}",
        operands=operands,
        kind="approximation",
        meaning=f"{meaning}, approximated by the hardware",
        formula=in_double(formula),
        floats=code,
        approximation=approximation,
    )


FAST_EXP2 = _fast(
    "exp2", "2 to the power x", np.exp2, _direct(approximate.EX2), Approximation(2.0**-22, (-126, 127.5))
)

#: the rounding errors of log2(e) and of its product with x change the result's exponent in proportion to x
FAST_EXP = _fast(
    "exp",
    "e to the power x",
    np.exp,
    Code(lambda b, x: b.machine(approximate.EX2, x * b.parts(LOG2E)[0])),
    Approximation(2.0**-22, (-87, 88), growth=math.log(2) * (1.92596299e-8 + 1.4427 * _ROUNDING)),
)

FAST_LOG2 = _fast(
    "log2", "logarithm to base 2", np.log2, _direct(approximate.LG2), Approximation(2.0**-22, _POSITIVE, 0, 2.0**-22)
)

FAST_LOG = _fast(
    "log",
    "natural logarithm",
    np.log,
    Code(lambda b, x: b.machine(approximate.LG2, x) * b.parts(LN2)[0]),
    Approximation(2.0**-21.5, _POSITIVE, 0, 2.0**-22),
)

FAST_SIN = _fast(
    "sin", "sine", np.sin, _direct(approximate.SIN), Approximation(0, (-math.pi, math.pi), absolute=2.0**-20.5)
)

FAST_COS = _fast(
    "cos", "cosine", np.cos, _direct(approximate.COS), Approximation(0, (-math.pi, math.pi), absolute=2.0**-20.5)
)

FAST_TANH = _fast(
    "tanh", "hyperbolic tangent", np.tanh, _direct(approximate.TANH), Approximation(2.0**-10.9, (-100, 100))
)

FAST_SQRT = _fast("sqrt", "square root", np.sqrt, _direct(approximate.SQRT), Approximation(2.0**-22.5, _POSITIVE))

FAST_RSQRT = _fast(
    "rsqrt", "1 / sqrt(x)", lambda x: 1 / np.sqrt(x), _direct(approximate.RSQRT), Approximation(2.0**-22.5, _POSITIVE)
)

FAST_RECIPROCAL = _fast(
    "reciprocal", "1 / x", lambda x: 1 / x, _direct(approximate.RCP), Approximation(2.0**-22.5, _NORMAL)
)

FAST_DIV = _fast(
    "div",
    "x / y",
    lambda x, y: x / y,
    _direct(approximate.DIV),
    Approximation(2.0**-22, _NORMAL),
    operands=("x", "y"),
)
