"""Evaluation of expressions on NumPy arrays, for many iterations, threads or elements at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ops.cast import convert
from ...ops.elementwise import ELEMENTWISE
from ...ops.elementwise.division import DIVISIONS
from ..nodes import SPECIALS, Cast, Const, Expr, Load, Op, Special, Var

Array = np.ndarray


def evaluate(expr: Expr, values: Mapping[str, Array | int]) -> Array:
    """Return the value of an expression. raises: TypeError for a load.

    Without a value in `values`, a special register is taken as its least value, and a variable as its possible value
    nearest to 0. Values must satisfy the facts of variables and registers, by which expressions are simplified.
    """
    if isinstance(expr, Const):
        return np.asarray(expr.value, dtype=expr.dtype.numpy)
    if isinstance(expr, Var):
        value = values.get(expr.name)
        return np.asarray(_nearest_to_zero(expr) if value is None else value, dtype=expr.dtype.numpy)
    if isinstance(expr, Special):
        return np.asarray(values.get(expr.name, SPECIALS[expr.name].least), dtype=expr.dtype.numpy)
    if isinstance(expr, Cast):
        return convert(evaluate(expr.x, values), expr.dtype, expr.saturate)
    if isinstance(expr, Load):
        raise TypeError(f"an expression with a load can't be evaluated; got {expr!r}")
    assert isinstance(expr, Op)
    args = [evaluate(a, values) for a in expr.args]
    if expr.name in DIVISIONS and not isinstance(expr.args[1], Const):
        # the divisor may be 0; NumPy then warns and, for integers, returns 0, as kernels do
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(ELEMENTWISE[expr.name].formula(*args))
    return np.asarray(ELEMENTWISE[expr.name].formula(*args))


def _nearest_to_zero(var: Var) -> int:
    if var.bounds is None:
        return 0
    (low, high), multiple = var.bounds, max(var.multiple_of, 1)
    return -(-low // multiple) * multiple if low > 0 else min(high, 0) // multiple * multiple


def number(expr: Expr) -> int:
    """Return the value of an integer constant."""
    assert isinstance(expr, Const), f"{expr} is known only at run time"
    return int(expr.value)
