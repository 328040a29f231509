"""Invariants of placements: each root buffer in shared or tensor memory has one; none overlap or exceed limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from ...isa.barriers import BARRIERS, OF_A_CTA, OF_WARPGROUPS
from ...scopes import SCOPES
from ...target import STATIC_SHARED_BYTES, TARGETS, TMEM_COLUMNS
from .. import nodes as ir
from ..placements import BARRIER, DYNAMIC, PLACES, SHARED, STATIC, TMEM, MemoryPlacement, total, within

#: groups of places that share one memory
_MEMORIES: tuple[tuple[str, ...], ...] = (SHARED, (TMEM,), (BARRIER,))


def placement_faults(kernel: ir.Kernel, buffers: Iterable[ir.Buffer]) -> Iterator[str]:
    """Yield the faults of `kernel.memory`. buffers: the buffers that the kernel defines."""
    memory = kernel.memory
    owners = {b.name: b for b in buffers if b.base is None and b.space in ("shared", "tmem")}
    for placement in memory:
        yield from _barrier_faults(placement) if placement.where == BARRIER else _buffer_faults(placement, owners)
    names = [p.name for p in memory if p.where != BARRIER]
    yield from (f"{name} has no place" for name in owners if name not in names)
    for places in _MEMORIES:
        yield from _overlaps(within(memory, *places))
    yield from _limit_faults(kernel)


def _buffer_faults(placement: MemoryPlacement, owners: dict[str, ir.Buffer]) -> Iterator[str]:
    name, where, buffer = placement.name, placement.where, owners.get(placement.name)
    if where not in PLACES:
        yield f"{name} is in unknown place {where!r}"
    elif buffer is None or (buffer.space == "tmem") != (where == TMEM):
        yield f"{name} has a place in {where} memory, but isn't a buffer there"
    elif where == TMEM:
        if placement.count < buffer.columns:
            yield f"{name} needs {buffer.columns} columns; its place has {placement.count}"
    else:
        if placement.count < buffer.size_bytes:
            yield f"{name} needs {buffer.size_bytes:,} bytes; its place has {placement.count:,}"
        if placement.align < 1 or placement.align % buffer.align or placement.first % placement.align:
            yield (
                f"{name} needs alignment to {buffer.align} bytes; its place is at byte {placement.first}, "
                f"aligned to {placement.align}"
            )


def _barrier_faults(placement: MemoryPlacement) -> Iterator[str]:
    row = BARRIERS.get(SCOPES[placement.name]) if placement.name in SCOPES else None
    if row is None or not row.arguments:
        yield f"{placement.name!r} has no numbered barriers"
    if placement.first < OF_WARPGROUPS or placement.end > OF_A_CTA:
        yield (
            f"barriers {placement.first} to {placement.end - 1} of {placement.name}: scopes can use "
            f"{OF_WARPGROUPS} to {OF_A_CTA - 1}"
        )


def _overlaps(placements: tuple[MemoryPlacement, ...]) -> Iterator[str]:
    for before, after in pairwise(sorted(placements, key=lambda p: p.first)):
        if after.first < before.end:
            yield f"{before.name} and {after.name} overlap in {after.where} memory from {after.first}"


def _limit_faults(kernel: ir.Kernel) -> Iterator[str]:
    memory = kernel.memory
    shared, static, columns = total(memory, *SHARED), total(memory, STATIC), total(memory, TMEM)
    if min((p.first for p in memory), default=0) < 0:
        yield "a place starts before the start of its memory"
    if within(memory, STATIC) and within(memory, DYNAMIC):
        yield "shared memory must be all static or all dynamic"
    if static > STATIC_SHARED_BYTES:
        yield f"{static:,} bytes of shared memory are static; at most {STATIC_SHARED_BYTES:,} can be"
    if kernel.target in TARGETS and shared > TARGETS[kernel.target].shared_bytes:
        limit = TARGETS[kernel.target].shared_bytes
        yield f"the kernel needs {shared:,} bytes of shared memory; {kernel.target} has {limit:,} for a CTA"
    if columns > TMEM_COLUMNS:
        yield f"the kernel needs {columns} columns of tensor memory; a CTA has {TMEM_COLUMNS}"
