"""Maxima, minima and functions derived from them."""

from __future__ import annotations

import numpy as np

from ..scalar import Code, Number, ScalarBuilder
from .record import INF, NAN, Elementwise


def _relu_formula(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.where(x <= 0, x.dtype.type(0), x))


RELU = Elementwise(
    name="relu", operands=("x",), kind="exact", meaning="x if x > 0, else 0; nan stays nan", formula=_relu_formula,
    floats=Code(lambda b, x: b.maximum(x, 0.0)), integers=Code(lambda b, x: b.maximum(x, 0)), is_ascending=True,
)

MAXIMUM = Elementwise(
    name="maximum", operands=("x", "y"), kind="exact", meaning="the greater of x and y; nan if either is nan",
    formula=np.maximum, floats=Code(lambda b, x, y: b.maximum(x, y)),
    integers=Code(lambda b, x, y: b.maximum(x, y)),
    special=((1.0, NAN, NAN), (NAN, 1.0, NAN), (INF, 1.0, INF), (-INF, 1.0, 1.0)),
)

MINIMUM = Elementwise(
    name="minimum", operands=("x", "y"), kind="exact", meaning="the lesser of x and y; nan if either is nan",
    formula=np.minimum, floats=Code(lambda b, x, y: b.minimum(x, y)),
    integers=Code(lambda b, x, y: b.minimum(x, y)),
    special=((1.0, NAN, NAN), (NAN, 1.0, NAN), (INF, 1.0, 1.0), (-INF, 1.0, -INF)),
)


def _clamp_formula(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.asarray(np.minimum(np.maximum(x, low), high))


def _clamp(b: ScalarBuilder, x: Number, low: Number, high: Number) -> Number:
    return b.minimum(b.maximum(x, low), high)


CLAMP = Elementwise(
    name="clamp", operands=("x", "low", "high"), kind="exact", meaning="minimum(maximum(x, low), high)",
    formula=_clamp_formula, floats=Code(_clamp), integers=Code(_clamp),
)
