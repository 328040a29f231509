"""copy between local tiles whose elements change threads: through shared memory of the operation's own.

accepts: two local tiles of equal dtypes and shapes, any layouts, replicas and padding; parts at constant starts.
emits: the lowest owners store the source; a barrier of the scope; every owner loads the destination. Each of the two is
    the first of ldstmatrix, reg and fallback that takes it. The memory is dense, its fastest dimension and its swizzle
    those that cost least.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ...errors import DispatchError, LayoutError
from ...ir.allocation import alignment
from ...ir.arithmetic import build
from ...ir.nodes import Buffer, Region, Sync, TileOp
from ...layout import Swizzle, TileLayout
from ...layout.iters import Iter
from ...scopes import SCOPES, THREAD
from ..builder import Builder, instances_of
from ..engine import Verdict, dispatch
from ..moves.conversion import BETWEEN_TILES, CONVERSION_CONDITIONS
from ..moves.wavefronts import SharedAccesses
from ..schedule.matrix_tiles import ROW
from ..variant import Array, Condition, DispatchContext, Facts, Plan, Staged, Variant
from . import copy_fallback, copy_ldstmatrix, copy_reg

#: how either copy is carried out
_HALVES: tuple[Variant[Any], ...] = (copy_ldstmatrix.VARIANT, copy_reg.VARIANT, copy_fallback.VARIANT)

#: conversions whose memory is remembered
_REMEMBERED = 512


@dataclass(frozen=True, slots=True)
class Exchange(Plan):
    """The source is stored to `memory`, one instance's part of it, from which the destination is loaded.

    store, load: the two copies, each with how it is carried out in `context`.
    """

    context: DispatchContext
    memory: TileLayout
    store: Verdict[Any]
    load: Verdict[Any]

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        return (*self.store.plan.instructions, *self.load.plan.instructions)

    def facts(self) -> Facts:
        store, load = self.store.plan.facts(), self.load.plan.facts()
        return Facts(f"{store.width}, {load.width}", store.rounds + load.rounds)

    def moves(self) -> Staged:
        return Staged(((self.store.op, self.store.plan), (self.load.op, self.load.plan)))

    def schedule(self) -> Array:
        """One row a piece: (0 of the store or 1 of the load, round, thread, place on the source, the destination)."""
        every = [half.plan.moves() for half in (self.store, self.load)]
        tables = [np.column_stack([m.issue, m.thread, m.places[:, 1], m.places[:, 0]]) for m in every]
        return np.concatenate([np.insert(table, 0, k, axis=1) for k, table in enumerate(tables)])


def _several_threads(op: TileOp, context: DispatchContext) -> str | None:
    return "a thread has nobody to hand its registers to" if SCOPES[op.scope] is THREAD else None


def plan(op: TileOp, context: DispatchContext) -> Exchange:
    unnamed = replace(op, operands=tuple(_unnamed(name, region) for name, region in op.tiles.items()))
    return _through(op, context, _memory(unnamed, context))


def _unnamed(name: str, region: Region) -> Region:
    """As an operand of any other kernel is that lies alike."""
    return replace(region, buffer=replace(region.buffer, name=name, base=None))


@lru_cache(_REMEMBERED)
def _memory(op: TileOp, context: DispatchContext) -> TileLayout:
    """The cheapest memory for a copy by way of it; of several the one with the least swizzle."""
    shape = op.region("dst").shape
    ways: list[tuple[int, TileLayout, tuple[SharedAccesses, SharedAccesses]]] = []
    for fastest in reversed(range(len(shape))) or [0]:
        dense = _dense(shape, fastest)
        through = _through(op, context, dense)
        accesses = _accesses(through.store.plan, 0, context), _accesses(through.load.plan, 1, context)
        ways.append((sum(each.least for each in accesses), dense, accesses))
    # the first of those that cost the same without conflicts
    ways.sort(key=lambda way: way[0])
    best: tuple[int, TileLayout] | None = None
    for least, dense, accesses in ways:
        if best is not None and best[0] <= least:
            break
        width = max(each.width for each in accesses)
        for swizzle in _swizzles(width, dense.footprint()):
            cost = sum(each.cost(swizzle) for each in accesses)
            if best is None or cost < best[0]:
                best = cost, dense if swizzle is None else dense.swizzled(swizzle)
            if cost == least:
                break
    assert best is not None
    return best[1]


def _dense(shape: tuple[int, ...], fastest: int) -> TileLayout:
    """Row-major, but for the dimension that is fastest."""
    order = [*(d for d in range(len(shape)) if d != fastest), fastest]
    strides = {d: prod(shape[later] for later in order[k + 1 :]) for k, d in enumerate(order)}
    return TileLayout.from_iters([(n, strides[d], "m") for d, n in enumerate(shape)] or [(1, 1, "m")])


def _swizzles(width: int, size: int) -> Iterator[Swizzle | None]:
    """None, then those within `size` elements that keep vectors of `width` together, the fewest bits first."""
    yield None
    for bits in range(1, 6):
        for shift in range(bits, 8):
            swizzle = Swizzle(bits, width.bit_length() - 1, shift)
            if swizzle.period > size:
                break
            yield swizzle


def _accesses(plan: Any, side: int, context: DispatchContext) -> SharedAccesses:
    """What either copy accesses in shared memory, its tile number `side`."""
    if isinstance(plan, copy_ldstmatrix.Plan):
        return SharedAccesses.of(plan.issues, plan.threads, plan.address, plan.gives_address, ROW, 2)
    bytes_each = plan.regions[side].dtype.bytes
    return SharedAccesses.of(
        plan.rounds,
        plan.threads,
        lambda thread, round: plan.places(thread, round)[side],
        plan.takes_part,
        plan.vector_width,
        bytes_each,
    )


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
    return Exchange(context, memory, _half(store, context), _half(load, context))


def _half(op: TileOp, context: DispatchContext) -> Verdict[Any]:
    try:
        return dispatch(op, context, _HALVES)
    except DispatchError as error:
        reasons = error.declines[copy_fallback.VARIANT.name]
        raise LayoutError("; ".join(reasons), hint=error.hint) from None


def emit(plan: Exchange, op: TileOp, b: Builder) -> None:
    through = _through(op, plan.context, plan.memory, b)
    b.hand_over(op.scope, through.store.op.region("dst").buffer)
    through.store.emit(b)
    b.append(Sync(op.scope, span=b.span))
    through.load.emit(b)


VARIANT = Variant(
    name="through_shared",
    operations=("copy",),
    priority=10,
    operands=BETWEEN_TILES,
    when=(*CONVERSION_CONDITIONS, Condition("several threads", _several_threads)),
    plan=plan,
    emit=emit,
)
