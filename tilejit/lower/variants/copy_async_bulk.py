"""copy_async between global and shared memory by one thread: boxes of a tensor, by TMA, or runs of bytes.

tma_load: boxes from global to shared memory; a phase of a barrier completes when they have arrived (`moves/boxes.py`).
  accepts: a barrier; a global source: a region of an argument of at most 5 dimensions in any order, whose base, outer
    strides and start along the contiguous dimension are multiples of 16 bytes; a shared destination of dense
    swizzle atoms (`schedule.swizzle_atoms`) with the same contiguous dimension. Regions may extend past any edge of the
    tensor; elements outside read as 0. With multicast=, the blocks of columns, or the rows along a dimension, must
    divide into one equal, aligned part per CTA along the axis.
  emits: the scope's leader copies one box per block of columns, or several if a block exceeds a box; the barrier
    expects the bytes of all. The tensor map, a parameter of the kernel, is created by the launch; l2= is its promotion.
    With multicast=, each CTA loads an equal part of the boxes into all CTAs along the axis; the barrier of each CTA
    expects all bytes.

tma_store: boxes from shared to global memory; the thread that issued them waits for their completion.
  accepts: the operands of `tma_load` with their roles exchanged, and no barrier. A region may extend past the tensor's
    end, but not start before its beginning. Elements outside aren't written. Rows are written in chunks of 16 bytes, so
    they must end at a multiple of 16 bytes, unless the region is known or assumed to end inside the tensor.
  emits: the scope's leader copies one box per block of columns, or several if a block exceeds a box, and commits them
    as a group.

bulk: a contiguous run of bytes, without a tensor map.
  accepts: two sides whose dimensions are contiguous in the same order; sizes and addresses that are multiples of 16
    bytes; regions known or assumed to be inside the tensor. Loads need a barrier, and stores take none.
  emits: one instruction, executed by the scope's leader. For a load, the barrier expects the bytes; after a store, a
    commit follows.

source: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk" and "... cp.async.bulk.tensor".
"""

from __future__ import annotations

import numpy as np

from ...dataclass import dataclass
from ...dtypes import int32
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.arithmetic.evaluate import evaluate
from ...ir.nodes import Const, Expect, Instruction, TileOp, Vector
from ...isa.tma import BULK_COMMIT, BULK_LOAD, BULK_STORE, BULK_STORES, LOADS, STORES
from ...ops.copies import FETCH
from .. import plans
from ..builder import Builder
from ..moves import boxes
from ..schedule.placement import Placement, edges, need_slice, place
from ..variant import (
    COPY_CONDITIONS,
    FILLS_ONE,
    LOAD_HAS_BARRIER,
    Condition,
    DispatchContext,
    Variant,
    between,
    fills_zero,
    from_to,
    needs,
    without,
)

#: required alignment of addresses and sizes, in bytes
_UNIT_BYTES = 16


@dataclass(frozen=True, slots=True)
class RunCopy(plans.Plan):
    """A contiguous copy of `count` elements by a CTA of `threads` threads. loads: True if it writes shared memory."""

    dst: Placement
    src: Placement
    count: int
    loads: bool
    threads: int

    @property
    def bytes(self) -> int:
        return self.count * self.dst.buffer.dtype.bytes

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        return (((BULK_LOAD if self.loads else BULK_STORE).mnemonic, 1),)

    def facts(self) -> plans.Facts:
        return plans.Facts(f"{self.bytes:,} bytes", 1, 8 * self.bytes)

    def moves(self) -> plans.Moves:
        """Return 16-byte pieces, all assigned to thread 0. Variables in starts take their possible values nearest 0."""
        chunk = _UNIT_BYTES // self.dst.buffer.dtype.bytes
        steps = np.arange(0, self.count, chunk)
        names = plans.launch_values((self.dst.region, self.src.region))
        sides = [int(evaluate(side.start, names)) + steps for side in (self.dst, self.src)]
        none, width = np.zeros(len(steps), np.int64), np.full(len(steps), chunk)
        return plans.Moves(none, none, np.stack(sides, axis=1), width, (1, 1))

    def schedule(self) -> np.ndarray:
        """Return one row per piece of 16 bytes: (address in the destination, address in the source), in elements."""
        return self.moves().places


def _store_has_none(op: TileOp, context: DispatchContext) -> str | None:
    is_given = op.region("dst").buffer.space == "global" and "barrier" in op.options
    return "completes on tj.bulk.wait; needs no barrier" if is_given else None


def _is_inside(op: TileOp, context: DispatchContext) -> str | None:
    tensor = next(side for side in op.tiles.values() if side.buffer.space == "global")
    outside = edges(tensor)
    if not outside:
        return None
    return f"the region may exceed dimension {outside[0]} of {tensor.buffer.name}; this copy masks no elements"


