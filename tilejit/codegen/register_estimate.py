"""An estimate of what a thread of a kernel needs, until a driver has compiled the PTX."""

from __future__ import annotations

from ..ir.analyses.pressure import Pressure
from ..ir.analyses.register_pool import most_of_a_thread
from ..ir.nodes import Kernel
from ..register_usage import Usage
from .storage import local_memory, most_at_once

__all__ = ["OTHER_REGISTERS", "estimate"]

#: addresses, indices and what an expression holds while it is computed; an elementwise kernel of one element takes 8 to
#: 16, one of tiles 16 to 32
OTHER_REGISTERS = 16


def estimate(kernel: Kernel, pressure: Pressure | None) -> Usage:
    """From the local tiles. pressure: theirs, None where all of them fit.

    registers: of those that are needed at once at lane level, each with its own from its first use to its last. ptxas
    takes about as many while there are enough, so that more is in flight: it is rather too much than too little.
    spills: what those that are live at one place can't have.
    """
    limit = most_of_a_thread(kernel)
    tiles = most_at_once(kernel.body)
    if tiles:
        addressed = {buffer.name for buffer in local_memory(kernel.body)}
        tiles = tuple([buffer for buffer in tiles if buffer.name not in addressed])
    wanted = sum(-(-buffer.size_bytes // 4) for buffer in tiles) + OTHER_REGISTERS
    needed = 0 if pressure is None else pressure.words + OTHER_REGISTERS
    return Usage(min(wanted, limit), 4 * max(0, needed - limit), is_estimate=True)
