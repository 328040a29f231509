"""Checks of a kernel's use of shared, local and tensor memory and of registers against their limits.

`estimate` predicts the use of registers; its result is used until a driver has compiled the PTX.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..errors import ResourceError
from ..executable import Usage
from ..ir.analyses.pressure import Pressure, most_live, words
from ..ir.analyses.register_pool import most_of_a_thread
from ..ir.nodes import Buffer, Kernel
from ..ir.placements import SHARED, TMEM, MemoryPlacement, total, within
from ..target import MAX_REGISTERS, MAX_THREADS, REGISTERS, TMEM_COLUMNS, Target, most_registers
from .storage import allocations, local_memory, most_at_once

#: bytes of local memory that this compiler allows per thread
_LOCAL_LIMIT = 16 * 1024

#: the hardware's limit on local memory per thread in bytes, including spilled registers
#: source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
_THREAD_LIMIT = 512 * 1024

#: Tiles may exceed the register limit by 1/8: within that margin ptxas spills at most a few hundred bytes (measured: 0
#: to 344 if tiles take all 255 registers), which is better than an error; beyond it, ptxas spills kilobytes, sometimes
#: nearly all tiles.
_TOLERATED = 8

#: registers for addresses, indices and temporaries; elementwise kernels take 8 to 16 with one element per thread, and
#: 16 to 32 with tiles
_OTHER_REGISTERS = 16

#: the maximum number of buffers that an error names; an error about tensor memory names all
_NAMED = 5


def check_shared_memory(
    kernel: Kernel, target: Target, memory: Sequence[MemoryPlacement], buffers: Sequence[Buffer]
) -> None:
    """Raise ResourceError if the buffers need more shared memory than a CTA can have. memory: the placements."""
    wanted, limit = total(memory, *SHARED), target.shared_bytes
    if wanted > limit:
        excess = f"{wanted:,} bytes of shared memory; {target} has {limit:,} for a CTA"
        hint = "use smaller tiles or fewer stages, or a narrower dtype"
        raise _error(kernel, excess, _placed(within(memory, *SHARED), buffers), hint)


def check_tensor_memory(kernel: Kernel, memory: Sequence[MemoryPlacement], buffers: Sequence[Buffer]) -> None:
    """Raise ResourceError if the buffers need more tensor memory columns than a CTA has. memory: the placements."""
    columns = total(memory, TMEM)
    if columns > TMEM_COLUMNS:
        excess = f"{columns} columns of tensor memory; a CTA has {TMEM_COLUMNS}"
        placed = _placed(within(memory, TMEM), buffers)
        raise _error(kernel, excess, placed, "use narrower tiles, or one buffer for several purposes", len(placed))


def _placed(placements: Sequence[MemoryPlacement], buffers: Sequence[Buffer]) -> list[tuple[Buffer, int]]:
    """Return the buffers that `placements` names, each with the size of its placement."""
    counts = {p.name: p.count for p in placements}
    return [(b, counts[b.name]) for b in buffers if b.name in counts]


def check_local_memory(kernel: Kernel, buffers: Sequence[Buffer], addressed: Collection[str] = ()) -> None:
    """Raise ResourceError if buffers in local memory, or all local buffers that are live at once, exceed their limit.

    addressed: names of the buffers in local memory. Buffers larger than `_LOCAL_LIMIT` count as being in local
    memory, because ptxas would spill them.
    """
    local = [(b, b.size_bytes) for b in buffers if b.space == "local"]
    spilled = [(b, size) for b, size in local if b.name in addressed or size > _LOCAL_LIMIT]
    _limit_local(kernel, spilled, "local memory", _LOCAL_LIMIT)
    if sum([size for _, size in local]) > _THREAD_LIMIT:
        live = {b.name for b in most_at_once(kernel.body)}
        at_once = [(b, size) for b, size in local if b.name in live]
        _limit_local(kernel, at_once, "registers and local memory", _THREAD_LIMIT)


def _limit_local(kernel: Kernel, sizes: Sequence[tuple[Buffer, int]], memory: str, limit: int) -> None:
    wanted = sum(size for _, size in sizes)
    if wanted > limit:
        excess = f"{wanted:,} bytes of {memory} per thread; the limit is {limit:,}"
        hint = "use smaller tiles, spread them over more threads, or keep them in shared memory"
        raise _error(kernel, excess, sizes, hint)


def _error(
    kernel: Kernel, excess: str, sizes: Sequence[tuple[Buffer, int]], hint: str, named: int = _NAMED
) -> ResourceError:
    """Return the error of a kernel that needs too much memory. named: the number of the largest buffers to name."""
    largest = sorted(sizes, key=lambda pair: pair[1], reverse=True)
    listed = ", ".join(f"{b.name} {size:,}" for b, size in largest[:named])
    span = largest[0][0].span or kernel.span
    return ResourceError(f"{kernel.name} needs {excess}. Largest: {listed}", span=span, hint=hint)


def most_words(kernel: Kernel) -> int:
    """Return the number of registers that live tiles may take: 1/8 more than a thread of the kernel can have."""
    limit = most_of_a_thread(kernel)
    return limit + limit // _TOLERATED


def check_registers(kernel: Kernel, addressed: Collection[str]) -> Pressure | None:
    """Raise ResourceError if the tiles that are live at once need too many registers.

    kernel: at tile level. addressed: names of the buffers in local memory.
    returns: the point of maximum pressure; None if all tiles fit at once, with `_OTHER_REGISTERS` to spare.
    """
    limit = most_of_a_thread(kernel)
    local = [b for b in allocations(kernel.body) if b.space == "local" and b.name not in addressed]
    # a cheap upper bound: as if all tiles were live at once
    if sum(map(words, local)) + _OTHER_REGISTERS <= limit:
        return None
    pressure = most_live(kernel.body, addressed)
    if pressure.words <= most_words(kernel):
        return pressure
    listed = ", ".join(f"{buffer.name} {count}{_line(buffer)}" for buffer, count in pressure.tiles[:_NAMED])
    raise ResourceError(
        f"{kernel.name} needs {pressure.words:,} registers per thread for the tiles that are live at once; "
        f"the limit is {limit}{_cause(kernel, limit)}. Largest: {listed}",
        span=pressure.stmt.span if pressure.stmt is not None else kernel.span,
        hint=f"{_more(kernel, pressure)}make the tiles smaller, or process them in a loop, one part at a time",
    )


def _line(buffer: Buffer) -> str:
    return "" if buffer.span is None else f" (line {buffer.span.line})"


def _cause(kernel: Kernel, limit: int) -> str:
    if limit == MAX_REGISTERS:
        return ""
    if limit > most_registers(kernel.threads, kernel.max_registers):
        return " (set by tj.set_registers)"
    if limit == kernel.max_registers:
        return f" (max_registers={limit})"
    return f": {kernel.threads} threads share {REGISTERS:,}"


def _more(kernel: Kernel, pressure: Pressure) -> str:
    """Return the part of the hint that lists changes which would make more registers available, "" if none would."""
    is_for_threads = kernel.threads < MAX_THREADS and pressure.words * kernel.threads <= REGISTERS
    is_asked = most_registers(kernel.threads, None) > most_registers(kernel.threads, kernel.max_registers)
    return ("use more threads, " if is_for_threads else "") + ("raise max_registers, " if is_asked else "")


def estimate(kernel: Kernel, pressure: Pressure | None) -> Usage:
    """Return an estimate of a lane-level kernel's registers and spills. pressure: the result of `check_registers`.

    Registers: the most that tiles occupy at once at lane level, if each is live from its first to its last use, plus
    `_OTHER_REGISTERS`, but at most the limit. The kernel may need fewer, but ptxas uses about as many if available, to
    keep loads in flight. Spills: the excess of the maximum pressure, plus `_OTHER_REGISTERS`, over the limit.
    """
    limit = most_of_a_thread(kernel)
    tiles = most_at_once(kernel.body)
    if tiles:
        addressed = {buffer.name for buffer in local_memory(kernel.body)}
        tiles = tuple([buffer for buffer in tiles if buffer.name not in addressed])
    wanted = sum(-(-buffer.size_bytes // 4) for buffer in tiles) + _OTHER_REGISTERS
    needed = 0 if pressure is None else pressure.words + _OTHER_REGISTERS
    return Usage(min(wanted, limit), 4 * max(0, needed - limit), is_estimate=True)
