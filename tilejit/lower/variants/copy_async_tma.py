"""copy_async between global and shared memory, issued by one thread: boxes of a tensor map.

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
        fills_zero("fills with 0; got fill={value}: load 0 and mask, or copy"),
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
