"""An estimate of a kernel's register usage, for use until a driver has compiled the PTX."""

from __future__ import annotations

from ..executable import Usage
from ..ir.analyses.pressure import Pressure
from ..ir.analyses.register_pool import most_of_a_thread
from ..ir.nodes import Kernel
from .storage import local_memory, most_at_once

#: registers for addresses, indices and temporaries; an elementwise kernel takes 8 to 16 if each thread has one element,
#: and 16 to 32 if it has tiles
OTHER_REGISTERS = 16


def estimate(kernel: Kernel, pressure: Pressure | None) -> Usage:
    """Return an estimate of the register usage. pressure: the result of `check_registers`.

    Registers: `OTHER_REGISTERS` and the tiles in registers that are live at once at lane level, each from its first to
    its last use, up to the limit. The kernel may need fewer, but ptxas uses about as many if available, to keep loads
    in flight. Spills: the excess over the limit at the point of maximum pressure.
    """
    limit = most_of_a_thread(kernel)
    tiles = most_at_once(kernel.body)
    if tiles:
        addressed = {buffer.name for buffer in local_memory(kernel.body)}
        tiles = tuple([buffer for buffer in tiles if buffer.name not in addressed])
    wanted = sum(-(-buffer.size_bytes // 4) for buffer in tiles) + OTHER_REGISTERS
    needed = 0 if pressure is None else pressure.words + OTHER_REGISTERS
    return Usage(min(wanted, limit), 4 * max(0, needed - limit), is_estimate=True)
