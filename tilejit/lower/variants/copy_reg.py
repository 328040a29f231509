"""copy between registers and shared or global memory, each thread its own part.

accepts: one side local and owned by exactly the threads of the scope (replicas count), the other shared or global;
    equal dtypes and shapes; layouts with common digits.
emits: the widest vectors that are contiguous in memory and in registers alike and provably aligned, unrolled unless
    the tile is in local memory. All owners of a replicated tile load it, the lowest one stores it.
source: DISPATCH 5 and 13; Apache TVM, TIRx `vec_auto`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import Expr, TileOp
from ..builder import Builder
from ..conditions import COPY, KINDS, memory_pair
from ..engine import Decline, DispatchContext, Variant
from ..moves.register_copy import register_copy
from ..moves.vectors import Run, at_edges, fill_value, load, store
from ..plan import Moves, VectorPlan
from ..schedule.registers import each_start
from ..schedule.turns import Turns
from ..schedule.views import Schedule, View
from ..schedule.windows import Mask


@dataclass(frozen=True, slots=True)
class Plan(VectorPlan):
    """In round r each thread moves its vector r, counted along its registers.

    threads_share: the digits spread over threads. elements: those of a thread's registers, the last along a vector;
    vectors: those of r. All lead in "registers" and "memory".
    loads: whether the registers are the destination.
    """

    threads_share: Schedule
    elements: Schedule
    vectors: Schedule
    loads: bool

    @property
    def registers(self) -> View:
        return self.vectors["registers"]

    @property
    def memory(self) -> View:
        return self.vectors["memory"]

    @property
    def vector_bits(self) -> int:
        return self.vector_width * self.memory.buffer.dtype.bits

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(mnemonic, trips a thread); the narrower accesses at edges aren't counted."""
        verb = "ld" if self.loads else "st"
        return ((self.memory.access(verb, self.vector_width), self.rounds),)

    def first(self, thread: Expr) -> Expr:
        """Where a thread's first vector lies in memory, before swizzling."""
        return self.threads_share["memory"].at(self.threads_share["registers"].of_thread(thread))

    def takes_part(self, thread: Expr) -> Expr:
        """Whether a thread moves anything: all owners of a value load it, the lowest stores it."""
        return build.TRUE if self.loads else self.registers.placement.lowest_owner(thread)

    def moves(self) -> Moves:
        turns = Turns(self.rounds, self.threads, (self.memory.placement.region,))
        address = self.memory.swizzled(build.add(self.first(turns.thread), self.memory.steps(turns.round)))
        register = self.registers.located(turns.round)
        places = turns.values(register, address) if self.loads else turns.values(address, register)
        rows = turns.holding(self.takes_part(turns.thread))
        width = np.full(len(rows), self.vector_width)
        return Moves(turns.rounds_of[rows], turns.threads_of[rows], places[rows], width, (1, 1))


def plan(op: TileOp, context: DispatchContext) -> Plan | Decline:
    try:
        schedule, loads = register_copy(op, context)
    except LayoutError as error:
        return Decline((error.message,), error.hint)
    threads_share = schedule.where(lambda digit: digit.is_spread("registers"))
    elements = schedule.where(lambda digit: not digit.is_spread("registers"))
    elements = elements.ordered(lambda digit: abs(digit.elements("registers"))).joined()
    width = threads_share.then(elements).vector_width(ragged=False)
    vectors = elements.vectors(width.elements)
    threads = context.count(op.scope)
    return Plan(width.elements, vectors.count, threads, width.limit, threads_share, elements, vectors, loads)


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    registers, memory = plan.registers, plan.memory
    thread = b.thread(op.scope, plan.threads)
    base = b.let("memory", memory.swizzled(plan.first(thread)))
    elements = plan.threads_share.then(plan.elements)["memory"]
    for (first,) in each_start(b, registers.touched(plan.vector_width)):

        def write(masks: Mapping[str, Mask], first: Expr = first) -> None:
            with b.rounds(plan.rounds, registers.buffer) as trip:
                run = _run(plan, masks["memory"], thread, trip, base)
                _emit_vector(plan, op, b, run, build.add(first, registers.steps(trip)))

        with b.when(plan.takes_part(thread)):
            at_edges(b, [elements], plan.vector_width, plan.rounds, write)


def _run(plan: Plan, mask: Mask, thread: Expr, trip: Expr, base: Expr) -> Run:
    """The vector of a round in memory; `base` is where that of round 0 lies."""
    every = plan.threads_share.then(plan.vectors)
    plain = base if plan.memory.placement.swizzle is None else plan.first(thread)
    address = plan.memory.advanced(base, plain, plan.memory.steps(trip))
    values = [*plan.threads_share["registers"].of_thread(thread), *plan.vectors.digits_of(trip)]
    return Run(every["memory"], mask, address, values)


def _emit_vector(plan: Plan, op: TileOp, b: Builder, run: Run, register: Expr) -> None:
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
)
