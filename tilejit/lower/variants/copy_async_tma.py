"""copy_async between global and shared memory, issued by one thread: one run of bytes, or boxes of a tensor map.

bulk: contiguous bytes, without a tensor map.
  accepts: two sides that are contiguous in the same order; sizes and addresses that are multiples of 16 bytes; regions
    known or assumed to be inside the tensor. Loads need a barrier, and stores take none.
  emits: one instruction of the scope's leader. For a load, the barrier expects the bytes; a commit follows a store.

tma_load: boxes from global to shared memory, whose arrival completes a phase of a barrier (`moves/boxes.py`).
  accepts: a barrier; a global source, which is a region of an argument with at most 5 dimensions in any order, whose
    base, outer strides and start along the contiguous dimension are multiples of 16 bytes; a shared destination of
    swizzle atoms (`schedule.swizzle_atoms`) in this order. Regions may pass any edge of the tensor; elements outside
    read as 0. With multicast=, the blocks of columns, or the rows, must divide evenly among the CTAs along the axis.
  emits: one box per block of columns, or several if a block exceeds a box, by the scope's leader; the barrier expects
    the bytes. The launch creates the tensor map, a parameter of the kernel. With multicast=, each CTA loads an equal
    part of the boxes into all CTAs along the axis; the barrier of each CTA expects all bytes.

tma_store: boxes from shared to global memory; the thread that issued them waits for their completion.
  accepts: operands as for `tma_load`, in the other direction and without a barrier. A region may pass the tensor's end,
    but not start before it. Elements outside aren't written. Rows are written in chunks of 16 bytes, so they must end
    at a multiple of 16 bytes, unless the region is known or assumed to end inside the tensor.
  emits: by the scope's leader, one box per block of columns, or several if a block exceeds a box, and the commit that
    groups them.

source: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk" and "cp.async.bulk.tensor".
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
from ...ops.copies import MULTICAST
from .. import plans, variant
from ..builder import Builder
from ..moves.boxes import BoxCopy, barrier_of, box_copy
from ..schedule.iterations import launch_values
from ..schedule.placement import Placement, edges, need_slice, place

#: required alignment of addresses and sizes, in bytes
_UNIT_BYTES = 16


@dataclass(frozen=True, slots=True)
class RunCopy(plans.Plan):
    """A contiguous copy of `count` elements. loads: True if it writes shared memory. threads: number in the CTA."""

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
        """Return pieces of 16 bytes, all moved by thread 0. Run-time starts are as near to 0 as possible."""
        chunk = _UNIT_BYTES // self.dst.buffer.dtype.bytes
        steps = np.arange(0, self.count, chunk)
        names = launch_values((self.dst.region, self.src.region))
        sides = [int(evaluate(side.start, names)) + steps for side in (self.dst, self.src)]
        accesses = (plans.JointAccess(0, sides[0], chunk, chunk), plans.JointAccess(1, sides[1], chunk, chunk))
        none, width = np.zeros(len(steps), np.int64), np.full(len(steps), chunk)
        return plans.Moves(none, none, np.stack(sides, axis=1), width, (1, 1), accesses)

    def schedule(self) -> np.ndarray:
        """Return one row per piece of 16 bytes: (first element in the destination, first element in the source)."""
        return self.moves().places


def _load_has_barrier(op: TileOp, context: variant.DispatchContext) -> str | None:
    is_missing = _loads(op) and "barrier" not in op.options
    return "needs barrier=: a load completes on a barrier" if is_missing else None


def _store_has_none(op: TileOp, context: variant.DispatchContext) -> str | None:
    is_given = not _loads(op) and "barrier" in op.options
    return "completes on tj.bulk.wait; needs no barrier" if is_given else None


def _loads(op: TileOp) -> bool:
    dst, _ = variant.copy_sides(op)
    return dst.buffer.space == "shared"


def _is_inside(op: TileOp, context: variant.DispatchContext) -> str | None:
    tensor = next(side for side in variant.copy_sides(op) if side.buffer.space == "global")
    outside = edges(tensor)
    if not outside:
        return None
    return f"the region may exceed the bounds of dimension {outside[0]} of {tensor.buffer.name}, and isn't masked"


def _run_copy(op: TileOp, context: variant.DispatchContext) -> RunCopy:
    dst, src = (place(side, op.scope) for side in variant.copy_sides(op))
    order = [_order(side) for side in (dst, src)]
    if dst.shape != src.shape or order[0] != order[1]:
        raise LayoutError(f"the dimensions of {dst.buffer.name} and {src.buffer.name} have different orders in memory")
    made = RunCopy(dst, src, order[0][1], dst.buffer.space == "shared", context.threads)
    if made.bytes % _UNIT_BYTES:
        raise LayoutError(f"moves {made.bytes} bytes; needs a multiple of {_UNIT_BYTES}")
    return made


def _order(side: Placement) -> tuple[tuple[int, ...], int]:
    """Return the dimensions, slowest first, and the element count; raise LayoutError if not contiguous and aligned."""
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
                f"elements of {buffer.name} are {_stride(step.stride) * size} bytes apart after {count * size} "
                "contiguous bytes; all must be contiguous"
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


def _emit_run(plan: RunCopy, op: TileOp, b: Builder) -> None:
    dst, src = (Vector(p.buffer, b.let("start", p.start), plan.count) for p in (plan.dst, plan.src))
    size: Const = build.const(plan.bytes, int32)
    barrier = barrier_of(op) if plan.loads else None
    if barrier is not None:
        b.append(Expect(barrier, size, op.scope, b.span))
    with b.when(b.leads(op.scope, plan.threads)):
        if barrier is not None:
            b.append(Instruction(BULK_LOAD.name, (), (dst, src, size, barrier), b.span))
        else:
            b.append(Instruction(BULK_STORE.name, (), (dst, src, size), b.span))
            b.append(Instruction(BULK_COMMIT.name, (), (), b.span))


def _load_boxes(op: TileOp, context: variant.DispatchContext) -> BoxCopy:
    axis = op.attr(MULTICAST.name)
    assert axis is None or isinstance(axis, int)
    return box_copy(op.region("src"), op.region("dst"), context, loads=True, along=axis)


def _store_boxes(op: TileOp, context: variant.DispatchContext) -> BoxCopy:
    return box_copy(op.region("dst"), op.region("src"), context, loads=False)


_LOAD_HAS_BARRIER = variant.Condition("barrier of a load", _load_has_barrier)

BULK = variant.Variant(
    name="bulk",
    operations=("copy_async",),
    priority=50,
    operands=(variant.KINDS, variant.between("global", "shared")),
    when=(
        *variant.COPY_CONDITIONS,
        variant.FILLS_ONE,
        variant.needs(BULK_LOAD),
        _LOAD_HAS_BARRIER,
        variant.Condition(
            "no barrier of a store", _store_has_none, "leave barrier= out, and wait with tj.bulk.wait(0)"
        ),
        variant.Condition("inside", _is_inside),
    ),
    # a copy inside the tensor has nothing to fill
    honours=("fill", "barrier"),
    starts=(BULK_STORES,),
    plan=_run_copy,
    emit=_emit_run,
)
TMA_LOAD = variant.Variant(
    name="tma_load",
    operations=("copy_async",),
    priority=40,
    operands=(variant.KINDS, variant.from_to("global", "shared")),
    when=(
        *variant.COPY_CONDITIONS, variant.needs(LOADS), _LOAD_HAS_BARRIER,
        variant.fills_zero("fills with 0; got fill={value}: load 0 and mask, or copy"),
    ),
    honours=("fill", "barrier"),
    plan=_load_boxes,
    emit=BoxCopy.emit,
)
TMA_STORE = variant.Variant(
    name="tma_store",
    operations=("copy_async",),
    priority=40,
    operands=(variant.KINDS, variant.from_to("shared", "global")),
    when=(*variant.COPY_CONDITIONS, variant.FILLS_ONE, variant.needs(STORES)),
    # no element of shared memory is out of bounds, so nothing is filled
    honours=("fill",),
    starts=(BULK_STORES,),
    plan=_store_boxes,
    emit=BoxCopy.emit,
)
