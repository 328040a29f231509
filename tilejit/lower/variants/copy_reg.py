"""copy between registers and shared or global memory, each thread its own part.

accepts: one side local and owned by exactly the threads of the scope (replicas count), the other shared or global;
    equal dtypes and shapes; layouts with common digits.
emits: the widest vectors that are contiguous in memory and in registers alike and provably aligned, unrolled unless
    the tile is in local memory. All owners of a replicated tile load it, the lowest one stores it.
source: DISPATCH 5 and 13; Apache TVM, TIRx `vec_auto`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ...dtypes import int32
from ...errors import LayoutError
from ...ir import build
from ...ir.nodes import Expr, TileOp, Var
from ..builder import Builder
from ..conditions import COPY, KINDS, memory_pair
from ..engine import Context, Decline, Variant
from ..moves.register_copy import register_digits, register_sides
from ..moves.vectors import Edges, Run, access_name, at_edges, edges_of, fill_value, load, store
from ..plan import Moves, VectorPlan
from ..schedule.addresses import (
    advanced,
    along,
    digits,
    edge_dims,
    index_dtype,
    located,
    offsets,
    reached,
    steps,
    swizzled,
)
from ..schedule.evaluate import evaluate
from ..schedule.launch import launch_values
from ..schedule.owners import lowest_owner, thread_digit
from ..schedule.placement import Side, Thread
from ..schedule.registers import RegisterRun, each_start
from ..schedule.schedule import Atom, joined, reach, vectors
from ..schedule.width import vector_width


@dataclass(frozen=True, slots=True)
class Plan(VectorPlan):
    """In round r each thread moves its vector r, counted along its registers.

    owned: the digits spread over threads; atoms: those of r. Both on (registers, memory).
    loads: whether the registers are the destination.
    run_dim: the region's dimension along which vectors run, None where it spans several.
    """

    owned: tuple[Atom, ...]
    atoms: tuple[Atom, ...]
    registers: Side
    memory: Side
    loads: bool
    edges: Edges
    run_dim: int | None

    @property
    def vector_bits(self) -> int:
        return self.vector_width * self.memory.buffer.dtype.bits

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(mnemonic, trips a thread); the narrower accesses at edges aren't counted."""
        verb = "ld" if self.loads else "st"
        name = access_name(verb, self.memory.buffer.space, self.vector_width, self.memory.buffer.dtype)
        return ((name, self.rounds),)

    def values(self, trip: Expr, thread: Expr) -> list[Expr]:
        """The digits of `owned` and `atoms`."""
        own = [thread_digit(thread, a, s) for a in self.owned if isinstance(s := a.strides[0], Thread)]
        return [*own, *digits(trip, [a.extent for a in self.atoms])]

    def base(self, thread: Expr) -> Expr:
        """Where a thread's first vector lies in memory, before swizzling."""
        own = [thread_digit(thread, a, s) for a in self.owned if isinstance(s := a.strides[0], Thread)]
        return along((*offsets(self.memory), *steps(1, self.owned, own)), index_dtype(self.memory))

    def moved(self, trip: Expr) -> Expr:
        """How far a round's vector lies from the first, before swizzling."""
        return reached(self.memory, 1, self.atoms, trip)

    def register(self, trip: Expr) -> Expr:
        """The first register of a vector."""
        return located(self.registers, 0, self.atoms, trip)

    def moves(self) -> Moves:
        at = np.arange(self.rounds * self.threads, dtype=np.int64)
        trip = Var("plan.trip", int32, bounds=(0, self.rounds - 1))
        thread = Var("plan.thread", int32, bounds=(0, self.threads - 1))
        names: dict[str, np.ndarray | int] = {**launch_values((self.memory.region,))}
        names |= {"plan.trip": at // self.threads, "plan.thread": at % self.threads}
        address = swizzled(build.add(self.base(thread), self.moved(trip)), self.memory.swizzle)
        sides = (self.register(trip), address) if self.loads else (address, self.register(trip))
        places = np.stack([np.broadcast_to(evaluate(e, names), at.shape) for e in sides], axis=1)
        takes_part = build.TRUE if self.loads else lowest_owner(self.registers, thread)
        rows = np.flatnonzero(np.broadcast_to(evaluate(takes_part, names), at.shape))
        width = np.full(len(rows), self.vector_width)
        return Moves(rows // self.threads, rows % self.threads, places[rows], width, (1, 1))


def plan(op: TileOp, context: Context) -> Plan | Decline:
    try:
        registers, memory, loads = register_sides(op, context)
        return _plan(registers, memory, context.count(op.scope), loads)
    except LayoutError as error:
        return Decline((error.message,), error.hint)


def _plan(registers: Side, memory: Side, threads: int, loads: bool) -> Plan:
    edges = edge_dims(memory)
    free = [memory.places[d] not in edges for d in range(len(memory.shape))]
    found = register_digits(registers, memory)
    owned = tuple(a for a in found if isinstance(a.strides[0], Thread))
    own = sorted((a for a in found if not isinstance(a.strides[0], Thread)), key=_register_stride, reverse=True)
    atoms = joined(own, free)
    width = vector_width((registers, memory), (*owned, *atoms), ragged=False)
    counted = vectors(atoms, width.elements)
    return Plan(
        width.elements,
        prod(a.extent for a in counted),
        threads,
        width.limit,
        owned,
        counted,
        registers,
        memory,
        loads,
        edges_of(memory, edges, (*owned, *atoms), width.elements),
        atoms[-1].dim if atoms else None,
    )


def _register_stride(atom: Atom) -> int:
    stride = atom.strides[0]
    assert isinstance(stride, int)
    return abs(stride)


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    thread = b.thread(op.scope, plan.threads)
    zero = build.const(0, int32)
    base = b.let("memory", swizzled(plan.base(thread), plan.memory.swizzle))
    touched = RegisterRun(plan.registers.buffer, plan.register(zero), reach(plan.atoms, 0) + plan.vector_width)
    for (first,) in each_start(b, touched):
        _emit_rounds(plan, op, b, thread, base, first)


def _emit_rounds(plan: Plan, op: TileOp, b: Builder, thread: Expr, base: Expr, first: Expr) -> None:
    mine = build.TRUE if plan.loads else lowest_owner(plan.registers, thread)

    def write(edges: Sequence[Edges]) -> None:
        with b.rounds(plan.rounds, plan.registers.buffer) as trip:
            _emit_vector(plan, op, b, edges[0], (thread, trip), base, first)

    with b.when(mine):
        at_edges(b, [(plan.memory, plan.edges)], plan.rounds, write)


def _emit_vector(
    plan: Plan, op: TileOp, b: Builder, edges: Edges, where: tuple[Expr, Expr], base: Expr, first: Expr
) -> None:
    thread, trip = where
    still = base if plan.memory.swizzle is None else plan.base(thread)
    address = advanced(plan.memory.swizzle, base, still, plan.moved(trip))
    register = build.add(first, reached(plan.registers, 0, plan.atoms, trip))
    values = tuple(plan.values(trip, thread))
    run = Run(plan.memory, edges, address, (*plan.owned, *plan.atoms), values, plan.run_dim)
    if plan.loads:
        load(b, plan.registers.buffer, register, run, 0, plan.vector_width, fill_value(op))
    else:
        store(b, plan.registers.buffer, register, run, 0, plan.vector_width)


VARIANT = Variant(
    "reg",
    ("copy",),
    10,
    (
        KINDS,
        memory_pair(
            "local <-> shared or global",
            ("local", "shared"), ("local", "global"), ("shared", "local"), ("global", "local"),
        ),
    ),
    COPY,
    plan,
    emit,
)  # fmt: skip
