"""Calls of methods: `x.astype(...)`, `A.at(...)`, `A.tile(...)`, `A.permute(...)`, `A.view(...)`, `x.reshape(...)`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from ..wording import counted
from . import barriers, regions, shapes, tiles
from . import memory as mem
from .arguments import bind, optional
from .context import Context
from .scalars import convert
from .tuple_calls import positional_values
from .values import Items, Memory, Scalar, Value, describe


def _astype(ctx: Context, node: ast.Call, receiver: Value) -> Value:
    arguments = bind(ctx, node, ".astype", ("dtype", "saturate"), 1)
    wanted = arguments["dtype"]
    dtype = mem.element_type(ctx, wanted, ctx.evaluate(wanted))
    flag = optional(ctx, arguments.get("saturate"))
    saturate = True if flag is None else bool(ctx.constant(flag, node, "saturate="))
    if isinstance(receiver, Memory):
        return tiles.cast(ctx, node, receiver, dtype, saturate)
    return convert(ctx, node, receiver, dtype, saturate)


def _tile(ctx: Context, node: ast.Call, receiver: Value) -> Value:
    assert isinstance(receiver, Memory)
    if len(node.args) > 2:
        raise ctx.type_error(
            node, f".tile takes a shape and an index; got {counted(len(node.args), 'argument')}",
            f"write each as a tuple: {_with_tuples(node.args)}",
        )
    arguments = bind(ctx, node, ".tile", ("shape", "index"), 2)
    shape_node, index_node = arguments["shape"], arguments["index"]
    shape = mem.static_shape(ctx, shape_node, ctx.evaluate(shape_node))
    at = ctx.evaluate(index_node)
    items = at.items if isinstance(at, Items) else (at,)
    coordinates = [regions.index_value(ctx, index_node, item, receiver.buffer) for item in items]
    return regions.tile(ctx, node, receiver, shape, coordinates)


def _with_tuples(written: Sequence[ast.expr]) -> str:
    rank, odd = divmod(len(written), 2)
    if odd or any(isinstance(argument, ast.Starred) for argument in written):
        return ".tile((rows, columns), (i, j))"
    shape, index = (", ".join(map(ast.unparse, half)) for half in (written[:rank], written[rank:]))
    return f".tile(({shape}), ({index}))"


def _at(ctx: Context, node: ast.Call, receiver: Value) -> Value:
    assert isinstance(receiver, Memory)
    arguments = bind(ctx, node, ".at", ("index", "axis"), 1)
    rank = len(receiver.dims)
    if not rank:
        raise ctx.type_error(node, f"{describe(receiver)} has no dimension to index", "take a larger region")
    if "axis" in arguments and isinstance(ctx.evaluate(arguments["axis"]), Memory):
        raise ctx.type_error(
            node, ".at takes one tile of indices; got two",
            "slice the columns: A.at(rows)[:, 0:N]; for single elements, A[row, column] in each thread",
        )
    axis = mem.axis_of(ctx, arguments["axis"], rank) if "axis" in arguments else 0
    return regions.rows(ctx, arguments["index"], receiver, ctx.evaluate(arguments["index"]), axis)


def _permute(ctx: Context, node: ast.Call, receiver: Value) -> Value:
    assert isinstance(receiver, Memory)
    values = positional_values(ctx, node)
    if len(values) == 1 and isinstance(values[0], Items):
        values = list(values[0].items)
    return mem.permute(ctx, node, receiver, tuple(ctx.integer(v, node, "a dimension") for v in values))


def _view(ctx: Context, node: ast.Call, receiver: Value) -> Value:
    if isinstance(receiver, Scalar):
        return mem.view_of_scalar(ctx, node, receiver)
    assert isinstance(receiver, Memory)
    return mem.view(ctx, node, receiver)


def _reshape(ctx: Context, node: ast.Call, receiver: Value) -> Value:
    assert isinstance(receiver, Memory)
    return shapes.reshape(ctx, node, receiver)


METHODS: dict[str, Callable[[Context, ast.Call, Value], Value]] = {
    **barriers.METHODS,
    "astype": _astype,
    "at": _at,
    "tile": _tile,
    "permute": _permute,
    "reshape": _reshape,
    "view": _view,
}
