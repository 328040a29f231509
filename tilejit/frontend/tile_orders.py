"""`tj.tile_order(t, shape, group)` of numbers that are known only at run time."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from .arguments import bind, optional
from .context import Context
from .scalars import fold, operate
from .values import Constant, Items, Value, describe

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
    value = optional(ctx, arguments.get("group"))
    group = 8 if value is None else ctx.integer(value, arguments["group"], "the number of rows of a group")
    if group < 1:
        raise ctx.type_error(arguments["group"], f"groups of {group} rows", "give at least 1")
    t, (rows, columns), whole = ctx.evaluate(arguments["t"]), shape.items, Constant(group)

    def made(name: str, a: Value, b: Value) -> Value:
        folded = fold(ctx, node, _FOLDED[name], (a, b))
        return operate(ctx, node, name, (a, b)) if folded is None else folded

    tiles = made("mul", whole, columns)
    first = made("mul", made("floordiv", t, tiles), whole)
    height = made("minimum", made("sub", rows, first), whole)
    within = made("mod", t, tiles)
    return Items((made("add", first, made("mod", within, height)), made("floordiv", within, height)))
