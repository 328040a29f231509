"""What calls on a scope give besides operands: attributes, and masks."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from ..dtypes import bool_
from ..ir.arithmetic import build
from ..ir.nodes import Expr, Region, TileOp
from ..ops.copies import FILL
from ..ops.fold import COMBINE, PAIRS
from ..ops.record import AttributeValue, TileOperation, dimensions
from . import tiles
from .arguments import optional
from .combine import read_combine
from .context import Context
from .scalars import truth
from .values import Constant, Memory, ScopedOperation

__all__ = ["attributes", "mask"]


def attributes(
    ctx: Context, arguments: dict[str, ast.expr], record: TileOperation, operands: Mapping[str, Region | Expr]
) -> tuple[tuple[str, AttributeValue], ...]:
    """The attributes that are given, as compile-time values. operands: by name."""
    attrs: list[tuple[str, AttributeValue]] = []
    for attribute in record.attrs:
        argument = arguments.get(attribute.name)
        value = optional(ctx, argument)
        if value is None or argument is None:
            continue
        if attribute is COMBINE:
            sources = [operands[name].dtype for _, name in PAIRS if name in operands]
            combine = read_combine(ctx, argument, value, sources, is_tuple=len(sources) > 1)
            attrs.append((attribute.name, combine))
            continue
        constant = ctx.constant(value, argument, f"{attribute.name}=")
        counted = operands.get(attribute.counts)
        if isinstance(counted, Region):
            constant = dimensions(constant, len(counted.shape))
        fault = attribute.fault(constant)
        if fault is not None:
            raise ctx.type_error(argument, fault, f"leave {attribute.name}= out, or change it")
        attrs.append((attribute.name, constant))
    return tuple(attrs)


def mask(ctx: Context, operation: ScopedOperation, argument: ast.expr | None) -> Region | None:
    """The mask that a call gives as a tile; None where it gives none, or one that always holds."""
    value = optional(ctx, argument)
    if value is None or argument is None or (isinstance(value, Constant) and value.value is True):
        return None
    if isinstance(value, Memory):
        return tiles.local_tile(ctx, argument, "mask=", value).region(ctx.span(argument))
    holds = truth(ctx, argument, value)
    tile = ctx.tile("mask", operation.scope, (1,), bool_, ctx.span(argument))
    cond = build.const(holds, bool_) if isinstance(holds, bool) else holds
    region = tile.region(ctx.span(argument))
    ctx.emit(TileOp(FILL.name, operation.scope, (region, cond), (), ctx.span(argument)))
    return region
