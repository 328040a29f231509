"""The operation `sort`, which sorts the rows of tiles of integers by their keys and may keep only the first elements.

The frontend maps the elements of `tj.sort`, `tj.argsort` and `tj.top_k` to such keys (`frontend/sorting.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from . import axes
from .copies import DST, VARIANT_NAME
from .record import Attribute, Attributes, DTypes, Fault, Shapes, TileOperand, TileOperation

KEYS = Attribute("keys", int, "the number of leading tiles that are compared, the first one first", default=1)

INDEXED = Attribute("indexed", bool, "True if the keys end with the element's index, so that ties keep their order")

#: the operand names of (destination, source) pairs: the tiles that are compared, then those that move along with them
PAIRS = (("dst", "src"), *((f"dst{k}", f"src{k}") for k in range(2, 7)))

_OTHERS = tuple(
    operand
    for dst, src in PAIRS[1:]
    for operand in (TileOperand(dst, optional=True, read=False, written=True), TileOperand(src, optional=True))
)


def given_pairs(names: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    return ((dst, src) for dst, src in PAIRS if dst in names and src in names)


def _shape_fault(shapes: Shapes, attrs: Attributes) -> Fault | None:
    wanted, kept = shapes["src"] or (), shapes["dst"] or ()
    for dst, src in PAIRS:
        if (dst in shapes) != (src in shapes):
            one, other = (dst, src) if dst in shapes else (src, dst)
            return Fault(f"{one} is given without {other}", "give each source together with its destination")
        if dst in shapes and (shapes[src] != wanted or shapes[dst] != kept):
            return Fault("the sources or the destinations differ in shape", "give tiles of one shape")
    if not wanted or wanted[:-1] != kept[:-1] or kept[-1:] > wanted[-1:]:
        return Fault(f"rows of {wanted} don't sort to {kept}", "give destinations whose rows are at most as long")
    return None


def _type_fault(dtypes: DTypes, attrs: Attributes) -> Fault | None:
    for dst, src in given_pairs(dtypes):
        if dtypes[dst] != dtypes[src]:
            return Fault(f"{src} has type {dtypes[src]}, and {dst} {dtypes[dst]}", "give tiles of one type")
        if dtypes[src].kind != "uint" or dtypes[src].bits < 32:
            return Fault(f"sort takes uint32 and uint64; got {dtypes[src]}", "convert the tiles")
    return None


def _reference(dst: np.ndarray, src: np.ndarray, **attrs: object) -> np.ndarray:
    return np.sort(src, axis=-1)[..., : dst.shape[-1]]


SORT = TileOperation(
    name="sort", operands=(DST, TileOperand("src", "the source"), *_OTHERS), attrs=(KEYS, INDEXED, VARIANT_NAME),
    meaning="dst, dst2, ... = the first elements of each row of src, src2, ..., in ascending order of the keys",
    example="x = tj.cta.load(A[0:32, 0:8])\ny = tj.sort(x)",
    reference=_reference, relation=axes.SORTED, shape_fault=_shape_fault, type_fault=_type_fault, is_called=False,
)
