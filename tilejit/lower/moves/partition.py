"""Work on memory, shared out evenly among the threads of a scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ...dtypes import int32
from ...ir import build
from ...ir.nodes import Const, Expr, TileOp, Var
from ..builder import Builder
from ..plan import Moves, VectorPlan
from ..schedule.addresses import adds_up, advanced, digits, edge_dims, located, reached, swizzled
from ..schedule.evaluate import evaluate
from ..schedule.launch import launch_values
from ..schedule.placement import Scaled, Side
from ..schedule.schedule import Atom, joined, refine, vectors
from ..schedule.width import vector_width
from .vectors import Edges, Run, access_name, at_edges, edges_of, fill_value, load, pieces, store

__all__ = ["Partition", "emit_copy", "emit_partition", "plan_partition"]


@dataclass(frozen=True, slots=True)
class Partition(VectorPlan):
    """Vector v of the region is handled in round v // threads by thread v % threads; the last round may be partial.

    count: vectors. tail: elements of the last vector of each run, vector_width where none is a part.
    atoms: the digits of v, on `sides`, the destination first.
    run_dim: the region's dimension along which vectors run, None where it spans several.
    single: for each side whether a vector takes one element of it.
    """

    count: int
    tail: int
    atoms: tuple[Atom, ...]
    sides: tuple[Side, ...]
    edges: tuple[Edges, ...]
    single: tuple[bool, ...]
    run_dim: int | None

    @property
    def vector_bits(self) -> int:
        return self.vector_width * self.sides[0].buffer.dtype.bits

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(mnemonic, trips a thread); the narrower accesses at edges and of partial vectors aren't counted."""
        order = (*range(1, len(self.sides)), 0)
        return tuple((self._access(k), self.rounds) for k in order)

    def _access(self, column: int) -> str:
        buffer = self.sides[column].buffer
        width = 1 if self.single[column] else self.vector_width
        return access_name("st" if column == 0 else "ld", buffer.space, width, buffer.dtype)

    def values(self, vector: Expr) -> list[Expr]:
        """The digits of `atoms` for one vector."""
        return digits(vector, [a.extent for a in self.atoms])

    def linear(self, column: int, vector: Expr) -> Expr:
        """The address of a vector on one side before swizzling."""
        return located(self.sides[column], column, self.atoms, vector)

    def address(self, column: int, vector: Expr) -> Expr:
        """The address of a vector on one side."""
        return swizzled(self.linear(column, vector), self.sides[column].swizzle)

    def moves(self) -> Moves:
        vector = np.arange(self.count, dtype=np.int64)
        var = Var("plan.vector", int32, bounds=(0, max(self.count - 1, 0)))
        names: dict[str, np.ndarray | int] = {**launch_values([s.region for s in self.sides]), "plan.vector": vector}
        places = [np.broadcast_to(evaluate(self.address(k, var), names), vector.shape) for k in range(len(self.sides))]
        width = np.full_like(vector, self.vector_width)
        if self.tail != self.vector_width:
            last = self.atoms[-1].extent
            width[vector % last == last - 1] = self.tail
        steps = tuple(0 if one else 1 for one in self.single)
        return Moves(vector // self.threads, vector % self.threads, np.stack(places, axis=1), width, steps)


def plan_partition(
    sides: tuple[Side, ...], threads: int, lead: int, *, vectorized: bool, broadcasts: bool = False
) -> Partition:
    """The widest vectors that are provable, counted along the order of side `lead`.

    vectorized: False handles element by element. broadcasts: one element of an input may serve a whole vector.
    raises: LayoutError where the sides can't be put side by side.
    """
    edges = tuple(edge_dims(s) for s in sides)
    free = [not any(s.places[d] in e for s, e in zip(sides, edges, strict=True)) for d in range(len(sides[0].shape))]
    atoms = joined(_ordered(refine(sides), lead), free)
    single = tuple(broadcasts and k > 0 and bool(atoms) and atoms[-1].strides[k] == 0 for k in range(len(sides)))
    moving = [k for k, one in enumerate(single) if not one]
    found = vector_width([sides[k] for k in moving], _columns(atoms, moving), ragged=True)
    width = found.elements if vectorized else 1
    counted = vectors(atoms, width)
    count = prod(a.extent for a in counted)
    return Partition(
        width,
        -(-count // threads),
        threads,
        found.limit if vectorized else "goes element by element",
        count,
        (atoms[-1].extent % width or width) if atoms else 1,
        counted,
        sides,
        tuple(edges_of(s, e, atoms, width) for s, e in zip(sides, edges, strict=True)),
        single,
        atoms[-1].dim if atoms else None,
    )


def _columns(atoms: Sequence[Atom], chosen: Sequence[int]) -> list[Atom]:
    """The same digits on some of the sides only."""
    return [Atom(a.extent, tuple(a.strides[k] for k in chosen), a.dim, a.weight) for a in atoms]


def _ordered(atoms: tuple[Atom, ...], lead: int) -> tuple[Atom, ...]:
    """Slowest first as memory lies on side `lead`; in logical order where that isn't known, stride 1 last."""
    if any(a.is_folded for a in atoms):
        return atoms
    if any(isinstance(a.strides[lead], Scaled) for a in atoms):
        return tuple(sorted(atoms, key=lambda a: a.strides[lead] == 1))
    return tuple(sorted(atoms, key=lambda a: _slowness(a, lead), reverse=True))


def _slowness(atom: Atom, lead: int) -> float:
    stride = atom.strides[lead]
    assert isinstance(stride, int)
    # what doesn't move can't be the fastest
    return abs(stride) if stride else float("inf")


# ---- emission -----------------------------------------------------------------------------------------------


def emit_copy(plan: Partition, op: TileOp, b: Builder) -> None:
    """From the second side to the first, through registers."""
    registers = b.scratch(op.name, plan.sides[0].buffer.dtype, plan.vector_width)
    zero, fill = build.const(0, int32), fill_value(op)

    def step(runs: Sequence[Run], start: int, width: int) -> None:
        load(b, registers, zero, runs[1], start, width, fill)
        store(b, registers, zero, runs[0], start, width)

    emit_partition(plan, op, b, step)


#: as many rounds are written out: LLVM needs a third less time for two rounds than for a loop of two
_UNROLLED = 2

#: (one vector on each side, first element of it, how many elements)
Step = Callable[[Sequence[Run], int, int], None]


def emit_partition(
    plan: Partition, op: TileOp, b: Builder, step: Step, *, unrolled: bool = False, twice: bool = True
) -> None:
    """Whole rounds in a loop, or few written out, then the partial one; `step` writes what is done with one vector.

    twice: whether regions inside their tensors may get code of their own, without predicates.
    """
    thread = b.thread(op.scope, plan.threads)
    bases = [_base(plan, column, thread, b) for column in range(len(plan.sides))]

    def write(edges: Sequence[Edges]) -> None:
        _emit_rounds(replace(plan, edges=tuple(edges)), b, bases, thread, step, unrolled)

    if twice:
        at_edges(b, list(zip(plan.sides, plan.edges, strict=True)), plan.rounds, write)
    else:
        write(plan.edges)


def _emit_rounds(
    plan: Partition, b: Builder, bases: Sequence[Base | None], thread: Expr, step: Step, unrolled: bool
) -> None:
    whole, rest = divmod(plan.count, plan.threads)
    if whole:
        with b.loop("round", whole, unrolled=unrolled or whole <= _UNROLLED) as trip:
            _emit_vector(plan, b, bases, thread, build.mul(trip, plan.threads), step)
    if rest:
        first = build.const(whole * plan.threads, int32)
        with b.when(build.less(thread, rest)):
            _emit_vector(plan, b, bases, thread, first, step)


@dataclass(frozen=True, slots=True)
class Base:
    """Where a thread's vector of round 0 lies on one side: `address`, and `linear` before swizzling."""

    address: Expr
    linear: Expr


def _base(plan: Partition, column: int, thread: Expr, b: Builder) -> Base | None:
    """None where later rounds don't add to it."""
    if plan.rounds > 1 and not adds_up(column, plan.atoms, plan.threads, plan.rounds * plan.threads):
        return None
    linear = plan.linear(column, thread)
    return Base(b.let("src" if column else "dst", swizzled(linear, plan.sides[column].swizzle)), linear)


def _emit_vector(
    plan: Partition, b: Builder, bases: Sequence[Base | None], thread: Expr, first: Expr, step: Step
) -> None:
    values = tuple(plan.values(build.add(first, thread)))
    runs = [
        Run(side, edges, _address(plan, column, bases[column], first, thread), plan.atoms, values, plan.run_dim)
        for column, (side, edges) in enumerate(zip(plan.sides, plan.edges, strict=True))
    ]
    if plan.tail == plan.vector_width:
        step(runs, 0, plan.vector_width)
        return
    with b.either(build.less(values[-1], plan.atoms[-1].extent - 1)) as otherwise:
        step(runs, 0, plan.vector_width)
        with otherwise:
            for start, width in pieces(plan.tail):
                step(runs, start, width)


def _address(plan: Partition, column: int, base: Base | None, first: Expr, thread: Expr) -> Expr:
    """The address of vector `first` + `thread`."""
    if base is None:
        return plan.address(column, build.add(first, thread))
    if isinstance(first, Const) and first.value == 0:
        return base.address
    side = plan.sides[column]
    return advanced(side.swizzle, base.address, base.linear, reached(side, column, plan.atoms, first))
