"""Tensor memory: its columns are allocated at the kernel's entry and freed on every path to the kernel's end.

An address consists of a lane and a column; a column is 32 bits wide in each lane:

    |     lane     |    column    |
    31           16 15            0

source: PTX ISA, "Tensor Memory Addressing", "Tensor Memory Allocation and Management Instructions" and "tcgen05.ld".
"""

from __future__ import annotations

from ..ir.nodes import Kernel
from ..ir.placements import TMEM, total, within
from ..isa import tcgen05
from ..isa.barriers import BAR_SYNC, BAR_WARP_SYNC
from ..source import Span
from ..target import WARP, WARPGROUP
from .emission import Emission
from .expressions import special

_LEAST = 32

#: the shift from a warp's index in its warpgroup to the address of its first lane; a warp accesses 32 lanes
_LANES_SHIFT = 16 + 5

_ADDRESS = "@tmem_address"

#: the definition of the shared variable that receives the address of the columns
ADDRESS_WORD = f"{_ADDRESS} = internal addrspace(3) global [4 x i8] undef, align 4"


def _reserved(kernel: Kernel) -> int:
    """Return the number of columns to allocate: a power of two, at least 32, as the hardware requires."""
    return max(_LEAST, 1 << (total(kernel.memory, TMEM) - 1).bit_length())


def reserve(emission: Emission) -> str:
    """Emit the allocation of the columns by the first warp, and return their address.

    Also bind each buffer's address, and make all threads end in one exit block.
    """
    w, span = emission.writer, emission.kernel.span
    w.exit = w.join("exit")
    allocate, ready = w.join("allocate"), w.join("allocated")
    w.branch(_is_first_warp(emission), allocate, ready)
    w.start(allocate)
    place = w.value(f"ptrtoint ptr addrspace(3) {_ADDRESS} to i32")
    emission.machine(tcgen05.ALLOC, place, str(_reserved(emission.kernel)), span=span)
    emission.machine(tcgen05.RELINQUISH, span=span)
    w.jump(ready)
    w.start(ready)
    emission.machine(tcgen05.FENCE_BEFORE, span=span)
    emission.machine(BAR_SYNC, span=span)
    emission.machine(tcgen05.FENCE_AFTER, span=span)
    address = w.value(f"load i32, ptr addrspace(3) {_ADDRESS}, align 4")
    # the first lane that the warp can access is 32 times the warp's index in its warpgroup
    warp = w.value(f"and i32 {special(emission, 'warp_id').text}, {WARPGROUP // WARP - 1}")
    lanes = w.value(f"add i32 {address}, {w.value(f'shl i32 {warp}, {_LANES_SHIFT}')}")
    for placement in within(emission.kernel.memory, TMEM):
        emission.bases[placement.name] = w.value(f"add i32 {lanes}, {placement.first}")
    return address


def release(emission: Emission, address: str) -> None:
    """Emit the exit block, if any thread reaches it: the first warp frees the columns once all threads have arrived."""
    w, span = emission.writer, emission.kernel.span
    assert w.exit is not None
    w.start(w.exit)
    w.exit = None
    if not w.open:
        return
    emission.machine(tcgen05.FENCE_BEFORE, span=span)
    emission.machine(BAR_SYNC, span=span)
    free, end = w.join("free"), w.join("end")
    w.branch(_is_first_warp(emission), free, end)
    w.start(free)
    emission.machine(BAR_WARP_SYNC, span=span)
    emission.machine(tcgen05.FENCE_AFTER, span=span)
    emission.machine(tcgen05.DEALLOC, address, str(_reserved(emission.kernel)), span=span)
    w.jump(end)
    w.start(end)
    w.leave()


def cta_barrier(emission: Emission, span: Span | None) -> None:
    """Emit a CTA barrier, between fences if several warpgroups may access the kernel's tensor memory.

    A single warpgroup needs no fences, because its warps access different lanes.
    source: PTX ISA, "tcgen05.fence".
    """
    shared = emission.kernel.threads > WARPGROUP and within(emission.kernel.memory, TMEM)
    if shared:
        emission.machine(tcgen05.FENCE_BEFORE, span=span)
    emission.machine(BAR_SYNC, span=span)
    if shared:
        emission.machine(tcgen05.FENCE_AFTER, span=span)


def _is_first_warp(emission: Emission) -> str:
    return emission.writer.value(f"icmp eq i32 {special(emission, 'warp_id').text}, 0")
