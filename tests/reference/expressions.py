"""What an expression means: NumPy's arithmetic in the expression's own types."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tilejit.ir.nodes import Cast, Const, Expr, Load, Op, Special, Var
from tilejit.ops.cast import convert
from tilejit.ops.elementwise import ELEMENTWISE

Array = np.ndarray
Leaf = Var | Special | Load


def value(expr: Expr, read: Callable[[Leaf], Array]) -> Array:
    """The values of `expr`, of its own type, where `read` gives those of variables, specials and loads."""
    match expr:
        case Const():
            return np.asarray(expr.value).astype(expr.dtype.numpy)
        case Cast():
            return convert(value(expr.x, read), expr.dtype, expr.saturate)
        case Op():
            return _applied(expr, [value(a, read) for a in expr.args])
    return read(expr)


def _applied(expr: Op, arguments: list[Array]) -> Array:
    operation = ELEMENTWISE[expr.name]
    types = {a.dtype for a in expr.args[operation.conditions :]}
    assert len(types) == 1, f"{expr} mixes {types}"
    assert expr.dtype == ELEMENTWISE[expr.name].value_type(expr.args[-1].dtype), f"{expr} is {expr.dtype}"
    with np.errstate(all="ignore"):
        result = np.asarray(operation.formula(*arguments))
    assert result.dtype == expr.dtype.numpy, (expr, result.dtype)
    return result


def evaluate(expr: Expr, values: Mapping[str, int]) -> np.generic:
    """The value of `expr` where variables and specials have these values by name."""

    def read(leaf: Leaf) -> Array:
        assert not isinstance(leaf, Load), f"{leaf} reads memory"
        return np.asarray(values[leaf.name], dtype=leaf.dtype.numpy)

    return value(expr, read)[()]
