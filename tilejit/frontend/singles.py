"""Rank-0 tiles, such as results of reductions over all axes: each thread has a copy to use as a scalar.

A rank-0 tile becomes a scalar where a scalar is needed (`if tj.max(x) > 0`), and where it joins a number from another
path (`total = 0.0` before `total += tj.sum(x)`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..dtypes import int32, int64
from ..ir.arithmetic import build
from ..ir.nodes import Buffer, BufferView, Element, Let, Load, Var
from ..layout import TileLayout
from ..source import Span
from .context import Context
from .fixing import fixed_layout
from .values import Binding, Memory, Scalar, Value

#: the node types of arithmetic on names and numbers
_ARITHMETIC = (ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop, ast.Name, ast.expr_context, ast.Constant)


def is_single(value: Value) -> bool:
    """True for a rank-0 tile, which can be used as a scalar."""
    return isinstance(value, Memory) and not value.extents and value.is_local and value.is_whole


def as_scalar(ctx: Context, node: ast.AST, value: Value) -> Value:
    """Return a rank-0 tile as a scalar, and any other value unchanged."""
    if not isinstance(value, Memory) or not is_single(value):
        return value
    return scalar_of(ctx, value, ctx.span(node))


@contextmanager
def as_scalars(ctx: Context, expressions: Sequence[ast.expr]) -> Iterator[None]:
    """Context manager that binds names of rank-0 tiles in arithmetic to scalars, so that each tile is loaded once."""
    parts = [part for expression in expressions for part in ast.walk(expression)]
    names = {part.id: part for part in parts if isinstance(part, ast.Name)}
    singles: dict[str, Binding] = {}
    if all(isinstance(part, _ARITHMETIC) for part in parts):
        bindings = {name: binding for name in names if (binding := ctx.frame.env.get(name)) is not None}
        singles = {name: binding for name, binding in bindings.items() if is_single(binding.value)}
    for name, binding in singles.items():
        ctx.bind(name, Binding(as_scalar(ctx, names[name], binding.value), binding.span))
    try:
        yield
    finally:
        for name, binding in singles.items():
            ctx.bind(name, binding)


def scalar_of(ctx: Context, single: Memory, span: Span) -> Scalar:
    """Load the value of a rank-0 tile."""
    fixed_layout(ctx, span, single)
    tile = single.buffer
    layout = TileLayout.row_major((1,))
    view = Buffer(ctx.unique(f"{tile.root.name}.view"), "local", tile.dtype, (1,), layout, tile.align, tile, span)
    ctx.allocate(BufferView(view, span))
    var = Var(ctx.unique(f"{tile.root.name}.value"), tile.dtype, span=span, data=tile.dtype is int64)
    ctx.emit(Let(var, Load(Element(view, (build.const(0, int32),), span), "", span), span))
    return Scalar(var)
