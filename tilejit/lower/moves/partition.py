"""Work on memory, shared out evenly among the threads of a scope.

A copy of 2 rows of 20 float32 by 4 threads, in vectors of 4, v the vector's number:

    row 0    v 0    1    2    3    4        round 0: threads 0 to 3 take v 0 to 3
    row 1    v 5    6    7    8    9        round 1: they take v 4 to 7
                                            round 2: threads 0 and 1 take v 8 and 9

Rows of 18 have 5 vectors too, of which the last has a tail of 2 elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ...dtypes import int32
from ...ir.arithmetic import build
from ...ir.nodes import Const, Expr, TileOp
from ..builder import Builder
from ..plan import Moves, VectorPlan
from ..schedule.strides import Scaled
from ..schedule.turns import Turns
from ..schedule.views import Digit, Schedule
from ..schedule.windows import Edges, Mask
from .vectors import Run, at_edges, fill_value, load, pieces, store

__all__ = ["Partition", "emit_copy", "emit_partition", "plan_partition"]


@dataclass(frozen=True, slots=True)
class Partition(VectorPlan):
    """Vector v of the region is handled in round v // threads by thread v % threads; the last round may be partial.

    count: vectors. elements: the index that counts elements, in the order in which they are handled; vectors: that
    which counts v. The first of their operands is the destination. single: those of which a vector takes one element.
    """

    count: int
    elements: Schedule
    vectors: Schedule
    single: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return self.elements.names

    @property
    def tail(self) -> int:
        """Elements of the last vector of each run, vector_width where none is a part."""
        return (self.elements.digits[-1].extent % self.vector_width or self.vector_width) if self.elements.digits else 1

    @property
    def vector_bits(self) -> int:
        return self.vector_width * self.elements[self.names[0]].buffer.dtype.bits

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(mnemonic, trips a thread); the narrower accesses at edges and of partial vectors aren't counted."""
        dst, *inputs = self.names
        accesses = [*(("ld", name) for name in inputs), ("st", dst)]
        return tuple((self._access(verb, name), self.rounds) for verb, name in accesses)

    def _access(self, verb: str, name: str) -> str:
        return self.elements[name].access(verb, 1 if name in self.single else self.vector_width)

    def edges(self, name: str) -> Edges:
        """The edges that an operand may pass."""
        return Edges.of(self.elements[name], self.vector_width)

    def moves(self) -> Moves:
        turns = Turns(self.count, 1, [view.placement.region for view in self.vectors.views])
        vector = turns.rounds_of
        places = turns.values(*(view.address(turns.round) for view in self.vectors.views))
        width = np.full_like(vector, self.vector_width)
        if self.tail != self.vector_width:
            last = -(-self.elements.digits[-1].extent // self.vector_width)
            width[vector % last == last - 1] = self.tail
        steps = tuple(0 if name in self.single else 1 for name in self.names)
        return Moves(vector // self.threads, vector % self.threads, places, width, steps)


def plan_partition(
    schedule: Schedule, threads: int, lead: str, *, vectorized: bool, broadcasts: bool = False
) -> Partition:
    """The widest vectors that are provable, counted along the order of operand `lead`.

    vectorized: False handles element by element. broadcasts: one element of an input may serve a whole vector.
    """
    elements = _ordered(schedule, lead).joined()
    inputs = elements.names[1:] if broadcasts and elements.digits else ()
    single = tuple(name for name in inputs if elements.digits[-1][name] == 0)
    provable = elements.among([name for name in elements.names if name not in single]).vector_width(ragged=True)
    width = provable.elements if vectorized else 1
    vectors = elements.vectors(width)
    rounds = -(-vectors.count // threads)
    limit = provable.limit if vectorized else "goes element by element"
    return Partition(width, rounds, threads, limit, vectors.count, elements, vectors, single)


def _ordered(schedule: Schedule, lead: str) -> Schedule:
    """Slowest first as memory lies on one side; in logical order where that isn't known, stride 1 last."""
    if any(digit.is_folded for digit in schedule.digits):
        return schedule
    if any(isinstance(digit[lead], Scaled) for digit in schedule.digits):
        return schedule.ordered(lambda digit: digit[lead] != 1)
    return schedule.ordered(lambda digit: _slowness(digit, lead))


def _slowness(digit: Digit, lead: str) -> float:
    stride = digit.elements(lead)
    # what doesn't move can't be the fastest
    return abs(stride) if stride else float("inf")


def emit_copy(plan: Partition, op: TileOp, b: Builder) -> None:
    """A load of "src" and a store to "dst" for each vector."""
    registers = b.scratch(op.name, plan.elements["dst"].buffer.dtype, plan.vector_width)
    zero, fill = build.const(0, int32), fill_value(op)

    def step(runs: Mapping[str, Run], start: int, width: int) -> None:
        load(b, registers, zero, runs["src"], start, width, fill)
        store(b, registers, zero, runs["dst"], start, width)

    emit_partition(plan, op, b, step)


#: as many rounds are written out: LLVM needs a third less time for two rounds than for a loop of two
_UNROLLED = 2

#: (one vector of each operand, first element of it, how many elements)
Step = Callable[[Mapping[str, Run], int, int], None]


def emit_partition(
    plan: Partition, op: TileOp, b: Builder, step: Step, *, unrolled: bool = False, twice: bool = True
) -> None:
    """Whole rounds in a loop, or few written out, then the partial one; `step` writes what is done with one vector.

    twice: whether regions inside their tensors may get code of their own, without masks.
    """
    thread = b.thread(op.scope, plan.threads)
    bases = {name: _base(plan, name, thread, b) for name in plan.names}

    def write(masks: Mapping[str, Mask]) -> None:
        _Rounds(plan, b, bases, masks, thread, step).write(unrolled)

    if twice:
        at_edges(b, plan.elements.views, plan.vector_width, plan.rounds, write)
    else:
        # with 64-bit tests in its loop the product of `examples/matmul.py` is 2 to 7 % slower (H100, bench_matmul.py)
        write({name: plan.edges(name).clamped(b) for name in plan.names})


@dataclass(frozen=True, slots=True)
class Base:
    """Where a thread's vector of round 0 lies in one operand: `address`, and `plain` before swizzling."""

    address: Expr
    plain: Expr


def _base(plan: Partition, name: str, thread: Expr, b: Builder) -> Base | None:
    """None where later rounds don't add to it."""
    view = plan.vectors[name]
    if plan.rounds > 1 and not view.adds_up(plan.threads, plan.rounds * plan.threads):
        return None
    plain = view.located(thread)
    return Base(b.let("dst" if name == plan.names[0] else "src", view.swizzled(plain)), plain)


@dataclass(frozen=True, slots=True)
class _Rounds:
    """The statements of all rounds, for one kind of edges."""

    plan: Partition
    b: Builder
    bases: Mapping[str, Base | None]
    masks: Mapping[str, Mask]
    thread: Expr
    step: Step

    def write(self, unrolled: bool) -> None:
        plan, b = self.plan, self.b
        whole, partial = divmod(plan.count, plan.threads)
        if whole:
            with b.loop("round", whole, unrolled=unrolled or whole <= _UNROLLED) as trip:
                self._vector(build.mul(trip, plan.threads))
        if partial:
            with b.when(build.less(self.thread, partial)):
                self._vector(build.const(whole * plan.threads, int32))

    def _vector(self, first: Expr) -> None:
        """What a thread does with vector `first` + its number."""
        plan, step = self.plan, self.step
        values = plan.vectors.digits_of(build.add(first, self.thread))
        runs = {
            view.name: Run(view, self.masks[view.name], self._address(view.name, first), values)
            for view in plan.vectors.views
        }
        if plan.tail == plan.vector_width:
            step(runs, 0, plan.vector_width)
            return
        with self.b.either(build.less(values[-1], plan.vectors.digits[-1].extent - 1)) as otherwise:
            step(runs, 0, plan.vector_width)
            with otherwise:
                for start, width in pieces(plan.tail):
                    step(runs, start, width)

    def _address(self, name: str, first: Expr) -> Expr:
        view, base = self.plan.vectors[name], self.bases[name]
        if base is None:
            return view.address(build.add(first, self.thread))
        if isinstance(first, Const) and first.value == 0:
            return base.address
        return view.advanced(base.address, base.plain, view.steps(first))
