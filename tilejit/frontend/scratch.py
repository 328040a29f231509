"""`tj.scratch(shape, dtype)`: an array in global memory that each launch allocates, as a hidden argument.

Its run-time extents are parameters, which the launch computes, unless they are parameters already.
"""

from __future__ import annotations

import ast

from ..dtypes import int64
from ..ir import allocation
from ..ir.arithmetic import build
from ..ir.arithmetic.facts import multiple_of
from ..ir.nodes import Buffer, Const, Expr, Var
from ..ir.params import ExtentParam, Param, PointerParam, ScratchShape, StrideParam
from ..layout import TileLayout
from .arguments import Arguments, optional
from .context import Context, Located
from .memory import element_type
from .reshapes import launch_extent, strided
from .values import LARGEST_EXTENT, Items, Memory, Value

_GRID = tuple([f"num_ctas.{axis}" for axis in range(3)])


def scratch(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.scratch(shape, dtype, zeroed=False)`; each call adds parameters of its own."""
    sizes = _sizes(ctx, arguments["shape"])
    dtype = element_type(ctx, arguments["dtype"], ctx.evaluate(arguments["dtype"]))
    zeroed = optional(ctx, arguments, "zeroed")
    is_zeroed = zeroed is not None and ctx.constant(zeroed, arguments["zeroed"], "zeroed")
    if not isinstance(is_zeroed, bool):
        raise ctx.type_error(arguments["zeroed"], f"zeroed must be a bool; got {is_zeroed!r}", "write True or False")
    name, numbers = ctx.unique(ctx.hint or "scratch"), list[Param]()
    extents = [_extent(ctx, name, axis, size, numbers) for axis, size in enumerate(sizes)]
    strides: list[int | Var] = [1]
    for axis, step in zip(range(len(sizes) - 2, -1, -1), _products(sizes), strict=True):
        strides.insert(0, _stride(ctx, name, axis, step, extents[axis + 1], strides[0], numbers))
    shape, align = tuple(extents), ctx.target.array_align
    layout = (
        TileLayout.row_major(tuple([n for n in shape if isinstance(n, int)]))
        if all(isinstance(n, int) for n in shape) else strided(dtype.bytes, align, shape, tuple(strides))
    )
    buffer = Buffer(name, "global", dtype, shape, layout, align, None, ctx.span(node))
    pointer = PointerParam(name, buffer, noalias=True, scratch=ScratchShape(sizes, is_zeroed))
    ctx.scratch[name] = (pointer, *numbers)
    return Memory.whole(buffer)


def _sizes(ctx: Context, given: ast.expr) -> tuple[Expr, ...]:
    value = ctx.evaluate(given)
    items = value.items if isinstance(value, Items) else (value,)
    nodes = given.elts if isinstance(given, ast.Tuple) and len(given.elts) == len(items) else [given] * len(items)
    sizes = tuple([
        launch_extent(
            ctx, at, item, _GRID, "an extent of scratch must be known when the kernel is launched",
            "compute it from constants, scalar parameters, X.shape and tj.num_ctas(axis)",
        )
        for at, item in zip(nodes, items, strict=True)
    ])
    with Located(ctx, given):
        # run-time extents are checked by launches
        known = tuple([int(size.value) if isinstance(size, Const) else 1 for size in sizes])
        allocation.check_rank(known)
        allocation.check_extents(known)
    return sizes


def _products(sizes: tuple[Expr, ...]) -> list[Expr]:
    """Return the row-major strides of all dimensions but the last, innermost first."""
    products = list[Expr]()
    step: Expr = build.const(1, int64)
    for size in reversed(sizes[1:]):
        step = build.mul(step, size)
        products.append(step)
    return products


def _extent(ctx: Context, name: str, axis: int, size: Expr, params: list[Param]) -> int | Var:
    if isinstance(size, Const):
        return int(size.value)
    if isinstance(size, Var) and not size.data:
        # another array's extent, about which more may be known
        return size
    var = Var(ctx.unique(f"{name}.shape.{axis}"), int64, multiple_of(size), (0, LARGEST_EXTENT))
    params.append(ExtentParam(name, var, axis))
    return var


def _stride(
    ctx: Context, name: str, axis: int, step: Expr, extent: int | Var, inner: int | Var, params: list[Param]
) -> int | Var:
    """Return the stride of a dimension. extent, inner: extent and stride of the next dimension."""
    if isinstance(step, Const):
        return int(step.value)
    if inner == 1:
        return extent
    var = Var(ctx.unique(f"{name}.stride.{axis}"), int64, multiple_of(step))
    params.append(StrideParam(name, var, axis))
    return var
