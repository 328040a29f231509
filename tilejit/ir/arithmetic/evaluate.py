"""Expressions evaluated on NumPy arrays: many rounds and threads at once, or many elements."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ops.cast import convert
from ...ops.elementwise import ELEMENTWISE
from ...ops.elementwise.division import DIVISIONS
from ..nodes import Cast, Const, Expr, Load, Op, Special, Var

__all__ = ["evaluate", "number"]

Array = np.ndarray


def evaluate(expr: Expr, values: Mapping[str, Array | int]) -> Array:
    """The value of an expression; variables that `values` doesn't name are as near to 0 as they may be.

    They stay within their bounds, because the expression may have been made simpler by these.
    """
    if isinstance(expr, Const):
        return np.asarray(expr.value, dtype=expr.dtype.numpy)
    if isinstance(expr, Var):
        value = values.get(expr.name)
        return np.asarray(_nearest_to_zero(expr) if value is None else value, dtype=expr.dtype.numpy)
    if isinstance(expr, Special):
        return np.asarray(values.get(expr.name, 0), dtype=expr.dtype.numpy)
    if isinstance(expr, Cast):
        return convert(evaluate(expr.x, values), expr.dtype, expr.saturate)
    if isinstance(expr, Load):
        raise TypeError(f"an address doesn't read memory; got {expr!r}")
    assert isinstance(expr, Op)
    args = [evaluate(a, values) for a in expr.args]
    if expr.name in DIVISIONS and not isinstance(expr.args[1], Const):
        # of a divisor that isn't named; NumPy warns, and gives 0 as kernels do
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(ELEMENTWISE[expr.name].formula(*args))
    return np.asarray(ELEMENTWISE[expr.name].formula(*args))


def _nearest_to_zero(var: Var) -> int:
    """The value nearest to 0 that a variable may take."""
    if var.bounds is None:
        return 0
    (low, high), multiple = var.bounds, max(var.multiple_of, 1)
    return -(-low // multiple) * multiple if low > 0 else min(high, 0) // multiple * multiple


def number(register: Expr) -> int:
    """The number of a register that is known at compile time."""
    assert isinstance(register, Const), f"{register} is known only at run time"
    return int(register.value)
