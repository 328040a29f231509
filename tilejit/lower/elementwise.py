"""What elementwise operations share wherever their operands live."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.nodes import Expr, Region, TileOp
from ..ops.broadcast import broadcasts
from ..ops.copies import CAST, FILL
from ..ops.elementwise import ELEMENTWISE
from .builder import Builder
from .schedule.placement import Placement, place
from .schedule.views import DigitSchedule, broadcast_along
from .variant import SCOPE, TYPES, Condition, DispatchContext

__all__ = ["ELEMENTWISE_CONDITIONS", "OPERATIONS", "Placed", "inputs_of", "placed_tiles", "schedule"]

#: a tile's place, and for each dimension of the destination that of the place that goes along it
Placed = tuple[Placement, tuple[int | None, ...]]

#: tile operations that compute each element by itself
OPERATIONS = (FILL.name, CAST.name, *ELEMENTWISE)


def _broadcasts(op: TileOp, context: DispatchContext) -> str | None:
    dst, *inputs = op.tiles.values()
    for tile in inputs:
        if not broadcasts(tile.shape, dst.shape):
            return f"shape {tile.shape} of {tile.buffer.name} doesn't broadcast to {dst.shape}"
    return None


#: what every elementwise operation needs
ELEMENTWISE_CONDITIONS = (SCOPE, TYPES, Condition("broadcast", _broadcasts))


def placed_tiles(op: TileOp) -> dict[str, Placed]:
    """Where each tile is, and which of its dimensions goes along each of the destination's without units.

    None where the tile lacks the dimension, or has it once: then it doesn't move.
    raises: LayoutError where a tile isn't the scope's.
    """
    shape = op.region("dst").shape
    return {name: (place(tile, op.scope), broadcast_along(tile.shape, shape)) for name, tile in op.tiles.items()}


def schedule(tiles: Mapping[str, Placed]) -> DigitSchedule:
    """The digits of an operation on placed tiles.

    raises: LayoutError where tiles give a dimension to threads and split it without common digits.
    """
    return DigitSchedule.of(tiles["dst"][0].shape, tiles)


def inputs_of(op: TileOp, b: Builder) -> list[str | Expr]:
    """What each element is computed from, in order: tiles by name, scalars as variables."""
    return [name if isinstance(o, Region) else b.let("scalar", o) for name, o in op.inputs.items()]
