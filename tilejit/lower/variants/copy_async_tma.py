"""copy_async between global and shared memory by TMA: one thread copies boxes of a tensor.

tma_load: boxes from global to shared memory; a phase of a barrier completes when they have arrived (`moves/boxes.py`).
  accepts: a barrier; a global source: a region of an argument of at most 5 dimensions in any order, whose base, outer
    strides and start along the contiguous dimension are multiples of 16 bytes; a shared destination of dense
    swizzle atoms (`schedule.swizzle_atoms`) with the same contiguous dimension. Regions may extend past any edge of the
    tensor; elements outside read as 0. With multicast=, the blocks of columns, or the rows along a dimension, must
    divide into one equal, aligned part per CTA along the axis.
  emits: the scope's leader copies one box per block of columns, or several if a block exceeds a box; the barrier
    expects the bytes of all. The tensor map, a parameter of the kernel, is created by the launch. With multicast=, each
    CTA loads an equal part of the boxes into all CTAs along the axis; the barrier of each CTA expects all bytes.

tma_store: boxes from shared to global memory; the thread that issued them waits for their completion.
  accepts: the operands of `tma_load` with their roles exchanged, and no barrier. A region may extend past the tensor's
    end, but not start before its beginning. Elements outside aren't written. Rows are written in chunks of 16 bytes, so
    they must end at a multiple of 16 bytes, unless the region is known or assumed to end inside the tensor.
  emits: the scope's leader copies one box per block of columns, or several if a block exceeds a box, and commits them
    as a group.

source: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor".
"""

from __future__ import annotations

from ...isa.tma import BULK_STORES, LOADS, STORES
from ..moves.boxes import BoxCopy, box_copy
from ..variant import COPY_CONDITIONS, FILLS_ONE, LOAD_HAS_BARRIER, Variant, fills_zero, from_to, needs

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
    plan=box_copy,
    emit=BoxCopy.emit,
)
TMA_STORE = Variant(
    name="tma_store",
    operations=("copy_async",),
    priority=40,
    operands=(from_to("shared", "global"),),
    when=(*COPY_CONDITIONS, FILLS_ONE, needs(STORES)),
    # no element of shared memory is out of bounds, so nothing is filled
    honours=("fill",),
    starts=(BULK_STORES,),
    plan=box_copy,
    emit=BoxCopy.emit,
)
