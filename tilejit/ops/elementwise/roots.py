"""Square roots, reciprocals and hypot."""

from __future__ import annotations

import numpy as np

from ..scalar import Code, Number, ScalarBuilder, called
from .record import INF, NAN, Accuracy, Elementwise, in_double

SQRT = Elementwise(
    name="sqrt", operands=("x",), kind="function", meaning="square root, correctly rounded",
    formula=in_double(np.sqrt), floats=Code(lambda b, x: b.intrinsic("sqrt", x)),
    special=((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-1.0, NAN), (-INF, NAN), (NAN, NAN)),
)

RSQRT = Elementwise(
    name="rsqrt", operands=("x",), kind="function", meaning="1 / sqrt(x)",
    formula=in_double(lambda x: 1 / np.sqrt(x)), floats=called(lambda b, x: 1.0 / b.intrinsic("sqrt", x)),
    accuracy=Accuracy((1.5, 2.0), "1 / mp.sqrt(x)", ((0.25, 4),), ((0.25, 4),)),
    special=((0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, NAN), (NAN, NAN)),
)

RECIPROCAL = Elementwise(
    name="reciprocal", operands=("x",), kind="function", meaning="1 / x, correctly rounded",
    formula=in_double(lambda x: 1 / x), floats=Code(lambda b, x: 1.0 / x),
    special=((0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, -0.0), (NAN, NAN)), symmetry="odd",
)


def _hypot(b: ScalarBuilder, x: Number, y: Number) -> Number:
    """Return sqrt(x² + y²), with x and y scaled by a power of two to keep the larger square in range.

    source: Muller et al., "Handbook of Floating-Point Arithmetic" (2018), "Complex Absolute Value"; with the larger
    square in the fma, the error of the sum is less than one ulp, which the square root halves.
    """
    large, small, step = {"float32": (60, -40, 90), "float64": (500, -450, 700)}[b.format.dtype]
    is_greater = abs(x) > abs(y)
    greater, less = b.select(is_greater, abs(x), abs(y)), b.select(is_greater, abs(y), abs(x))
    up = b.select(greater < 2.0**small, b.constant(x.type, 2.0**step), 1.0)
    factor = b.select(greater > 2.0**large, 2.0**-step, up)
    down = b.select(greater < 2.0**small, b.constant(x.type, 2.0**-step), 1.0)
    inverse = b.select(greater > 2.0**large, 2.0**step, down)
    a, c = greater * factor, less * factor
    value = b.intrinsic("sqrt", b.fma(a, a, c * c)) * inverse
    is_infinite = abs(x).equals(INF) | abs(y).equals(INF)
    return b.select(is_infinite, INF, value)


def _hypot_of_doubles(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    # the multiplication quiets NaNs: C's hypot returns NaN for an infinity and a signaling NaN
    return np.asarray(np.hypot(x * 1.0, y * 1.0))


HYPOT = Elementwise(
    name="hypot", operands=("x", "y"), kind="function", meaning="sqrt(x**2 + y**2), without intermediate overflow",
    formula=in_double(_hypot_of_doubles), floats=called(_hypot),
    accuracy=Accuracy((1.05, 1.1), "mp.hypot(x, y)", ((-4, 4), (-4, 4)), ((-4, 4), (-4, 4))),
    special=(
        (0.0, 0.0, 0.0), (-0.0, -0.0, 0.0), (-0.0, 3.0, 3.0), (-3.0, -4.0, 5.0), (INF, 1.0, INF), (1.0, -INF, INF),
        (-INF, NAN, INF), (NAN, INF, INF), (NAN, 1.0, NAN), (1.0, NAN, NAN), (NAN, NAN, NAN), (INF, -INF, INF),
    ),
)
