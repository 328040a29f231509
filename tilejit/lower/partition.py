"""Copies from memory to memory, shared out evenly among the threads of a scope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ..dtypes import int32
from ..ir import build
from ..ir.nodes import Buffer, Const, Expr, TileOp, Var
from .access import vector_width
from .addresses import adds_up, advanced, digits, edge_dims, origin, reached, swizzled
from .atoms import Atom, joined, refine, vectors
from .builder import Builder
from .evaluate import evaluate
from .launch import launch_values
from .moves import Edges, Run, access_name, edges_of, fill_value, load, pieces, store
from .regions import Scaled, Side

__all__ = ["MemoryCopy", "emit_memory_copy", "plan_memory_copy"]


@dataclass(frozen=True, slots=True)
class MemoryCopy:
    """Vector v of the region is moved in round v // threads by thread v % threads; the last round may be partial.

    vector_width: elements of one access. rounds: accesses a thread, at most. threads: of the scope.
    count: vectors. tail: elements of the last vector of each run, vector_width where none is a part.
    atoms: the digits of v, on (destination, source). limit: why vectors aren't wider.
    run_dim: the region's dimension along which vectors run, None where it spans several.
    """

    vector_width: int
    rounds: int
    threads: int
    count: int
    tail: int
    atoms: tuple[Atom, ...]
    dst: Side
    src: Side
    edges: tuple[Edges, Edges]
    run_dim: int | None
    limit: str

    @property
    def vector_bits(self) -> int:
        return self.vector_width * self.dst.buffer.dtype.bits

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(mnemonic, trips a thread); the narrower accesses of a partial vector aren't counted."""
        found = []
        for verb, side, edges in (("ld", self.src, self.edges[1]), ("st", self.dst, self.edges[0])):
            width = self.vector_width if edges.whole else 1
            name = access_name(verb, side.buffer.space, width, side.buffer.dtype)
            found.append((name, self.rounds * self.vector_width // width))
        return tuple(found)

    def values(self, vector: Expr) -> list[Expr]:
        """The digits of `atoms` for one vector."""
        return digits(vector, [a.extent for a in self.atoms])

    def addresses(self, vector: Expr) -> tuple[Expr, Expr]:
        """Where a vector goes and where it comes from, after swizzling."""
        dst, src = (self.linear(column, vector) for column in (0, 1))
        return swizzled(dst, self.dst.swizzle), swizzled(src, self.src.swizzle)

    def linear(self, column: int, vector: Expr) -> Expr:
        """The address of a vector on one side (0: destination) before swizzling."""
        side = (self.dst, self.src)[column]
        return build.add(origin(side), reached(side, column, self.atoms, vector))

    def schedule(self) -> np.ndarray:
        """One row a vector: (round, thread, source element, destination element), rounds outermost.

        Run-time starts count as 0; run-time strides as those of a row-major tensor.
        """
        return self.transfers()[:, :4]

    def transfers(self) -> np.ndarray:
        """As `schedule`, with the elements that are moved as a fifth column."""
        vector = np.arange(self.count, dtype=np.int64)
        var = Var("vector", int32, bounds=(0, max(self.count - 1, 0)))
        known: dict[str, np.ndarray | int] = {**launch_values((self.dst.region, self.src.region)), "vector": vector}
        dst, src = (np.broadcast_to(evaluate(e, known), vector.shape) for e in self.addresses(var))
        width = np.full_like(vector, self.vector_width)
        if self.tail != self.vector_width:
            last = self.atoms[-1].extent
            width[vector % last == last - 1] = self.tail
        return np.stack([vector // self.threads, vector % self.threads, src, dst, width], axis=1)


def plan_memory_copy(dst: Side, src: Side, threads: int, *, vectorized: bool) -> MemoryCopy:
    """The widest vectors that are provable, counted along the global side's order.

    vectorized: False moves element by element.
    raises: LayoutError where the sides can't be put side by side.
    """
    sides = (dst, src)
    edges = tuple(edge_dims(s) for s in sides)
    free = [not any(s.places[d] in e for s, e in zip(sides, edges, strict=True)) for d in range(len(dst.shape))]
    lead = 1 if src.buffer.space == "global" else 0
    atoms = joined(_ordered(refine(sides), lead), free)
    found = vector_width(sides, atoms, ragged=True)
    width = found.elements if vectorized else 1
    counted = vectors(atoms, width)
    count = prod(a.extent for a in counted)
    tail = (atoms[-1].extent % width or width) if atoms else 1
    return MemoryCopy(
        width,
        -(-count // threads),
        threads,
        count,
        tail,
        counted,
        dst,
        src,
        (edges_of(dst, edges[0], atoms, width), edges_of(src, edges[1], atoms, width)),
        atoms[-1].dim if atoms else None,
        found.limit,
    )


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


def emit_memory_copy(plan: MemoryCopy, op: TileOp, b: Builder) -> None:
    """A serial loop over whole rounds, then the partial one."""
    thread = b.thread(op.scope, plan.threads)
    registers = b.scratch(op.name, plan.dst.buffer.dtype, plan.vector_width)
    whole, rest = divmod(plan.count, plan.threads)
    bases = [_base(plan, column, thread, b) for column in (0, 1)]
    if whole:
        with b.loop("round", whole, unrolled=False) as trip:
            _emit_vector(plan, op, b, registers, bases, thread, build.mul(trip, plan.threads))
    if rest:
        first = build.const(whole * plan.threads, int32)
        with b.when(build.less(thread, rest)):
            _emit_vector(plan, op, b, registers, bases, thread, first)


def _base(plan: MemoryCopy, column: int, thread: Expr, b: Builder) -> Expr | None:
    """The address of a thread's vector in round 0; None where later rounds don't add to it."""
    trip = Var("trip", int32, bounds=(0, plan.rounds))
    if plan.rounds > 1 and not adds_up(column, plan.atoms, build.mul(trip, plan.threads), thread):
        return None
    side = (plan.dst, plan.src)[column]
    return b.let(("dst", "src")[column], swizzled(plan.linear(column, thread), side.swizzle))


def _emit_vector(
    plan: MemoryCopy,
    op: TileOp,
    b: Builder,
    registers: Buffer,
    bases: Sequence[Expr | None],
    thread: Expr,
    first: Expr,
) -> None:
    values = tuple(plan.values(build.add(first, thread)))
    dst, src = (
        Run(side, edges, _address(plan, column, bases[column], thread, first), plan.atoms, values, plan.run_dim)
        for column, (side, edges) in enumerate(zip((plan.dst, plan.src), plan.edges, strict=True))
    )
    zero, fill = build.const(0, int32), fill_value(op)

    def move(start: int, width: int) -> None:
        load(b, registers, zero, src, start, width, fill)
        store(b, registers, zero, dst, start, width)

    if plan.tail == plan.vector_width:
        move(0, plan.vector_width)
        return
    with b.either(build.less(values[-1], plan.atoms[-1].extent - 1)) as otherwise:
        move(0, plan.vector_width)
        with otherwise:
            for start, width in pieces(plan.tail):
                move(start, width)


def _address(plan: MemoryCopy, column: int, base: Expr | None, thread: Expr, first: Expr) -> Expr:
    """The address of vector `first` + `thread`."""
    side = (plan.dst, plan.src)[column]
    if base is None:
        return swizzled(plan.linear(column, build.add(first, thread)), side.swizzle)
    if isinstance(first, Const) and first.value == 0:
        return base
    return advanced(side.swizzle, base, plan.linear(column, thread), reached(side, column, plan.atoms, first))
