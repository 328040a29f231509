"""Copies between a local tile and memory: the digits that both share."""

from __future__ import annotations

from ...errors import LayoutError
from ...ir.nodes import TileOp
from ..conditions import copy_sides
from ..engine import DispatchContext
from ..schedule.owners import need_all_threads
from ..schedule.placement import need_slice, place
from ..schedule.views import Schedule

__all__ = ["register_copy"]


def register_copy(op: TileOp, context: DispatchContext) -> tuple[Schedule, bool]:
    """The digits in which "registers" and "memory" move by one stride each, and whether registers are the destination.

    accepts: a copy with one local side.
    raises: LayoutError where there are none, the registers' owners aren't exactly the threads of the scope, or a region
    is no slice.
    """
    dst, src = copy_sides(op)
    loads = dst.buffer.space == "local"
    registers, memory = (place(r, op.scope) for r in ((dst, src) if loads else (src, dst)))
    need_all_threads(registers, op.scope, context.count(op.scope))
    need_slice(registers)
    need_slice(memory)
    schedule = Schedule.alike({"registers": registers, "memory": memory})
    if any(digit.is_folded for digit in schedule.digits):
        raise LayoutError(
            f"{registers.buffer.name} and {memory.buffer.name} split a dimension so differently "
            "that one step in registers isn't one step in memory",
            hint="choose layouts whose extents divide each other",
        )
    return schedule, loads
