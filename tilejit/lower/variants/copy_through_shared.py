"""copy between local tiles whose elements change threads: through shared memory of the operation's own.

accepts: two local tiles of equal dtypes and shapes, any layouts, replicas and padding; parts at constant starts.
emits: the lowest owners store the source; a barrier of the scope; every owner loads the destination, both in vectors
    where registers follow each other. The memory is dense, its fastest dimension and its swizzle those with the fewest
    wavefronts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from ...errors import LayoutError
from ...ir.allocation import alignment
from ...ir.arithmetic import build
from ...ir.nodes import Buffer, Region, Sync, TileOp
from ...layout import Swizzle, TileLayout
from ...layout.iters import Iter
from ...scopes import SCOPES, THREAD
from ..builder import Builder, instances_of
from ..moves.conversion import BETWEEN_TILES, CONVERSION_CONDITIONS
from ..moves.wavefronts import wavefronts
from ..schedule.turns import Turns
from ..variant import Array, Condition, DispatchContext, Facts, Plan, Staged, Variant
from . import copy_fallback, copy_reg

Half = copy_reg.Plan | copy_fallback.Plan

#: for so many threads and rounds wavefronts are counted
_COUNTED_THREADS, _COUNTED_ROUNDS = 64, 8


@dataclass(frozen=True, slots=True)
class Exchange(Plan):
    """The source is stored to `memory`, one instance's part of it, from which the destination is loaded.

    store, load: the two copies, each with how it is carried out in `context`.
    """

    context: DispatchContext
    memory: TileLayout
    store: tuple[TileOp, Half]
    load: tuple[TileOp, Half]

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        return (*self.store[1].instructions, *self.load[1].instructions)

    def facts(self) -> Facts:
        store, load = self.store[1].facts(), self.load[1].facts()
        return Facts(f"{store.width}, {load.width}", store.rounds + load.rounds)

    def moves(self) -> Staged:
        return Staged((self.store, self.load))

    def schedule(self) -> Array:
        """One row a vector: (0 of the store or 1 of the load, round, thread, place on the source, the destination)."""
        tables = [plan.schedule() for _, plan in (self.store, self.load)]
        return np.concatenate([np.insert(table, 0, k, axis=1) for k, table in enumerate(tables)])


def _several_threads(op: TileOp, context: DispatchContext) -> str | None:
    return "a thread has nobody to hand its registers to" if SCOPES[op.scope] is THREAD else None


def plan(op: TileOp, context: DispatchContext) -> Exchange:
    return min(_plans(op, context), key=lambda counted: counted[0])[1]


def _plans(op: TileOp, context: DispatchContext) -> Iterator[tuple[tuple[int, int], Exchange]]:
    """((wavefronts, bits of the swizzle), plan) of each way to lay out the memory, until one has no conflicts."""
    dst = op.region("dst")
    for fastest in reversed(range(len(dst.shape))):
        dense = _dense(dst.shape, fastest)
        through = _through(op, context, dense)
        accesses = [_Accesses.of(through.store[1], 0, context), _Accesses.of(through.load[1], 1, context)]
        count, least = (sum(each.wavefronts(is_ideal=ideal) for each in accesses) for ideal in (False, True))
        yield (count, 0), through
        for swizzle in _swizzles(max(each.width for each in accesses), dense.footprint()):
            if count == least:
                return
            swizzled = sum(each.wavefronts(swizzle) for each in accesses)
            if swizzled < count:
                count = swizzled
                yield (count, swizzle.bits), _through(op, context, dense.swizzled(swizzle))


def _dense(shape: tuple[int, ...], fastest: int) -> TileLayout:
    """Row-major, but for the dimension that is fastest."""
    order = [*(d for d in range(len(shape)) if d != fastest), fastest]
    strides = {d: prod(shape[later] for later in order[k + 1 :]) for k, d in enumerate(order)}
    return TileLayout.from_iters([(n, strides[d], "m") for d, n in enumerate(shape)] or [(1, 1, "m")])


def _swizzles(width: int, size: int) -> Iterator[Swizzle]:
    """Those within `size` elements that keep vectors of `width` together, the fewest bits first."""
    for bits in range(1, 6):
        for shift in range(bits, 8):
            swizzle = Swizzle(bits, width.bit_length() - 1, shift)
            if swizzle.period > size:
                break
            yield swizzle


@dataclass(frozen=True, slots=True, eq=False)
class _Accesses:
    """What the first warps access in the first rounds of one copy: further ones repeat it.

    address: of the first element, before swizzling. width: elements of each. bytes_each: of an element.
    """

    issue: Array
    thread: Array
    address: Array
    width: int
    bytes_each: int

    @staticmethod
    def of(plan: Half, side: int, context: DispatchContext) -> _Accesses:
        """side: which of the plan's tiles is the memory."""
        turns = Turns(min(plan.rounds, _COUNTED_ROUNDS), min(plan.threads, _COUNTED_THREADS), plan.regions)
        turn = turns.thread, turns.round
        rows = turns.holding(plan.takes_part(*turn))
        address = turns.values(plan.places(*turn)[side])[rows, 0]
        issue, thread = turns.rounds_of[rows], turns.threads_of[rows]
        return _Accesses(issue, thread, address, plan.vector_width, plan.regions[side].dtype.bytes)

    def wavefronts(self, swizzle: Swizzle | None = None, *, is_ideal: bool = False) -> int:
        """How many wavefronts they take; is_ideal: as if no two lanes met in a bank."""
        at = self.address if swizzle is None else swizzle.apply(self.address)
        if is_ideal:
            at = np.arange(len(self.address)) * self.width
        return wavefronts(self.issue, self.thread, at * self.bytes_each, self.width * self.bytes_each)


