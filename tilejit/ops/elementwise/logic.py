"""Comparisons, logical operations and selection."""

from __future__ import annotations

import numpy as np

from ..scalar import inline
from .record import Elementwise

_EQUAL = inline(lambda b, x, y: x.equals(y))
_NOT_EQUAL = inline(lambda b, x, y: x.differs(y))
_LESS = inline(lambda b, x, y: x < y)
_LESS_EQUAL = inline(lambda b, x, y: x <= y)
_GREATER = inline(lambda b, x, y: x > y)
_GREATER_EQUAL = inline(lambda b, x, y: x >= y)

EQUAL = Elementwise(
    name="equal", operands=("x", "y"), kind="comparison", meaning="x == y", formula=np.equal, floats=_EQUAL,
    integers=_EQUAL, bools=_EQUAL,
)

NOT_EQUAL = Elementwise(
    name="not_equal", operands=("x", "y"), kind="comparison", meaning="x != y; true for nan", formula=np.not_equal,
    floats=_NOT_EQUAL, integers=_NOT_EQUAL, bools=_NOT_EQUAL,
)

LESS = Elementwise(
    name="less", operands=("x", "y"), kind="comparison", meaning="x < y", formula=np.less, floats=_LESS,
    integers=_LESS, bools=_LESS,
)

LESS_EQUAL = Elementwise(
    name="less_equal", operands=("x", "y"), kind="comparison", meaning="x <= y", formula=np.less_equal,
    floats=_LESS_EQUAL, integers=_LESS_EQUAL, bools=_LESS_EQUAL,
)

GREATER = Elementwise(
    name="greater", operands=("x", "y"), kind="comparison", meaning="x > y", formula=np.greater, floats=_GREATER,
    integers=_GREATER, bools=_GREATER,
)

GREATER_EQUAL = Elementwise(
    name="greater_equal", operands=("x", "y"), kind="comparison", meaning="x >= y", formula=np.greater_equal,
    floats=_GREATER_EQUAL, integers=_GREATER_EQUAL, bools=_GREATER_EQUAL,
)

LOGICAL_NOT = Elementwise(
    name="logical_not", operands=("x",), kind="logical", meaning="not x", formula=np.logical_not,
    bools=inline(lambda b, x: ~x),
)

LOGICAL_AND = Elementwise(
    name="logical_and", operands=("x", "y"), kind="logical", meaning="x and y", formula=np.logical_and,
    bools=inline(lambda b, x, y: x & y),
)

LOGICAL_OR = Elementwise(
    name="logical_or", operands=("x", "y"), kind="logical", meaning="x or y", formula=np.logical_or,
    bools=inline(lambda b, x, y: x | y),
)

_SELECT = inline(lambda b, condition, x, y: b.select(condition, x, y))

WHERE = Elementwise(
    name="where", operands=("condition", "x", "y"), kind="select", meaning="x where the condition holds, else y",
    formula=np.where, floats=_SELECT, integers=_SELECT, bools=_SELECT, narrow=_SELECT,
)
