"""Elementwise operations, casts and fills on shared or global memory.

accepts: all tiles in shared or global memory, any layouts, regions past a global tensor's edges; inputs that
    broadcast, scalars.
emits: the widest provable vectors, shared out among the scope's threads: a serial loop over rounds, a load of each
    input, the scalar operation on each element, a store.
source: DISPATCH 8.4 and 13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...dtypes import int32
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import Buffer, Expr, Load, Region, Store, TileOp, Vector
from ..builder import Builder
from ..conditions import KINDS, outside
from ..elementwise import ELEMENTWISE_CONDITIONS, OPERATIONS, placed_tiles, schedule, value_of
from ..engine import Condition, Decline, DispatchContext, Variant
from ..moves.partition import Partition, emit_partition, plan_partition
from ..moves.vectors import Run, load, store

Plan = Partition


def _in_memory(op: TileOp, context: DispatchContext) -> str | None:
    strangers = outside(op, "shared", "global")
    return f"works on shared and global memory; {strangers}" if strangers else None


def plan(op: TileOp, context: DispatchContext) -> Plan | Decline:
    try:
        digits = schedule(placed_tiles(op))
    except LayoutError as error:
        return Decline((error.message,), error.hint)
    return plan_partition(digits, context.count(op.scope), "dst", vectorized=True, broadcasts=True)


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    operands = [o if isinstance(o, Region) else b.let("scalar", o) for o in op.inputs]
    dst, *inputs = plan.names
    registers = {
        view.name: b.scratch(op.name, view.buffer.dtype, 1 if view.name in plan.single else plan.vector_width)
        for view in plan.elements.views
    }
    zero = build.const(0, int32)

    def step(runs: Mapping[str, Run], start: int, width: int) -> None:
        for name in inputs:
            first, count = (0, 1) if name in plan.single else (start, width)
            load(b, registers[name], zero, runs[name], first, count, build.const(0, registers[name].dtype))
        with b.loop("element", width, unrolled=True) as k:
            at = build.add(k, start)
            value = value_of(op, _values(plan, operands, registers, at), registers[dst].dtype)
            b.append(Store(Vector(registers[dst], at), value, span=b.span))
        store(b, registers[dst], zero, runs[dst], start, width)

    emit_partition(plan, op, b, step)


def _values(
    plan: Plan, operands: Sequence[Region | Expr], registers: Mapping[str, Buffer], at: Expr
) -> list[Expr]:
    """The inputs of one element: scalars as they are, tiles from their registers."""
    values: list[Expr] = []
    names = iter(plan.names[1:])
    for operand in operands:
        if not isinstance(operand, Region):
            values.append(operand)
            continue
        name = next(names)
        values.append(Load(Vector(registers[name], build.const(0, int32) if name in plan.single else at)))
    return values


VARIANT = Variant(
    "smem",
    OPERATIONS,
    10,
    (KINDS, Condition("memory", _in_memory)),
    ELEMENTWISE_CONDITIONS,
    plan,
    emit,
)
