"""Storage of shared and local buffers in LLVM.

A shared buffer is an LLVM global variable of its own or, if its placement in `Kernel.memory` is dynamic, a part of the
dynamic shared memory. A local buffer is in a thread's registers or, if it must be addressable, in local memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..ir import walk
from ..ir.nodes import (
    Alloc,
    Atomic,
    Buffer,
    BufferView,
    Descriptor,
    Instruction,
    Let,
    Load,
    Move,
    Store,
    Vector,
    WaitPhase,
)
from ..ir.placements import DYNAMIC, SHARED, MemoryPlacement, within
from ..ir.walk import Block

#: the symbol of the dynamic shared memory
BLOCK = "@dynamic_shared"


def allocations(body: Block) -> list[Buffer]:
    """Return all buffers that `body` allocates, including those in nested statements, in order."""
    return [stmt.buffer for stmt in walk.each(body, Alloc)]


def local_memory(body: Block) -> tuple[Buffer, ...]:
    """Return the buffers in local memory, in order of allocation."""
    return tuple(s.buffer for s in walk.each(body, Alloc) if s.addressed)


def moved_on(body: Block) -> set[str]:
    """Return the names of the local buffers that some move copies to memory, directly or through a view."""
    moves = [stmt for stmt in walk.each(body, Move) if stmt.dst.buffer.space != "local"]
    return {stmt.src.buffer.root.name for stmt in moves}


class ViewUses(NamedTuple):
    """Names of shared buffers: those whose addresses instructions take as integers, and those accessed by pointer."""

    taken: frozenset[str]
    accessed: frozenset[str]


def uses_of_views(body: Block) -> ViewUses:
    """Return the uses of shared buffers, directly or through views; two empty sets if no shared view has an offset."""
    views = [stmt.buffer for stmt in walk.each(body, BufferView) if stmt.buffer.offset is not None]
    if "shared" not in [view.space for view in views]:
        return ViewUses(frozenset(), frozenset())
    # an atomic update counts as both: if the target lacks the instruction, a load and a loop of swaps replace it
    updated = [stmt.place.buffer for stmt in walk.each(body, Atomic)]
    taken = [*updated, *[stmt.place.buffer for stmt in walk.each(body, WaitPhase)]]
    for stmt in walk.each(body, Instruction):
        for each in stmt.inputs:
            place = each.place if isinstance(each, Descriptor) else each
            if isinstance(place, Vector):
                taken.append(place.buffer)
    accessed = [*updated, *[stmt.place.buffer for stmt in walk.each(body, Store)]]
    accessed += [stmt.memory.buffer for stmt in walk.each(body, Move)]
    accessed += [let.value.place.buffer for let in walk.each(body, Let) if isinstance(let.value, Load)]
    return ViewUses(_with_bases(taken), _with_bases(accessed))


def _with_bases(buffers: Iterable[Buffer]) -> frozenset[str]:
    names: set[str] = set()
    for buffer in buffers:
        view: Buffer | None = buffer
        while view is not None and view.space == "shared" and view.name not in names:
            names.add(view.name)
            view = view.base
    return frozenset(names)


def most_at_once(body: Block) -> tuple[Buffer, ...]:
    """Return the local buffers that are live at the point where their total size is greatest.

    A live range extends from the first to the last use in program order, which is too short for a loop-carried value.
    """
    local = [buffer for buffer in allocations(body) if buffer.space == "local"]
    if not local:
        return ()
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, stmt in enumerate(walk.statements(body)):
        for place in (*walk.reads(stmt), *walk.writes(stmt)):
            first.setdefault(place.buffer.root.name, number)
            last[place.buffer.root.name] = number
    local = [buffer for buffer in local if buffer.name in first]

    def needed(at: int) -> tuple[Buffer, ...]:
        return tuple(b for b in local if first[b.name] <= at <= last[b.name])

    # the total grows only at a first use
    return max((needed(first[b.name]) for b in local), key=lambda group: sum(b.size_bytes for b in group), default=())


def shared_variables(memory: Iterable[MemoryPlacement]) -> Iterator[tuple[MemoryPlacement, str, int]]:
    """Yield each placement in shared memory, the symbol of the variable that contains it, and its byte offset there."""
    for number, placement in enumerate(within(memory, *SHARED)):
        if placement.where == DYNAMIC:
            yield placement, BLOCK, placement.first
        else:
            yield placement, f"@shared{number}_{legal(placement.name)}", 0


def shared_globals(memory: Iterable[MemoryPlacement]) -> tuple[list[str], dict[str, str]]:
    """Return the LLVM module's lines for shared variables, and the address of each shared buffer by name."""
    lines: list[str] = []
    bases: dict[str, str] = {}
    aligns = [1]
    for placement, variable, first in shared_variables(memory):
        if variable == BLOCK:
            aligns.append(placement.align)
            bases[placement.name] = f"getelementptr (i8, ptr addrspace(3) {BLOCK}, i64 {first})"
        else:
            kind = f"[{placement.count} x i8]"
            lines.append(f"{variable} = internal addrspace(3) global {kind} undef, align {placement.align}")
            bases[placement.name] = variable
    if len(aligns) > 1:
        lines.append(f"{BLOCK} = external addrspace(3) global [0 x i8], align {max(aligns)}")
    return lines, bases


def legal(name: str) -> str:
    """Escape a name, injectively, so that it is an identifier of both LLVM and PTX.

    A character that isn't an ASCII letter, an ASCII digit or an underscore becomes `$` and its code point in
    hexadecimal: two digits or, from 256 on, three or more digits between underscores.
    """
    return re.sub(r"[^0-9A-Za-z_]", lambda found: _escaped(ord(found[0])), name)


def _escaped(code: int) -> str:
    return f"${code:02x}" if code < 256 else f"$_{code:x}_"