def plan(op: TileOp, context: DispatchContext) -> RunCopy:
    dst, src = (place(op.region(name), op.scope) for name in ("dst", "src"))
    order = [_order(side) for side in (dst, src)]
    if dst.shape != src.shape or order[0] != order[1]:
        raise LayoutError(f"the dimensions of {dst.buffer.name} and {src.buffer.name} have different orders in memory")
    made = RunCopy(dst, src, order[0][1], dst.buffer.space == "shared", context.threads)
    if made.bytes % _UNIT_BYTES:
        raise LayoutError(f"moves {made.bytes} bytes; needs a multiple of {_UNIT_BYTES}")
    return made


def _order(side: Placement) -> tuple[tuple[int, ...], int]:
    """Return a side's dimensions, slowest first, and element count; raise LayoutError unless contiguous and aligned."""
    buffer, size = side.buffer, side.buffer.dtype.bytes
    if side.swizzle is not None or side.replicas or side.region.gathered is not None:
        raise LayoutError(f"{buffer.name} is swizzled, replicated or gathered; needs contiguous bytes")
    need_slice(side)
    steps = [(d, step) for d, each in enumerate(side.dims) for step in each]
    unknown = next((step for _, step in steps if not isinstance(step.stride, int)), None)
    if unknown is not None:
        raise LayoutError(f"a stride of {buffer.name} is known only at launch; needs contiguous bytes")
    ordered = sorted(steps, key=lambda item: -_stride(item[1].stride))
    count = 1
    for _, step in reversed(ordered):
        if step.stride != count:
            raise LayoutError(
                f"runs of {count * size} contiguous bytes of {buffer.name} are {_stride(step.stride) * size} bytes "
                "apart; all bytes must be contiguous"
            )
        count *= step.extent
    for offset in side.offsets:
        if offset.multiple * size % _UNIT_BYTES:
            step_bytes = offset.multiple * size
            raise LayoutError(f"{offset.what} is a multiple of {step_bytes} bytes; needs a multiple of {_UNIT_BYTES}")
    if buffer.align % _UNIT_BYTES:
        raise LayoutError(f"the base of {buffer.name} is aligned to {buffer.align} bytes; needs {_UNIT_BYTES}")
    return tuple([d for d, _ in ordered]), count


def _stride(stride: object) -> int:
    assert isinstance(stride, int)
    return stride


def emit(plan: RunCopy, op: TileOp, b: Builder) -> None:
    dst, src = (Vector(p.buffer, b.let("start", p.start), plan.count) for p in (plan.dst, plan.src))
    size: Const = build.const(plan.bytes, int32)
    barrier = boxes.barrier_of(op) if plan.loads else None
    if barrier is not None:
        b.append(Expect(barrier, size, op.scope, b.span))
    with b.when(b.leads(op.scope, plan.threads)):
        if barrier is not None:
            b.append(Instruction(BULK_LOAD.name, (), (dst, src, size, barrier), b.span))
        else:
            b.append(Instruction(BULK_STORE.name, (), (dst, src, size), b.span))
            b.append(Instruction(BULK_COMMIT.name, (), (), b.span))


BULK = Variant(
    name="bulk",
    operations=("copy_async",),
    priority=50,
    operands=(between("global", "shared"),),
    when=(
        *COPY_CONDITIONS, FILLS_ONE, needs(BULK_LOAD), LOAD_HAS_BARRIER,
        Condition("no barrier of a store", _store_has_none, "leave barrier= out, and wait with tj.bulk.wait(0)"),
        Condition("inside", _is_inside), without(FETCH, "has no number of bytes to fetch into L2"),
    ),
    # a copy inside the tensor has nothing to fill
    honours=("fill", "barrier"),
    starts=(BULK_STORES,),
    plan=plan,
    emit=emit,
)
TMA_LOAD = Variant(
    name="tma_load",
    operations=("copy_async",),
    priority=40,
    operands=(from_to("global", "shared"),),
    when=(
        *COPY_CONDITIONS, needs(LOADS), LOAD_HAS_BARRIER,
        fills_zero("fills with 0 outside the tensor; got fill={value} (copy takes any value)"),
    ),
    honours=("fill", "barrier"),
    plan=boxes.box_copy,
    emit=boxes.BoxCopy.emit,
)
TMA_STORE = Variant(
    name="tma_store",
    operations=("copy_async",),
    priority=40,
    operands=(from_to("shared", "global"),),
    when=(*COPY_CONDITIONS, FILLS_ONE, needs(STORES), without(FETCH, "a store fetches nothing into L2")),
    # no element of shared memory is out of bounds, so nothing is filled
    honours=("fill",),
    starts=(BULK_STORES,),
    plan=boxes.box_copy,
    emit=boxes.BoxCopy.emit,
)
