"""Elementwise atomic updates of regions."""

from __future__ import annotations

import numpy as np

from ..dtypes import bool_
from ..isa.atomics import OPERATIONS, has_type
from ..wording import counted
from . import axes
from .broadcast import broadcasts
from .copies import INDEX, MASK, VARIANT_NAME, mask_fault
from .record import SCALAR, TILE, Attribute, Attributes, DTypes, Fault, Shapes, TileOperand, TileOperation

OPERATION = Attribute("operation", str, "the operation that updates each element", "add", tuple(OPERATIONS))
ORDER = Attribute("order", str, "the memory order and its scope", "relaxed.gpu")
RETURNS = Attribute("returns", bool, "whether the old values are used", True)


def _shapes(shapes: Shapes, attrs: Attributes) -> Fault | None:
    place = shapes["place"] or ()
    for name, shape in shapes.items():
        if name not in ("place", "index") and shape is not None and not broadcasts(shape, place):
            called = f"a {name}" if name in ("value", "mask") else name
            return Fault(f"{called} of shape {shape} doesn't broadcast to {place}", "slice it, or use x[:, None]")
    return None


def _types(dtypes: DTypes, attrs: Attributes) -> Fault | None:
    place, op = dtypes["place"], str(attrs.get("operation", OPERATION.default))
    mask = dtypes.get("mask")
    if mask is not None and mask != bool_:
        return mask_fault(mask)
    for name in ("value", "desired", "before"):
        if name in dtypes and dtypes[name] != place:
            return Fault(
                f"types differ: the place is {place}, the {name} {dtypes[name]}",
                f"convert in registers: x.astype(tj.{place})",
            )
    if op not in OPERATIONS:
        return None  # reported as a fault of the attribute
    if not has_type(op, place):
        return Fault(f"atomic {op} does not support {place}", "update elements of another type")
    if ("desired" in dtypes) != (op == "cas"):
        count = counted(len(OPERATIONS[op].operands), "value")
        return Fault(f"atomic {op} takes {count}; got a different number", f"see help(tj.atomic.{op})")
    return None


#: operation -> the elementwise operation that gives the new value; NumPy's function has the same name
ELEMENTWISE_NAMES = {
    "add": "add", "max": "maximum", "min": "minimum", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}


def _updated(place: np.ndarray, value: np.ndarray, operation: str = "add") -> np.ndarray:
    """Return `place` with each element updated once by `value`, which broadcasts; not defined for compare-and-swap."""
    values = np.broadcast_to(value, place.shape)
    return np.array(values if operation == "exch" else getattr(np, ELEMENTWISE_NAMES[operation])(place, values))


ATOMIC = TileOperation(
    name="atomic",
    operands=(
        TileOperand("place", "the place", written=True),
        TileOperand("before", optional=True, read=False, written=True),
        TileOperand("value", kinds=(TILE, SCALAR)),
        TileOperand("desired", kinds=(TILE, SCALAR), optional=True),
        MASK,
        INDEX,
    ),
    attrs=(OPERATION, ORDER, RETURNS, VARIANT_NAME),
    meaning="update each element of the place atomically; before = the old values",
    example="x = tj.cta.load(A[0:32, 0:8])\ntj.atomic.add(A[0:32, 0:8], x)", reference=_updated, relation=axes.UPDATE,
    shape_fault=_shapes, type_fault=_types, is_called=False,
)
