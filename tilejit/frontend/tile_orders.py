"""Translation of `tj.tile_order(t, shape, group)` of run-time numbers."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from ..dtypes import int64, promote
from ..ir.arithmetic import build, facts
from .arguments import bind, optional
from .context import Context
from .scalars import fold
from .tiles import apply
from .values import Constant, Items, Scalar, Value, describe

__all__ = ["tile_of"]

_FOLDED: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "floordiv": operator.floordiv, "minimum": min, "mod": operator.mod, "mul": operator.mul,
    "sub": operator.sub,
}


def tile_of(ctx: Context, node: ast.Call) -> Value:
    """Return the row and the column that the host function returns.

    With `q = t // columns`, no intermediate value leaves the range of t and the shape. `group * columns` may, and is
    used only if it provably fits.
    """
    arguments = bind(ctx, node, "tile_order", ("t", "shape", "group"), 2)
    shape = ctx.evaluate(arguments["shape"])
    if not isinstance(shape, Items) or len(shape.items) != 2:
        raise ctx.type_error(
            arguments["shape"], f"the shape must be (rows, columns); this is {describe(shape)}", "give two numbers"
        )
    group = optional(ctx, arguments.get("group")) or Constant(8)
    if not isinstance(group, Scalar):
        place = arguments.get("group", node)
        number = ctx.integer(group, place, "the number of rows of a group")
        if number < 1:
            raise ctx.type_error(place, f"a group can't have {number} rows", "give at least 1")
    t, (rows, columns) = ctx.evaluate(arguments["t"]), shape.items

    def compute(name: str, a: Value, b: Value) -> Value:
        folded = fold(ctx, node, _FOLDED[name], (a, b))
        return apply(ctx, node, name, (a, b)) if folded is None else folded

    if _fits(group, columns, t):
        tiles = compute("mul", group, columns)
        first = compute("mul", compute("floordiv", t, tiles), group)
        within = compute("mod", t, tiles)
    else:
        first = compute("mul", compute("floordiv", compute("floordiv", t, columns), group), group)
        within = compute("sub", t, compute("mul", first, columns))
    height = compute("minimum", compute("sub", rows, first), group)
    return Items((compute("add", first, compute("mod", within, height)), compute("floordiv", within, height)))


def _fits(group: Value, columns: Value, t: Value) -> bool:
    """True if group * columns provably fits its type, or the type of `t` if both are constants."""
    if isinstance(group, Constant) and isinstance(columns, Constant):
        return not isinstance(t, Scalar) or group.value * columns.value <= facts.full_range(t.dtype)[1]
    exprs = [v.expr if isinstance(v, Scalar) else build.const(v.value, int64) for v in (group, columns)
             if isinstance(v, (Scalar, Constant))]
    product = build.mul(*[build.cast(e, int64) for e in exprs])
    dtype = promote(*[v.dtype for v in (group, columns) if isinstance(v, Scalar)])
    return facts.fits(facts.bounds(product), dtype) or (dtype is int64 and not facts.is_data(product))
