"""Where buffers live.

Shared buffers are an array each, or parts of one dynamic block. Local buffers are a thread's registers or, where they
must have addresses, local memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..dataclass import dataclass
from ..dtypes import barrier
from ..ir import walk
from ..ir.nodes import Alloc, Buffer
from ..ir.walk import Block
from ..layout import TileLayout

#: shared memory that a kernel may have without asking for it at launch
STATIC_LIMIT = 48 * 1024

#: the one array of a kernel that has more
DYNAMIC = "@dynamic_shared"

@dataclass(frozen=True, slots=True)
class SharedPlan:
    """The shared buffers of a kernel as they lie, each with its first byte; `total_bytes` of all."""

    offsets: tuple[tuple[Buffer, int], ...]
    total_bytes: int

    @property
    def dynamic(self) -> bool:
        """Whether the launch must ask for the memory."""
        return self.total_bytes > STATIC_LIMIT


def allocations(body: Block) -> Iterator[Buffer]:
    """Every buffer that the statements allocate, in order, nested ones too."""
    for stmt in walk.statements(body):
        if isinstance(stmt, Alloc):
            yield stmt.buffer


def local_memory(body: Block) -> tuple[Buffer, ...]:
    """The local buffers that live in local memory, in order."""
    return tuple(s.buffer for s in walk.statements(body) if isinstance(s, Alloc) and s.addressed)


def most_at_once(body: Block) -> tuple[Buffer, ...]:
    """The local buffers that are needed at the statement where they take most: between their first use and their last.

    Around a loop more may be needed.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, stmt in enumerate(walk.statements(body)):
        for place in (*walk.reads(stmt), *walk.writes(stmt)):
            first.setdefault(place.buffer.root.name, number)
            last[place.buffer.root.name] = number
    local = [b for b in allocations(body) if b.space == "local" and b.name in first]

    def needed(at: int) -> tuple[Buffer, ...]:
        return tuple(b for b in local if first[b.name] <= at <= last[b.name])

    # it can only rise where a buffer is used first
    return max((needed(first[b.name]) for b in local), key=lambda b: sum(map(size_bytes, b)), default=())


def size_bytes(buffer: Buffer) -> int:
    """Bytes that a buffer takes: in one thread where it is local; in shared memory with whole periods of a swizzle."""
    assert isinstance(buffer.layout, TileLayout)
    return buffer.layout.footprint() * buffer.dtype.bytes


def shared_plan(buffers: Iterable[Buffer]) -> SharedPlan:
    """Places the shared ones of the buffers one after the other, each aligned as it asks.

    Those of the widest alignment come first, so that nothing lies between them; barriers come last.
    """
    shared = [buffer for buffer in buffers if buffer.space == "shared"]
    at = 0
    offsets: list[tuple[Buffer, int]] = []
    for buffer in sorted(shared, key=lambda b: (b.dtype == barrier, -b.align)):
        at = -(-at // buffer.align) * buffer.align
        offsets.append((buffer, at))
        at += size_bytes(buffer)
    return SharedPlan(tuple(offsets), at)


def places(plan: SharedPlan) -> Iterator[tuple[Buffer, str, int]]:
    """For each buffer the variable in which it lies, and its first byte there."""
    for number, (buffer, at) in enumerate(plan.offsets):
        yield (buffer, DYNAMIC, at) if plan.dynamic else (buffer, f"@shared{number}_{legal(buffer.name)}", 0)


def shared_globals(plan: SharedPlan) -> tuple[list[str], dict[str, str]]:
    """The module's definitions of shared memory, and each buffer's address."""
    if plan.dynamic:
        align = max(buffer.align for buffer, _ in plan.offsets)
        line = f"{DYNAMIC} = external addrspace(3) global [0 x i8], align {align}"
        bases = {
            buffer.name: f"getelementptr (i8, ptr addrspace(3) {DYNAMIC}, i64 {at})" for buffer, at in plan.offsets
        }
        return [line], bases
    lines: list[str] = []
    bases = {}
    for buffer, name, _ in places(plan):
        size = size_bytes(buffer)
        lines.append(f"{name} = internal addrspace(3) global [{size} x i8] undef, align {buffer.align}")
        bases[buffer.name] = name
    return lines, bases


def legal(name: str) -> str:
    """`name` with only what both LLVM and PTX take in an identifier; another character becomes its code point."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"${ord(c):x}" for c in name)
