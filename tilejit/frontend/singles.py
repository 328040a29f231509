"""Tiles of shape (), as reductions over all axes give: where a scalar is needed each thread takes its own copy."""

from __future__ import annotations

import ast

from ..dtypes import int32
from ..ir.arithmetic import build
from ..ir.nodes import Buffer, BufferView, Element, Let, Load, Var
from ..layout import TileLayout
from .context import Context
from .fixing import fixed_layout
from .values import Memory, Scalar, Value

__all__ = ["as_scalar"]


def as_scalar(ctx: Context, node: ast.AST, value: Value) -> Value:
    """The one value of a tile of shape (); anything else as it is."""
    if not isinstance(value, Memory) or not value.is_value or value.extents or not value.is_whole:
        return value
    fixed_layout(ctx, node, value)
    tile, span = value.buffer, ctx.span(node)
    layout = TileLayout.row_major((1,))
    view = Buffer(ctx.unique(f"{tile.root.name}.view"), "local", tile.dtype, (1,), layout, tile.align, tile, span)
    ctx.allocate(BufferView(view, span))
    var = Var(ctx.unique(f"{tile.root.name}.value"), tile.dtype, span=span)
    ctx.emit(Let(var, Load(Element(view, (build.const(0, int32),), span), "", span), span))
    return Scalar(var)
