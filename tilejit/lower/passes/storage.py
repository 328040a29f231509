"""Allocation of shared memory, of columns of tensor memory, and of the CTA's numbered barriers.

Limit checks, code generation and messages look buffers up in `Kernel.memory` by name, so moving one or changing its
alignment changes no statement. Static buffers become PTX variables, to which ptxas gives the same order and offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...dataclass import replace
from ...dtypes import barrier
from ...ir import walk
from ...ir.nodes import Alloc, Buffer, Instruction, Kernel, Sync
from ...ir.placements import BARRIER, DYNAMIC, STATIC, TMEM, MemoryPlacement
from ...isa.barriers import BARRIERS, OF_WARPGROUPS, VOTES
from ...scopes import SCOPES
from ...target import STATIC_SHARED_BYTES

#: name of a vote instruction -> its scope
_VOTES = {row.name: row.scope.name for row in VOTES.values()}


def placed(kernel: Kernel) -> Kernel:
    """Assign places to the shared and tmem buffers of a kernel at lane level, and numbers to scopes' barriers."""
    buffers = [stmt.buffer for stmt in walk.each(kernel.body, Alloc)]
    barriers = [(number, stmt.scope) for number, stmt in walk.numbered(kernel.body, Sync)]
    voting = walk.numbered(kernel.body, Instruction)
    barriers += [(number, _VOTES[stmt.name]) for number, stmt in voting if stmt.name in _VOTES]
    # in program order
    scopes = dict.fromkeys([scope for _, scope in sorted(barriers)])
    return replace(kernel, memory=(*placements(buffers), *_barriers(scopes, kernel.threads)))


def placements(buffers: Iterable[Buffer]) -> tuple[MemoryPlacement, ...]:
    """Return the places of the buffers that are in shared or tensor memory."""
    in_order = tuple(buffers)
    return (*_shared(in_order), *_columns(in_order))


def _shared(buffers: Iterable[Buffer]) -> tuple[MemoryPlacement, ...]:
    """Place shared buffers by descending alignment, barriers last; in dynamic memory if static memory is too small."""
    shared = [buffer for buffer in buffers if buffer.space == "shared"]
    shared.sort(key=lambda b: (b.dtype == barrier, -b.align))
    firsts: list[int] = []
    end = 0
    for buffer in shared:
        firsts.append(-(-end // buffer.align) * buffer.align)
        end = firsts[-1] + buffer.size_bytes
    where = DYNAMIC if end > STATIC_SHARED_BYTES else STATIC
    places = zip(shared, firsts, strict=True)
    return tuple([MemoryPlacement(b.name, where, first, b.size_bytes, b.align) for b, first in places])


def _columns(buffers: Iterable[Buffer]) -> Iterator[MemoryPlacement]:
    end = 0
    for buffer in buffers:
        if buffer.space == "tmem":
            yield MemoryPlacement(buffer.name, TMEM, end, buffer.columns)
            end += buffer.columns


def _barriers(scopes: Iterable[str], threads: int) -> Iterator[MemoryPlacement]:
    """Number the barriers of each scope that has numbered barriers, one per instance."""
    first = OF_WARPGROUPS
    for scope in map(SCOPES.__getitem__, scopes):
        if scope in BARRIERS and BARRIERS[scope].arguments:
            count = -(-threads // scope.threads(threads))
            yield MemoryPlacement(scope.name, BARRIER, first, count)
            first += count
