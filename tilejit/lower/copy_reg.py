"""copy between registers and shared or global memory, each thread its own part.

accepts: one side local and owned by exactly the threads of the scope (replicas count), the other shared or global;
    equal dtypes and shapes; layouts with common digits.
emits: the widest vectors that are contiguous in memory and in registers alike and provably aligned, unrolled. All
    owners of a replicated tile load it, the lowest one stores it.
source: DISPATCH 5 and 13; Apache TVM, TIRx `vec_auto`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ..dtypes import int32
from ..errors import LayoutError
from ..ir import build
from ..ir.nodes import Const, Expr, TileOp, Var
from .access import vector_width
from .addresses import advanced, along, digits, edge_dims, index_dtype, located, offsets, reached, steps, swizzled
from .atoms import Atom, joined, reach, vectors
from .builder import Builder
from .conditions import COPY, memory_pair
from .elements import possible_starts
from .engine import Context, Decline, Variant
from .evaluate import evaluate
from .launch import launch_values
from .moves import Edges, Run, access_name, at_edges, edges_of, fill_value, load, store
from .owners import lowest_owner, thread_digit
from .regions import Side, Thread
from .register_sides import register_digits, register_sides


@dataclass(frozen=True, slots=True)
class Plan:
    """In round r each thread moves its vector r, counted along its registers.

    vector_width: elements of one access. rounds: accesses a thread. threads: of the scope.
    owned: the digits spread over threads; atoms: those of r. Both on (registers, memory).
    loads: whether the registers are the destination. limit: why vectors aren't wider.
    run_dim: the region's dimension along which vectors run, None where it spans several.
    """

    vector_width: int
    rounds: int
    threads: int
    owned: tuple[Atom, ...]
    atoms: tuple[Atom, ...]
    registers: Side
    memory: Side
    loads: bool
    edges: Edges
    run_dim: int | None
    limit: str

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

    def schedule(self) -> np.ndarray:
        """One row a transfer: (round, thread, source element, destination element), rounds outermost.

        Run-time starts count as 0; run-time strides as those of a row-major tensor.
        """
        return self.transfers()[:, :4]

    def transfers(self) -> np.ndarray:
        """As `schedule`, with the elements that are moved as a fifth column."""
        at = np.arange(self.rounds * self.threads, dtype=np.int64)
        trip = Var("plan.trip", int32, bounds=(0, self.rounds - 1))
        thread = Var("plan.thread", int32, bounds=(0, self.threads - 1))
        known: dict[str, np.ndarray | int] = {**launch_values((self.memory.region,))}
        known |= {"plan.trip": at // self.threads, "plan.thread": at % self.threads}
        address = swizzled(build.add(self.base(thread), self.moved(trip)), self.memory.swizzle)
        rows = [evaluate(e, known) for e in (trip, thread, address, self.register(trip))]
        if not self.loads:
            rows[2], rows[3] = rows[3], rows[2]
        table = np.stack([np.broadcast_to(c, at.shape) for c in (*rows, np.int64(self.vector_width))], axis=1)
        if self.loads:
            return table
        mine = np.broadcast_to(evaluate(lowest_owner(self.registers, thread), known), at.shape)
        return np.asarray(table[mine])


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
        owned,
        counted,
        registers,
        memory,
        loads,
        edges_of(memory, edges, (*owned, *atoms), width.elements),
        atoms[-1].dim if atoms else None,
        width.limit,
    )


def _register_stride(atom: Atom) -> int:
    stride = atom.strides[0]
    assert isinstance(stride, int)
    return abs(stride)


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    thread = b.thread(op.scope, plan.threads)
    zero = build.const(0, int32)
    base = b.let("memory", swizzled(plan.base(thread), plan.memory.swizzle))
    first = plan.register(zero)
    if isinstance(first, Const):
        _emit_rounds(plan, op, b, thread, base, first)
        return
    # registers have no addresses: one copy for each register that the region may start at
    first = b.let("register", first)
    for start in possible_starts(plan.registers.buffer, first, reach(plan.atoms, 0) + plan.vector_width):
        with b.when(build.equal(first, start)):
            _emit_rounds(plan, op, b, thread, base, build.const(start, int32))


def _emit_rounds(plan: Plan, op: TileOp, b: Builder, thread: Expr, base: Expr, first: Expr) -> None:
    mine = build.TRUE if plan.loads else lowest_owner(plan.registers, thread)

    def write(edges: Sequence[Edges]) -> None:
        with b.loop("round", plan.rounds, unrolled=True) as trip:
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
        *COPY,
        memory_pair(
            "local <-> shared or global",
            ("local", "shared"), ("local", "global"), ("shared", "local"), ("global", "local"),
        ),
    ),
    plan,
    emit,
)  # fmt: skip
