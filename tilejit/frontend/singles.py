"""Tiles of shape (), as reductions over all axes give: where a scalar is needed each thread takes its own copy."""

from __future__ import annotations

import ast

from ..dtypes import int32
from ..ir.arithmetic import build
from ..ir.nodes import Buffer, BufferView, Element, Let, Load, Var
from ..layout import TileLayout
from ..source import Span
from .context import Context
from .fixing import fixed_layout
from .values import Memory, Scalar, Value

__all__ = ["as_scalar", "is_single", "scalar_of"]


def is_single(value: Value) -> bool:
    """Whether it is a tile of shape () that a scalar may stand for."""
    return isinstance(value, Memory) and not value.extents and value.is_local and value.is_whole


def as_scalar(ctx: Context, node: ast.AST, value: Value) -> Value:
    """The one value of a tile of shape (); anything else as it is."""
    if not isinstance(value, Memory) or not is_single(value):
        return value
    return scalar_of(ctx, value, ctx.span(node))


def scalar_of(ctx: Context, single: Memory, span: Span) -> Scalar:
    """The one value of a tile of shape ()."""
    fixed_layout(ctx, span, single)
    tile = single.buffer
    layout = TileLayout.row_major((1,))
    view = Buffer(ctx.unique(f"{tile.root.name}.view"), "local", tile.dtype, (1,), layout, tile.align, tile, span)
    ctx.allocate(BufferView(view, span))
    var = Var(ctx.unique(f"{tile.root.name}.value"), tile.dtype, span=span)
    ctx.emit(Let(var, Load(Element(view, (build.const(0, int32),), span), "", span), span))
    return Scalar(var)
