"""The elementwise operations, one record each.

Tile operations, scalar `Op`s, code generation and tests use the same names. For operands of types `dtypes`,
`result_type` returns the type of the computation and the type of the result. Operands are converted to the type of the
computation, except the condition of `where`, which is bool_. The computed value has that type, or bool_ for comparisons
and logical operations, and is converted to the type of the result. float16 and bfloat16 are thus computed in float32
and rounded once, unless the operation is exact anyway or has code of its own for them (`Elementwise.halves`).
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
    random,
    roots,
    trigonometric,
)
from .record import RULES, Accuracy, Approximation, Elementwise

__all__ = [
    "ELEMENTWISE", "FAMILIES", "RULES", "Accuracy", "Approximation", "Elementwise", "common_type", "reference",
    "result_type",
]


#: the modules that define records, in documentation order
FAMILIES = (
    arithmetic, division, extremes, roots, exponential, logarithm, trigonometric, error_function, fast, bits, logic,
    random,
)

ELEMENTWISE: dict[str, Elementwise] = {
    record.name: record for family in FAMILIES for record in vars(family).values() if isinstance(record, Elementwise)
}


@cache
def result_type(name: str, dtypes: tuple[DType, ...]) -> tuple[DType, DType] | str:
    """Return the types of the computation and of the result, or why the operation doesn't accept `dtypes`."""
    return ELEMENTWISE[name].result_type(dtypes)


@cache
def common_type(name: str, dtypes: tuple[DType, ...]) -> DType:
    """Return the common type of operands that aren't conditions. raises: KernelTypeError if none exists."""
    return ELEMENTWISE[name].common_type(dtypes)


def reference(name: str, *arrays: np.ndarray) -> np.ndarray:
    """Evaluate the operation in NumPy on `arrays`, which broadcast. raises: TypeError if it rejects their types."""
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


def _dtype(values: np.ndarray) -> DType:
    dtype = from_numpy(values.dtype)
    if dtype is None:
        raise TypeError(f"no element type for NumPy's {values.dtype}")
    return dtype
