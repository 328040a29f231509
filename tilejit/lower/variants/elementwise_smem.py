"""Elementwise operations, casts and fills on shared or global memory.

accepts: all tiles in shared or global memory, in any layouts; regions past a global tensor's edges; scalars, and inputs
    that broadcast.
emits: the widest provably aligned vectors, distributed over the scope's threads: a loop with a load of each
    input, the scalar operation on each element, and a store.
source: tilejit/lower/README.md, "Elementwise operations and indices".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...dtypes import int32
from ...ir.arithmetic import build
from ...ir.nodes import Expr, Load, Store, TileOp, Vector
from ..builder import Builder
from ..elementwise import ELEMENTWISE_CONDITIONS, OPERATIONS, inputs_of, placed_tiles, schedule
from ..moves.partition import Partition, each_vector
from ..values import value_of
from ..variant import KINDS, Condition, DispatchContext, Variant, outside

Plan = Partition


def _in_memory(op: TileOp, context: DispatchContext) -> str | None:
    unsupported = outside(op, "shared", "global")
    return f"works on shared and global memory; {unsupported}" if unsupported else None


def plan(op: TileOp, context: DispatchContext) -> Plan:
    return Plan.of(schedule(placed_tiles(op)), context.count(op.scope), "dst", vectorized=True, broadcasts=True)


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    inputs = inputs_of(op, b)
    dst, *tiles = plan.names
    registers = {name: _registers(plan, op, name, b) for name in plan.names}
    to = registers[dst]
    for vectors in each_vector(plan, op, b):
        for name in tiles:
            vectors[name].load(b, registers[name], build.const(0, registers[name].buffer.dtype))
        with b.loop("element", vectors[dst].width, unrolled=True) as k:
            at = build.add(k, vectors[dst].start)
            value = value_of(op, _values(plan, inputs, registers, at), to.buffer.dtype)
            b.append(Store(Vector(to.buffer, at), value, span=b.span))
        vectors[dst].store(b, to)


def _registers(plan: Plan, op: TileOp, name: str, b: Builder) -> Vector:
    width = 1 if name in plan.single else plan.vector_width
    return Vector(b.scratch(op.name, plan.elements[name].buffer.dtype, width), build.const(0, int32), width)


def _values(plan: Plan, inputs: Sequence[str | Expr], registers: Mapping[str, Vector], at: Expr) -> list[Expr]:
    loads = {
        name: Load(vector if name in plan.single else Vector(vector.buffer, at)) for name, vector in registers.items()
    }
    return [loads[each] if isinstance(each, str) else each for each in inputs]


VARIANT = Variant(
    name="smem",
    operations=OPERATIONS,
    priority=10,
    operands=(KINDS, Condition("memory", _in_memory)),
    when=ELEMENTWISE_CONDITIONS,
    plan=plan,
    emit=emit,
)
