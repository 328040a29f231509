"""The digits of a copy between registers and memory, and its fill value."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import Expr, Region, TileOp
from ...ops.copies import INDEX
from ..schedule.owners import need_all_threads, need_same_threads
from ..schedule.placement import Placement, need_slice, place
from ..schedule.views import DigitSchedule, broadcast_along
from ..variant import local_side


def register_copy(op: TileOp, threads: int) -> tuple[DigitSchedule, bool]:
    """Return the digits of a copy between "registers" and "memory", and whether registers are the destination.

    A mask is the operand "mask", and an index that is a tile is "index".
    raises: LayoutError if no common digits exist, a local tile isn't owned by exactly the threads of the scope or is in
    other threads than the registers, or a region cuts through parts of its layout.
    """
    local, other, loads = local_side(op)
    registers, memory = place(local, op.scope), place(other, op.scope)
    need_all_threads(registers, op.scope, threads)
    need_slice(registers)
    need_slice(memory)
    every = tuple(range(len(registers.shape)))
    # the index selects positions in the leading dimensions; the others have strides in memory
    boxes = len([extent for extent in other.index_shape if extent != 1])
    tiles: dict[str, tuple[Placement, Sequence[int | None]]]
    tiles = {"registers": (registers, every), "memory": (memory, (None,) * boxes + every[: len(every) - boxes])}
    extra = {"mask": broadcast_along(op.region("mask").shape, op.region("dst").shape)} if "mask" in op.options else {}
    if isinstance(op.index, Region):
        extra[INDEX.name] = every[:boxes] + (None,) * (len(every) - boxes)
    for name, along in extra.items():
        tiles[name] = place(op.region(name), op.scope), along
        need_all_threads(tiles[name][0], op.scope, threads)
    schedule = DigitSchedule.of(registers.shape, tiles)
    for name in extra:
        need_same_threads(schedule, "registers", name)
    if schedule.is_folded:
        raise LayoutError(
            f"the layouts of {registers.buffer.name} and {memory.buffer.name} split a dimension in incompatible ways: "
            "their extents have no common refinement",
            hint="choose layouts whose extents divide each other",
        )
    return schedule, loads


def fill_value(op: TileOp) -> Expr:
    """Return the value that a copy reads outside its source, 0 by default."""
    dtype = op.region("dst").dtype
    fill = op.value("fill")
    return build.const(0, dtype) if fill is None else build.cast(fill, dtype)
