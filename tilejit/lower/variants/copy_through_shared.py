"""copy and reshape between local tiles, exchanging elements through shared memory that the compiler allocates.

accepts: two local tiles of equal dtypes, or parts at constant starts, in almost any layouts, with replicas and padding.
emits: the lowest owner of each element stores it, the scope synchronizes, and all owners in the destination load it.
    Store and load use the first of ldstmatrix, reg and fallback that accepts them. The memory is dense; its fastest
    dimension and its swizzle are chosen for the least cost. For a reshape it is stored row-major in the source's shape
    and loaded in the destination's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...dataclass import dataclass, replace
from ...errors import DispatchError, LayoutError
from ...ir.allocation import alignment
from ...ir.arithmetic import build
from ...ir.nodes import Buffer, BufferView, Expr, Region, Sync, TileOp
from ...layout import TileLayout
from ...layout.iters import Iter
from ...ops.copies import COPY, RESHAPE
from ..builder import Builder, instances_of
from ..engine import Verdict, dispatch
from ..moves.wavefronts import ExchangeMemory, SharedAccesses, cheapest, dense, round_costs
from ..plans import Facts, Plan, VectorPlan
from ..variant import DispatchContext, Variant
from . import copy_fallback, copy_ldstmatrix, copy_reg
from .copy_rename import BETWEEN_TILES, EXCHANGE_CONDITIONS

#: the variants that the store and the load may use, by descending priority
_HALVES: tuple[Variant[Any], ...] = (copy_ldstmatrix.VARIANT, copy_reg.VARIANT, copy_fallback.VARIANT)

#: maximum number of cached layouts
_REMEMBERED = 512


@dataclass(frozen=True, slots=True)
class Exchange(Plan):
    """A store of the source and a load of the destination. memory: layout of a scope instance's shared memory."""

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

    def stages(self, op: TileOp) -> Sequence[tuple[TileOp, Plan]]:
        return ((self.store.op, self.store.plan), (self.load.op, self.load.plan))

    def schedule(self) -> np.ndarray:
        """Return (0 for the store or 1 for the load, iteration, thread, place read, place written) for each piece."""
        moves = [half.plan.moves() for half in (self.store, self.load)]
        tables = [np.column_stack([m.issue, m.thread, m.places[:, 1], m.places[:, 0]]) for m in moves]
        return np.concatenate([np.insert(table, 0, k, axis=1) for k, table in enumerate(tables)])


def plan(op: TileOp, context: DispatchContext) -> Exchange:
    return _through(op, context, _memory(op, context).layout)


def cost(op: TileOp, context: DispatchContext) -> int:
    """Return the cost of a copy or reshape through shared memory, in quarter cycles per warp."""
    return _memory(op, context).cost


def _memory(op: TileOp, context: DispatchContext) -> ExchangeMemory:
    unnamed = replace(op, operands=tuple(_unnamed(name, region) for name, region in op.tiles.items()), attrs=())
    return _cheapest(unnamed, context)


def _unnamed(name: str, region: Region) -> Region:
    """Return the region with its buffer named `name`, so that equal operations on other buffers share a cache key."""
    return replace(region, buffer=replace(region.buffer, name=name, base=None))


@lru_cache(_REMEMBERED)
def _cheapest(op: TileOp, context: DispatchContext) -> ExchangeMemory:
    return cheapest(_candidates(op, context))


def _candidates(op: TileOp, context: DispatchContext) -> Iterator[tuple[TileLayout, Sequence[SharedAccesses]]]:
    shape = _stored(op)
    dims = range(max(len(shape), 1))
    # only row-major memory can be viewed in other shapes
    for fastest in reversed(dims if op.name == COPY.name else dims[-1:]):
        layout = dense(shape, fastest)
        through = _through(op, context, layout)
        yield layout, (_costs(through.store.plan, 0), _costs(through.load.plan, 1))


def _costs(plan: copy_ldstmatrix.Plan | VectorPlan, side: int) -> SharedAccesses:
    """Return the cost of a plan's shared memory accesses. side: 0 if shared memory is its destination, else 1."""
    if isinstance(plan, copy_ldstmatrix.Plan):
        bytes_each = plan.tiles.memory.buffer.dtype.bytes
        width = plan.vector_width
        return round_costs(plan.issues, plan.threads, plan.gives_address, plan.address, width, bytes_each)
    return round_costs(
        plan.rounds,
        plan.threads,
        plan.is_active,
        lambda thread, iteration: plan.places(thread, iteration)[side],
        plan.vector_width,
        plan.regions[side].dtype.bytes,
    )


def _stored(op: TileOp) -> tuple[int, ...]:
    return op.region("dst" if op.name == COPY.name else "src").shape


def _through(op: TileOp, context: DispatchContext, memory: TileLayout, b: Builder | None = None) -> Exchange:
    """Plan the two copies. With a builder, allocate the memory and bind the index of the scope's instance."""
    dst, src = op.region("dst"), op.region("src")
    instances, number = instances_of(op.scope, context.threads)
    name = "exchange" if b is None else b.name("exchange")
    number = number if b is None else b.let("instance", number, (0, instances - 1))
    shape = _stored(op) or (1,)
    align = alignment("shared", dst.dtype, memory)
    stored = Buffer(name, "shared", dst.dtype, (instances, *shape), _each(instances, memory), align, span=op.span)
    if b is not None:
        stored = b.pooled_exchange_buffer(op.scope, stored, instances)
    loaded, other = stored, dst.shape or (1,)
    if shape != other:
        rows = dense(other, len(other) - 1)
        layout = _each(instances, rows if memory.swizzle is None else rows.swizzled(memory.swizzle))
        loaded = replace(stored, name=f"{name}.reshaped", shape=(instances, *other), layout=layout, base=stored)
    store = TileOp(COPY.name, op.scope, (_part(stored, number), src), span=op.span)
    load = TileOp(COPY.name, op.scope, (dst, _part(loaded, number)), span=op.span)
    return Exchange(context, memory, _dispatch_half(store, context), _dispatch_half(load, context))


def _each(instances: int, memory: TileLayout) -> TileLayout:
    part = Iter(instances, memory.footprint(), memory.shard[0].axis)
    return TileLayout((part, *memory.shard), swizzle=memory.swizzle)


def _part(buffer: Buffer, number: Expr) -> Region:
    zero, extents = build.const(0, number.dtype), buffer.fixed_shape[1:]
    return Region(buffer, (number, *(zero for _ in extents)), (None, *extents))


def _dispatch_half(op: TileOp, context: DispatchContext) -> Verdict[Any]:
    try:
        return dispatch(op, context, _HALVES)
    except DispatchError as error:
        reasons = error.declines[copy_fallback.VARIANT.name]
        raise LayoutError("; ".join(reasons), hint=error.hint) from None


def emit(plan: Exchange, op: TileOp, b: Builder) -> None:
    through = _through(op, plan.context, plan.memory, b)
    loaded = through.load.op.region("src").buffer
    if loaded is not through.store.op.region("dst").buffer:
        b.head.append(BufferView(loaded, span=b.span))
    through.store.emit(b)
    b.append(Sync(op.scope, span=b.span))
    through.load.emit(b)


VARIANT = Variant(
    name="through_shared",
    operations=(COPY.name, RESHAPE.name),
    priority=10,
    operands=BETWEEN_TILES,
    when=EXCHANGE_CONDITIONS,
    plan=plan,
    emit=emit,
)
