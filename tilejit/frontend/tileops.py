"""Calls of tile operations, `tj.<scope>.<operation>(...)`; `shorthands` translates the other calls on scopes."""

from __future__ import annotations

import ast

from ..dtypes import DType
from ..ir.nodes import Expr, Region, TileOp
from ..ops.record import BARRIER, CONDITION, TILE, TileOperation
from ..ops.tile import CALLS
from . import barriers, regions, tiles
from .arguments import bind, is_none
from .context import Context
from .memory import require_writable
from .operands import as_memory, attributes, destination
from .scalars import as_type, condition, convert
from .shorthands import SHORTHANDS
from .values import Constant, Memory, Scalar, ScopedOperation, Value, is_number


def call_operation(ctx: Context, node: ast.Call, operation: ScopedOperation) -> Value:
    call = CALLS[operation.name]
    if isinstance(call, TileOperation):
        return _tile_operation(ctx, node, call, operation.scope)
    arguments = bind(ctx, node, f"tj.{operation.scope}.{operation.name}", call.parameters, call.required)
    return SHORTHANDS[call.name](ctx, node, operation, arguments)


def _tile_operation(ctx: Context, node: ast.Call, record: TileOperation, scope: str) -> Value:
    value = record.name if record.elementwise or record.reduction else ""
    arguments = bind(ctx, node, f"tj.{scope}.{record.name}", record.parameters, record.required, value)
    operands = (_elementwise if record.elementwise else _operands)(ctx, node, record, arguments)
    attrs = attributes(ctx, arguments, record, operands)
    tiles.emit_sound(ctx, node, TileOp(record.name, scope, record.ordered(operands), attrs, ctx.span(node)))
    return Constant(None)


def _operands(
    ctx: Context, node: ast.AST, record: TileOperation, arguments: dict[str, ast.expr]
) -> dict[str, Region | Expr]:
    """Return the operands that a call passes, by name; a scalar is converted to the type of the tile before it."""
    operands: dict[str, Region | Expr] = {}
    tile_type: DType | None = None
    for rule in record.operands:
        argument = arguments.get(rule.name)
        if argument is None:
            continue
        kind = rule.kind(is_region=True)
        value = ctx.evaluate(argument) if kind is None else regions.unloaded(ctx, argument)
        if rule.optional and is_none(value):
            continue
        if CONDITION in rule.kinds:
            operands[rule.name] = condition(ctx, argument, value)
            continue
        if kind is None:
            assert tile_type is not None, f"{record.name} has no tile before {rule.name}"
            operands[rule.name] = convert(ctx, argument, value, tile_type).expr
            continue
        if kind is BARRIER:
            operands[rule.name] = barriers.region(ctx, argument, barriers.named(ctx, argument, f"{rule.name}=", value))
            continue
        memory = as_memory(ctx, argument, value, rule.called or rule.name)
        if rule.written:
            require_writable(ctx, argument, memory)
        operands[rule.name] = memory.region(ctx.span(argument))
        tile_type = memory.dtype if kind is TILE else tile_type
    return operands


def _elementwise(
    ctx: Context, node: ast.AST, record: TileOperation, arguments: dict[str, ast.expr]
) -> dict[str, Region | Expr]:
    to, *inputs = record.operands
    dst = destination(ctx, arguments[to.name])
    values = [ctx.evaluate(arguments[rule.name]) for rule in inputs]
    has_tile = any(isinstance(v, Memory) for v in values)
    if not has_tile:
        # literals take the type of the destination, unless their default type has a higher `RANK`
        values = [
            Scalar(as_type(ctx, node, v, dst.dtype)) if isinstance(v, Scalar) or is_number(v) else v for v in values
        ]
    operands, _ = tiles.inputs(ctx, node, record.name, values)
    return dict(zip((rule.name for rule in record.operands), (dst, *operands), strict=True))
