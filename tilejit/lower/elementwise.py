"""Conditions and operands shared by elementwise variants."""

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

#: a tile's placement, and for each dimension of the destination the corresponding dimension of the placement, or None
Placed = tuple[Placement, tuple[int | None, ...]]

#: tile operations that compute each element independently
OPERATIONS = (FILL.name, CAST.name, *ELEMENTWISE)


def _broadcasts(op: TileOp, context: DispatchContext) -> str | None:
    dst, *inputs = op.tiles.values()
    for tile in inputs:
        if not broadcasts(tile.shape, dst.shape):
            return f"shape {tile.shape} of {tile.buffer.name} doesn't broadcast to {dst.shape}"
    return None


ELEMENTWISE_CONDITIONS = (SCOPE, TYPES, Condition("broadcast", _broadcasts))


def placed_tiles(op: TileOp) -> dict[str, Placed]:
    """Return each tile's placement, and its dimension that corresponds to each dimension of the destination.

    The dimension is None if the tile lacks it or broadcasts it. Dimensions of extent 1 are left out.
    raises: LayoutError if a tile doesn't belong to the scope.
    """
    shape = op.region("dst").shape
    return {name: (place(tile, op.scope), broadcast_along(tile.shape, shape)) for name, tile in op.tiles.items()}


def schedule(tiles: Mapping[str, Placed]) -> DigitSchedule:
    """Return the iteration space of an operation in digits. raises: LayoutError if tiles have no common digits."""
    return DigitSchedule.of(tiles["dst"][0].shape, tiles)


def inputs_of(op: TileOp, b: Builder) -> list[str | Expr]:
    """Return the inputs of `op` in order: the name of each tile, and each scalar as a variable or constant."""
    return [name if isinstance(o, Region) else b.let("scalar", o) for name, o in op.inputs.items()]
