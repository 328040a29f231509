"""The digits of atomic updates of memory by registers, and the vector forms that apply to them."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import LayoutError
from ...ir.nodes import Region, TileOp
from ...isa.atomics import RED_VECTOR, VectorForm, vectors_of
from ...target import Target
from ..schedule.owners import need_all_threads, need_same_threads
from ..schedule.placement import Placement, need_slice, place
from ..schedule.views import DigitSchedule, broadcast_along

#: operands that may have the shape of "place"; the first that has it becomes "registers"
_OWNERS = ("before", "value", "desired")


def update_schedule(op: TileOp, threads: int) -> tuple[DigitSchedule, str]:
    """Return the digits of "memory" and the tiles, and the name of the tile "registers", or raise LayoutError."""
    tiles, place_of = op.tiles, place(op.region("place"), op.scope)
    owner = next((name for name in _OWNERS if name in tiles and tiles[name].shape == tiles["place"].shape), None)
    if owner is None:
        raise LayoutError("no tile of values has the place's shape, so no thread owns its elements")
    need_slice(place_of)
    boxes = len([extent for extent in op.region("place").index_shape if extent != 1])
    owning = place(tiles[owner], op.scope)
    every = tuple(range(len(owning.shape)))
    placed: dict[str, tuple[Placement, Sequence[int | None]]] = {
        "registers": (owning, every), "memory": (place_of, (None,) * boxes + every[: len(every) - boxes])
    }
    for name, tile in tiles.items():
        if name not in ("place", owner):
            along = broadcast_along(tile.shape, tiles["place"].shape)
            if name == "index":
                along = every[:boxes] + (None,) * (len(every) - boxes)
            placed[name] = place(tile, op.scope), along
    for name, (placement, _) in placed.items():
        if name != "memory":
            need_all_threads(placement, op.scope, threads)
    schedule = DigitSchedule.of(owning.shape, placed)
    for name in placed:
        if name not in ("registers", "memory"):
            need_same_threads(schedule, "registers", name)
    if schedule.is_folded:
        raise LayoutError("a tile and the place split a dimension into steps that don't match")
    return schedule, owner


def update_forms(op: TileOp, target: Target) -> tuple[VectorForm, ...]:
    """Return the vector forms, widest first; () for reads of old values, scalars, and orders other than relaxed.gpu."""
    place = op.region("place")
    is_read = op.attr("returns") and "before" in op.options
    if is_read or not isinstance(op.operand("value"), Region) or op.attr("order") != "relaxed.gpu":
        return ()
    forms = vectors_of(str(op.attr("operation")), place.dtype, place.buffer.space)
    return tuple(form for form in forms if RED_VECTOR.row(form).missing(target) is None)
