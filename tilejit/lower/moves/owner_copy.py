"""Copies between memory and a local tile of any layout, each owner element by element."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ...dtypes import int32, int64
from ...errors import LayoutError
from ...ir import build
from ...ir.nodes import TRUE, Buffer, Expr, Move, Region, TileOp, Var, Vector
from ...layout import TileLayout
from ...layout.iters import Iter, merged, refined, weights
from ..builder import Builder
from ..plan import Moves, VectorPlan
from ..schedule.addresses import digits
from ..schedule.elements import element_offset
from ..schedule.evaluate import evaluate
from ..schedule.launch import launch_values
from ..schedule.placement import THREADS, Thread, scope_step
from .vectors import access_name, fill_value

__all__ = ["OwnerCopy", "emit_owner_copy", "plan_owner_copy"]


@dataclass(frozen=True, slots=True)
class Digit:
    """One digit of where a local tile's elements live: a step of `stride` among `extent` threads or registers.

    A step is worth `weight` in dimension `dim`; dim is None for replicas.
    """

    extent: int
    stride: int
    dim: int | None
    weight: int


@dataclass(frozen=True, slots=True)
class OwnerCopy(VectorPlan):
    """In round r each thread looks at its register number r of the tile, and moves it where the region holds it.

    spread: digits among the threads, farthest first; own: digits among registers. first_thread, first_register:
    where they count from. loads: whether the registers are the destination.
    """

    spread: tuple[Digit, ...]
    own: tuple[Digit, ...]
    first_thread: int
    first_register: int
    registers: Region
    memory: Region
    loads: bool

    @property
    def vector_bits(self) -> int:
        return self.memory.dtype.bits

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(mnemonic, trips a thread)."""
        verb = "ld" if self.loads else "st"
        return ((access_name(verb, self.memory.buffer.space, 1, self.memory.dtype), self.rounds),)

    def register(self, trip: Expr) -> Expr:
        """The register that a round looks at."""
        total: Expr = build.const(self.first_register, int32)
        for d, value in zip(self.own, self._own(trip), strict=True):
            total = build.add(total, build.mul(value, d.stride))
        return total

    def _own(self, trip: Expr) -> list[Expr]:
        return digits(trip, [d.extent for d in self.own])

    def place(self, trip: Expr, thread: Expr) -> tuple[Expr, list[Expr]]:
        """Whether a thread owns an element of the region there, and that element's index in the region."""
        rest = build.sub(thread, self.first_thread)
        cond = build.greater_equal(rest, 0)
        values: list[Expr] = []
        for d in self.spread:
            values.append(build.floordiv(rest, d.stride))
            cond = build.logical_and(cond, build.less(values[-1], d.extent))
            rest = build.mod(rest, d.stride)
        cond = build.logical_and(cond, build.equal(rest, 0))
        for d, value in zip(self.spread, values, strict=True):
            if d.dim is None and not self.loads:
                cond = build.logical_and(cond, build.equal(value, 0))
        indices: list[Expr] = []
        pairs = [*zip(self.spread, values, strict=True), *zip(self.own, self._own(trip), strict=True)]
        for dim, (start, extent) in enumerate(zip(self.registers.starts, self.registers.extents, strict=True)):
            at = build.sub(build.const(0, int64), build.cast(start, int64))
            for d, value in pairs:
                if d.dim == dim:
                    at = build.add(at, build.mul(build.cast(value, int64), d.weight))
            cond = build.logical_and(cond, build.greater_equal(at, 0))
            cond = build.logical_and(cond, build.less(at, 1 if extent is None else extent))
            indices.append(at)
        return cond, indices

    def indices(self, inner: list[Expr]) -> list[Expr]:
        """The memory buffer's indices of an element by its index in the local region; unit dimensions don't count."""
        kept = iter([i for i, e in zip(inner, self.registers.extents, strict=True) if e not in (1, None)])
        return [
            build.add(build.cast(start, int64), next(kept)) if e not in (1, None) else build.cast(start, int64)
            for start, e in zip(self.memory.starts, self.memory.extents, strict=True)
        ]

    def moves(self) -> Moves:
        at = np.arange(self.rounds * self.threads, dtype=np.int64)
        trip = Var("plan.trip", int32, bounds=(0, self.rounds - 1))
        thread = Var("plan.thread", int32, bounds=(0, self.threads - 1))
        names: dict[str, np.ndarray | int] = {**launch_values((self.memory,)), "plan.trip": at // self.threads}
        names["plan.thread"] = at % self.threads
        cond, inner = self.place(trip, thread)
        address = element_offset(self.memory.buffer, self.indices(inner))
        sides = (self.register(trip), address) if self.loads else (address, self.register(trip))
        places = np.stack([np.broadcast_to(evaluate(e, names), at.shape) for e in sides], axis=1)
        rows = np.flatnonzero(np.broadcast_to(evaluate(cond, names), at.shape))
        width = np.ones(len(rows), np.int64)
        return Moves(rows // self.threads, rows % self.threads, places[rows], width, (1, 1))


def plan_owner_copy(dst: Region, src: Region, scope: str, threads: int) -> OwnerCopy:
    """Looks at every register that a thread holds of the tile.

    raises: LayoutError where threads beyond the scope own the tile, or none by name at a collective scope.
    """
    loads = dst.buffer.space == "local"
    registers, memory = (dst, src) if loads else (src, dst)
    layout = registers.buffer.layout
    assert isinstance(layout, TileLayout)
    found = _digits(registers.buffer, layout)
    spread, own = [], []
    for it, dim, weight in found:
        step = scope_step(it, scope).stride
        if isinstance(step, Thread):
            spread.append(Digit(it.extent, step.stride, dim, weight))
        elif dim is None:
            raise LayoutError(f"{registers.buffer.name} holds each value in several registers of one thread")
        else:
            own.append(Digit(it.extent, it.stride, dim, weight))
    first = sum(v * THREADS[scope].get(a.name, 1) for a, v in layout.offset if a.is_thread)
    spread.sort(key=lambda d: -d.stride)
    _need_apart(registers.buffer, spread, first, scope, threads)
    own.sort(key=lambda d: -d.stride)
    return OwnerCopy(
        1,
        prod(d.extent for d in own),
        threads,
        "each register is looked at by itself",
        tuple(spread),
        tuple(own),
        first,
        sum(v for a, v in layout.offset if not a.is_thread),
        registers,
        memory,
        loads,
    )


def _digits(buffer: Buffer, layout: TileLayout) -> list[tuple[Iter, int | None, int]]:
    shape = tuple(n for n in buffer.shape if isinstance(n, int))
    found: list[tuple[Iter, int | None, int]] = []
    for dim, group in enumerate(refined(layout.shard, shape)):
        run = merged(group)
        found.extend((it, dim, w) for it, w in zip(run, weights([i.extent for i in run]), strict=True))
    found.extend((it, None, 0) for it in layout.replica if it.extent > 1)
    return found


def _need_apart(buffer: Buffer, spread: list[Digit], first: int, scope: str, threads: int) -> None:
    """Raise LayoutError where two elements' threads can't be told apart, or threads are missing."""
    if threads > 1 and not spread:
        raise LayoutError(
            f"{buffer.name} has no thread axes: it is each thread's own, and a {scope} has {threads} threads",
            hint="call the operation on tj.thread, or give the tile a layout with thread axes",
        )
    reach = 1
    for d in reversed(spread):
        if d.stride < reach:
            raise LayoutError(f"several elements of {buffer.name} share a thread and a register")
        reach += (d.extent - 1) * d.stride
    if first + reach > threads:
        raise LayoutError(f"{buffer.name} is owned by threads up to {first + reach - 1}; a {scope} has {threads}")


def emit_owner_copy(plan: OwnerCopy, op: TileOp, b: Builder) -> None:
    thread = b.thread(op.scope, plan.threads)
    with b.rounds(plan.rounds, plan.registers.buffer) as trip:
        cond, inner = plan.place(trip, thread)
        with b.when(cond):
            indices = plan.indices(inner)
            memory = Vector(plan.memory.buffer, element_offset(plan.memory.buffer, indices))
            register = Vector(plan.registers.buffer, plan.register(trip))
            inside = _inside(plan.memory, indices)
            if not plan.loads:
                b.append(Move(memory, register, None if inside == TRUE else inside, span=b.span))
            elif inside == TRUE:
                b.append(Move(register, memory, span=b.span))
            else:
                b.append(Move(register, memory, inside, fill_value(op), span=b.span))


def _inside(region: Region, indices: list[Expr]) -> Expr:
    """Whether an element lies inside its global tensor."""
    cond: Expr = TRUE
    if region.in_bounds or region.buffer.space != "global":
        return cond
    for at, size in zip(indices, region.buffer.shape, strict=True):
        cond = build.logical_and(cond, build.greater_equal(at, 0))
        cond = build.logical_and(cond, build.less(at, size))
    return cond
