"""The elementwise operations, each one record; everything that needs a list of them collects it from here.

Tile operations, scalar `Op`s, code generation and tests use the same names. Of an operation on values of types
`dtypes`, `result_type` says in which type it computes and what it returns: every argument is converted to the
first (but the condition of `where`, which is bool_), the operation gives a value of that type (comparisons and
logical operations: bool_), and this is converted to the second. float16 and bfloat16 thus compute in float32 and
round once, unless the operation is exact anyway.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ...dtypes import DType, from_numpy
from ..cast import convert
from . import (
    arithmetic,
    bits,
    division,
    error_function,
    exponential,
    extremes,
    fast,
    logarithm,
    logic,
    roots,
    trigonometric,
)
from .record import RULES, Accuracy, Approximation, Elementwise

__all__ = [
    "ELEMENTWISE", "FAMILIES", "RULES", "Accuracy", "Approximation", "Elementwise", "common_type", "reference",
    "result_type", "value_type",
]

Array = np.ndarray

#: the modules that hold records, in the order of the documentation
FAMILIES = (
    arithmetic,
    division,
    extremes,
    roots,
    exponential,
    logarithm,
    trigonometric,
    error_function,
    fast,
    bits,
    logic,
)

#: name -> operation: every record that a family holds
ELEMENTWISE: dict[str, Elementwise] = {
    record.name: record for family in FAMILIES for record in vars(family).values() if isinstance(record, Elementwise)
}


@cache
def result_type(name: str, dtypes: tuple[DType, ...]) -> tuple[DType, DType] | str:
    """The types in which the operation computes and which it returns, or why it can't take `dtypes`."""
    return ELEMENTWISE[name].result_type(dtypes)


@cache
def common_type(name: str, dtypes: tuple[DType, ...]) -> DType:
    """The type in which an operation's values meet that have types; of `where` without its condition's.

    raises: KernelTypeError where no type holds all of them.
    """
    return ELEMENTWISE[name].common_type(dtypes)


@cache
def value_type(name: str, compute: DType) -> DType:
    """The type of the value that the operation gives when it computes in `compute`: that, or bool_."""
    return ELEMENTWISE[name].value_type(compute)


def reference(name: str, *arrays: Array) -> Array:
    """The NumPy meaning of the operation on arrays of any of our types; they broadcast.

    raises: TypeError where the operation can't take these types.
    """
    op = ELEMENTWISE[name]
    values = [np.asarray(a) for a in arrays]
    rule = result_type(name, tuple(_dtype(v) for v in values))
    if isinstance(rule, str):
        raise TypeError(rule)
    compute, result = rule
    converted = [*values[: op.conditions], *(convert(v, compute) for v in values[op.conditions :])]
    with np.errstate(all="ignore"):
        value = np.asarray(op.formula(*converted))
    return convert(value, result)


def _dtype(values: Array) -> DType:
    dtype = from_numpy(values.dtype)
    if dtype is None:
        raise TypeError(f"no element type for NumPy's {values.dtype}")
    return dtype
