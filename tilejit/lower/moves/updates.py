"""Instructions that update several elements of memory at once."""

from __future__ import annotations

from ...ir.nodes import Region, TileOp
from ...isa.atomics import RED_VECTOR, VectorForm, vectors_of
from ...target import Target

__all__ = ["update_forms"]


def update_forms(op: TileOp, target: Target) -> tuple[VectorForm, ...]:
    """Those that an atomic operation may use where memory is aligned to them, the widest first.

    None of them tells what was there before, and only the usual order has rows of its own.
    """
    place = op.region("place")
    is_read = op.attr("returns") and "before" in op.options
    if is_read or not isinstance(op.operand("value"), Region) or op.attr("order") != "relaxed.gpu":
        return ()
    forms = vectors_of(str(op.attr("operation")), place.dtype, place.buffer.space)
    return tuple(form for form in forms if RED_VECTOR.row(form).missing(target) is None)
