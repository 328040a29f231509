"""Operands and attributes of tile operations, from the arguments of a call."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from ..dataclass import replace
from ..ir.nodes import Expr, Region
from ..ops.copies import INDEX, MULTICAST
from ..ops.fold import COMBINE, PAIRS
from ..ops.record import AttributeValue, TileOperation, dimensions
from . import clusters, regions
from .arguments import Arguments, optional
from .combine import read_combine
from .context import Context
from .memory import require_writable
from .values import Memory, Rows, Value, describe

Attributes = tuple[tuple[str, AttributeValue], ...]


def memory_operand(ctx: Context, node: ast.expr, what: str) -> Memory:
    """Return the buffer, region or element that an argument denotes; raise KernelTypeError for anything else."""
    return as_memory(ctx, node, regions.unloaded(ctx, node), what).at(ctx.span(node))


def assume_in_bounds(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.assume_in_bounds(region)`."""
    return replace(memory_operand(ctx, arguments["region"], "the argument of tj.assume_in_bounds"), in_bounds=True)


def as_memory(ctx: Context, node: ast.expr, value: Value, what: str) -> Memory:
    """Return the value as memory; raise KernelTypeError for anything else."""
    if isinstance(value, Rows):
        raise ctx.type_error(
            node, f"{what} can't be {describe(value)}", "load it first: only load, store and tj.atomic take it"
        )
    if not isinstance(value, Memory):
        raise ctx.type_error(
            node, f"{what} must be a buffer or a region; this is {describe(value)}",
            "pass a tensor, an allocation, or a slice of one",
        )
    return value


def placed(ctx: Context, node: ast.expr, what: str, *, is_written: bool) -> dict[str, Region | Expr]:
    """Return the operands that describe a place, by name: its region and, for `.at(index)`, the index."""
    value = regions.unloaded(ctx, node)
    memory = value.memory if isinstance(value, Rows) else as_memory(ctx, node, value, what)
    if is_written:
        require_writable(ctx, node, memory)
    if not isinstance(value, Rows):
        return {"place": memory.region(ctx.span(node))}
    return {"place": value.region(ctx.span(node)), INDEX.name: value.operand(ctx.span(node))}


def destination(ctx: Context, node: ast.expr) -> Region:
    memory = as_memory(ctx, node, regions.unloaded(ctx, node), "the destination")
    require_writable(ctx, node, memory)
    return memory.region(ctx.span(node))


def attributes(
    ctx: Context, arguments: dict[str, ast.expr], record: TileOperation, operands: Mapping[str, Region | Expr]
) -> Attributes:
    """Return (name, value) pairs of the attributes in a call; None and multicast to a single CTA are left out."""
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
        if attribute is MULTICAST:
            assert isinstance(constant, int)
            constant = clusters.multicast(ctx, argument, constant, operands)
            if constant is None:
                continue
        attrs.append((attribute.name, constant))
    return tuple(attrs)
