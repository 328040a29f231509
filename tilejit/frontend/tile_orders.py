"""`tj.tile_order(t, shape, group)` of numbers that are known only at run time."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from .arguments import bind, optional
from .context import Context
from .scalars import fold, operate
from .values import Constant, Items, Scalar, Value, describe

__all__ = ["tile_of"]

_FOLDED: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "floordiv": operator.floordiv, "minimum": min, "mod": operator.mod, "mul": operator.mul,
    "sub": operator.sub,
}


def tile_of(ctx: Context, node: ast.Call) -> Value:
    """As the host's function, step by step."""
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
        return operate(ctx, node, name, (a, b)) if folded is None else folded

    tiles = made("mul", group, columns)
    first = made("mul", made("floordiv", t, tiles), group)
    height = made("minimum", made("sub", rows, first), group)
    within = made("mod", t, tiles)
    return Items((made("add", first, made("mod", within, height)), made("floordiv", within, height)))
