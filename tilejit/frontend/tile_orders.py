"""`tj.tile_order(t, shape, group)` of numbers that are known only at run time."""

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
    """Return the row and the column as the host's function does.

    With `q = t // columns` no step leaves the range of t and the shape; `group * columns` may, and is computed only
    where it fits.
    """
    arguments = bind(ctx, node, "tile_order", ("t", "shape", "group"), 2)
    shape = ctx.evaluate(arguments["shape"])
    if not isinstance(shape, Items) or len(shape.items) != 2:
        raise ctx.type_error(
            arguments["shape"], f"tiles are counted in (rows, columns); this is {describe(shape)}", "give two numbers"
        )
    group = optional(ctx, arguments.get("group")) or Constant(8)
    if not isinstance(group, Scalar):
        place = arguments.get("group", node)
        number = ctx.integer(group, place, "the number of rows of a group")
        if number < 1:
            raise ctx.type_error(place, f"groups of {number} rows", "give at least 1")
    t, (rows, columns) = ctx.evaluate(arguments["t"]), shape.items

    def made(name: str, a: Value, b: Value) -> Value:
        folded = fold(ctx, node, _FOLDED[name], (a, b))
        return apply(ctx, node, name, (a, b)) if folded is None else folded

    if _fits(group, columns, t):
        tiles = made("mul", group, columns)
        first = made("mul", made("floordiv", t, tiles), group)
        within = made("mod", t, tiles)
    else:
        first = made("mul", made("floordiv", made("floordiv", t, columns), group), group)
        within = made("sub", t, made("mul", first, columns))
    height = made("minimum", made("sub", rows, first), group)
    return Items((made("add", first, made("mod", within, height)), made("floordiv", within, height)))


def _fits(group: Value, columns: Value, t: Value) -> bool:
    """True if group * columns provably fits its type, or that of `t` where both are constants."""
    if isinstance(group, Constant) and isinstance(columns, Constant):
        return not isinstance(t, Scalar) or group.value * columns.value <= facts.full_range(t.dtype)[1]
    exprs = [v.expr if isinstance(v, Scalar) else build.const(v.value, int64) for v in (group, columns)
             if isinstance(v, (Scalar, Constant))]
    product = build.mul(*[build.cast(e, int64) for e in exprs])
    dtype = promote(*[v.dtype for v in (group, columns) if isinstance(v, Scalar)])
    return facts.fits(facts.bounds(product), dtype) or (dtype is int64 and not facts.is_data(product))
