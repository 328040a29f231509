"""Elementwise operations, casts and fills on shared or global memory.

accepts: all tiles in shared or global memory, any layouts, regions past a global tensor's edges; inputs that
    broadcast, scalars.
emits: the widest provable vectors, shared out among the scope's threads: a serial loop over rounds, a load of each
    input, the scalar operation on each element, a store.
source: DISPATCH 8.4 and 13.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...dtypes import int32
from ...errors import LayoutError
from ...ir import build
from ...ir.nodes import Buffer, Expr, Load, Region, Store, TileOp, Vector
from ..builder import Builder
from ..conditions import KINDS, outside, tiles
from ..elementwise import ELEMENTWISE_CONDITIONS, OPERATIONS, arity, broadcast, value_of
from ..engine import Condition, Context, Decline, Variant
from ..moves.partition import Partition, emit_partition, plan_partition
from ..moves.vectors import Run, load, store
from ..schedule.placement import side

Plan = Partition


def _in_memory(op: TileOp, context: Context) -> str | None:
    strangers = outside(op, "shared", "global")
    return f"works on shared and global memory; {strangers}" if strangers else None


def plan(op: TileOp, context: Context) -> Plan | Decline:
    try:
        dst, *inputs = (side(r, op.scope) for r in tiles(op))
        sides = (dst, *(broadcast(i, dst) for i in inputs))
        return plan_partition(sides, context.count(op.scope), 0, vectorized=True, broadcasts=True)
    except LayoutError as error:
        return Decline((error.message,), error.hint)


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    operands = [o if isinstance(o, Region) else b.let("scalar", o) for o in op.operands[: arity(op.name) + 1]]
    registers = [
        b.scratch(op.name, s.buffer.dtype, 1 if one else plan.vector_width)
        for s, one in zip(plan.sides, plan.single, strict=True)
    ]
    zero = build.const(0, int32)

    def step(runs: Sequence[Run], start: int, width: int) -> None:
        for column in range(1, len(runs)):
            first, count = (0, 1) if plan.single[column] else (start, width)
            fill = build.const(0, plan.sides[column].buffer.dtype)
            load(b, registers[column], zero, runs[column], first, count, fill)
        with b.loop("element", width, unrolled=True) as k:
            at = build.add(k, start)
            values = _values(plan, operands[1:], registers, at)
            value = value_of(op, values, registers[0].dtype)
            b.append(Store(Vector(registers[0], at), value, span=b.span))
        store(b, registers[0], zero, runs[0], start, width)

    emit_partition(plan, op, b, step)


def _values(
    plan: Plan, operands: Sequence[Region | Expr], registers: Sequence[Buffer], at: Expr
) -> list[Expr]:
    """The inputs of one element: scalars as they are, tiles from their registers."""
    found: list[Expr] = []
    column = 1
    for operand in operands:
        if not isinstance(operand, Region):
            found.append(operand)
            continue
        place = build.const(0, int32) if plan.single[column] else at
        found.append(Load(Vector(registers[column], place)))
        column += 1
    return found


VARIANT = Variant(
    "smem",
    OPERATIONS,
    10,
    (KINDS, Condition("memory", _in_memory)),
    ELEMENTWISE_CONDITIONS,
    plan,
    emit,
)
