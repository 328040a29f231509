"""Copies between a local tile and memory: the two sides, and the digits that they share."""

from __future__ import annotations

from ...errors import LayoutError
from ...ir.nodes import TileOp
from ..conditions import copy_sides
from ..engine import Context
from ..schedule.owners import need_all_threads
from ..schedule.placement import Side, need_slice, side
from ..schedule.schedule import Atom, refine

__all__ = ["register_digits", "register_sides"]


def register_sides(op: TileOp, context: Context) -> tuple[Side, Side, bool]:
    """(registers, memory, whether the registers are the destination) of a copy with one local side.

    raises: LayoutError where the registers' owners aren't exactly the threads of the scope, or a region is no slice.
    """
    dst, src = copy_sides(op)
    loads = dst.buffer.space == "local"
    registers, memory = (side(r, op.scope) for r in ((dst, src) if loads else (src, dst)))
    need_all_threads(registers, op.scope, context.count(op.scope))
    need_slice(registers)
    need_slice(memory)
    return registers, memory, loads


def register_digits(registers: Side, memory: Side) -> tuple[Atom, ...]:
    """The digits in which both sides move by one stride each, slowest first.

    raises: LayoutError where there are none.
    """
    found = refine((registers, memory))
    if any(a.is_folded for a in found):
        raise LayoutError(
            f"{registers.buffer.name} and {memory.buffer.name} split a dimension so differently "
            "that one step in registers isn't one step in memory",
            hint="choose layouts whose extents divide each other",
        )
    return found