def _through(op: TileOp, context: DispatchContext, memory: TileLayout, b: Builder | None = None) -> Exchange:
    """By way of shared memory, of which each instance of the scope has a part; b: which names it, and the instance."""
    dst, src = op.region("dst"), op.region("src")
    instances, number = instances_of(op.scope, context.threads)
    name = "exchange" if b is None else b.name("exchange")
    number = number if b is None else b.let("instance", number, (0, instances - 1))
    shape = dst.shape or (1,)
    part_of = Iter(instances, memory.footprint(), memory.shard[0].axis)
    whole = TileLayout((part_of, *memory.shard), swizzle=memory.swizzle)
    align = alignment("shared", dst.dtype, memory)
    buffer = Buffer(name, "shared", dst.dtype, (instances, *shape), whole, align, span=op.span)
    zero = build.const(0, number.dtype)
    here = Region(buffer, (number, *(zero for _ in shape)), (None, *shape))
    store, load = (TileOp("copy", op.scope, sides, span=op.span) for sides in ((here, src), (dst, here)))
    return Exchange(context, memory, (store, _half(store, context)), (load, _half(load, context)))


def _half(op: TileOp, context: DispatchContext) -> Half:
    try:
        return copy_reg.plan(op, context)
    except LayoutError:
        return copy_fallback.plan(op, context)


def emit(plan: Exchange, op: TileOp, b: Builder) -> None:
    through = _through(op, plan.context, plan.memory, b)
    b.hand_over(op.scope, through.store[0].region("dst").buffer)
    for k, (step, half) in enumerate((through.store, through.load)):
        if k:
            b.append(Sync(op.scope, span=b.span))
        (copy_reg if isinstance(half, copy_reg.Plan) else copy_fallback).emit(half, step, b)


VARIANT = Variant(
    name="through_shared",
    operations=("copy",),
    priority=10,
    operands=BETWEEN_TILES,
    when=(*CONVERSION_CONDITIONS, Condition("several threads", _several_threads)),
    plan=plan,
    emit=emit,
)
