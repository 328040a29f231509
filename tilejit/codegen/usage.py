"""What a thread of a kernel needs: as the driver says, or an estimate until it has compiled the PTX."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.nodes import Kernel
from ..target import most_registers
from .storage import local_memory, most_at_once, size_bytes

__all__ = ["Measurement", "Usage", "estimate"]

#: addresses, indices and what an expression holds while it is computed; an elementwise kernel of one element takes 8 to
#: 16, one of tiles 16 to 32
_BESIDE_TILES = 16


@dataclass(frozen=True, slots=True)
class Usage:
    """Registers of 32 bits, and bytes of local memory that hold what they can't.

    is_estimate: of the tiles alone; no driver has compiled it yet.
    """

    registers: int
    spill_bytes: int
    is_estimate: bool = False


@dataclass(slots=True, eq=False)
class Measurement:
    """A place for what a driver says of a compiled kernel when it has loaded it."""

    usage: Usage | None = None


def estimate(kernel: Kernel) -> Usage:
    """From the local tiles that are needed at once at lane level.

    Each takes its own registers, while ptxas lets the parts of tiles share them: it is rather too much than too little.
    """
    addressed = {buffer.name for buffer in local_memory(kernel.body)}
    tiles = [buffer for buffer in most_at_once(kernel.body) if buffer.name not in addressed]
    needed = sum(-(-size_bytes(buffer) // 4) for buffer in tiles) + _BESIDE_TILES
    registers = min(needed, most_registers(kernel.threads, kernel.max_registers))
    return Usage(registers, 4 * (needed - registers), is_estimate=True)
