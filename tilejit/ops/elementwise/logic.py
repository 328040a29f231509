"""Comparisons, tests for NaN and infinities, logical operations and selection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..scalar import Code, Number
from .record import INF, Elementwise, Formula


def _comparison(name: str, meaning: str, formula: Formula, write: Callable[..., Number]) -> Elementwise:
    code = Code(write)
    return Elementwise(
        name=name, operands=("x", "y"), kind="comparison", meaning=meaning, formula=formula, floats=code, integers=code,
        bools=code,
    )


EQUAL = _comparison("equal", "x == y", np.equal, lambda b, x, y: x.equals(y))
NOT_EQUAL = _comparison("not_equal", "x != y; true for nan", np.not_equal, lambda b, x, y: x.differs(y))
LESS = _comparison("less", "x < y", np.less, lambda b, x, y: x < y)
LESS_EQUAL = _comparison("less_equal", "x <= y", np.less_equal, lambda b, x, y: x <= y)
GREATER = _comparison("greater", "x > y", np.greater, lambda b, x, y: x > y)
GREATER_EQUAL = _comparison("greater_equal", "x >= y", np.greater_equal, lambda b, x, y: x >= y)


def _test(
    name: str, meaning: str, formula: Formula, floats: Callable[..., Number], others: Callable[..., Number]
) -> Elementwise:
    """Return a test of one number. others: its code for integers and bool_, whose result is constant."""
    return Elementwise(
        name=name, operands=("x",), kind="comparison", meaning=meaning, formula=formula, floats=Code(floats),
        integers=Code(others), bools=Code(others),
    )


ISNAN = _test("isnan", "true for nan", np.isnan, lambda b, x: x.differs(x), lambda b, x: x.differs(x))
ISINF = _test(
    "isinf", "true for infinities of either sign", np.isinf, lambda b, x: abs(x).equals(INF), lambda b, x: x.differs(x)
)
ISFINITE = _test(
    "isfinite", "true unless x is nan or infinite", np.isfinite, lambda b, x: abs(x) < INF, lambda b, x: x.equals(x)
)

LOGICAL_NOT = Elementwise(
    name="logical_not", operands=("x",), kind="logical", meaning="not x", formula=np.logical_not,
    bools=Code(lambda b, x: ~x),
)

LOGICAL_AND = Elementwise(
    name="logical_and", operands=("x", "y"), kind="logical", meaning="x and y", formula=np.logical_and,
    bools=Code(lambda b, x, y: x & y),
)

LOGICAL_OR = Elementwise(
    name="logical_or", operands=("x", "y"), kind="logical", meaning="x or y", formula=np.logical_or,
    bools=Code(lambda b, x, y: x | y),
)

_SELECT = Code(lambda b, condition, x, y: b.select(condition, x, y))

WHERE = Elementwise(
    name="where", operands=("condition", "x", "y"), kind="select", meaning="x where the condition holds, else y",
    formula=np.where, floats=_SELECT, integers=_SELECT, bools=_SELECT, narrow=_SELECT,
)
