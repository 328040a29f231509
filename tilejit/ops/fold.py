"""The operation `reduce`, which combines elements along axes, in order, with a user-defined function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..wording import counted
from . import axes
from .copies import DST, VARIANT_NAME
from .record import Attribute, Attributes, CombineFunction, DTypes, Fault, Shapes, TileOperand, TileOperation
from .reduce import AXIS, axes_fault, axes_of, flattened

COMBINE = Attribute("combine", CombineFunction, "the function that combines two values")

#: the operand names of (destination, source) pairs, one pair for each value that the function combines
PAIRS = (("dst", "src"), ("dst2", "src2"), ("dst3", "src3"), ("dst4", "src4"))

_OTHERS = tuple(
    operand
    for dst, src in PAIRS[1:]
    for operand in (
        TileOperand(dst, optional=True, read=False, written=True),
        TileOperand(src, optional=True),
    )
)


def _given(names: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    return ((dst, src) for dst, src in PAIRS if dst in names and src in names)


def _shape_fault(shapes: Shapes, attrs: Attributes) -> Fault | None:
    for dst, src in PAIRS:
        if (dst in shapes) != (src in shapes):
            one, other = (dst, src) if dst in shapes else (src, dst)
            return Fault(f"{one} is given without {other}", "give each source together with its destination")
    for dst, src in _given(shapes):
        if shapes[src] != shapes["src"]:
            return Fault(f"the tiles have shapes {shapes['src']} and {shapes[src]}", "give tiles of one shape")
        fault = axes_fault({"dst": shapes[dst], "src": shapes[src]}, attrs)
        if fault is not None:
            return fault
    return None


def _type_fault(dtypes: DTypes, attrs: Attributes) -> Fault | None:
    combine = attrs.get(COMBINE.name)
    if not isinstance(combine, CombineFunction):
        return Fault("reduce needs a function", "give combine=, a @tj.function that combines two values")
    pairs = list(_given(dtypes))
    types = tuple([dtypes[src] for _, src in pairs])
    for dst, src in pairs:
        if dtypes[src].is_fp8:
            return Fault(f"reduce of {dtypes[src]}: fp8 is a storage type", "cast it first, for example to float32")
        if dtypes[dst] != dtypes[src]:
            return Fault(
                f"reduce of {dtypes[src]} gives {dtypes[src]}; the destination is {dtypes[dst]}",
                "change the destination's type, or convert the source first",
            )
    if len(combine.gives) != len(types):
        return Fault(
            f"combine returns {counted(len(combine.gives), 'value')} for {counted(len(types), 'tile')}",
            "return one value for each tile",
        )
    if combine.takes != types:
        taken = ", ".join(map(str, combine.takes))
        return Fault(f"combine takes {taken}; the tiles are of {', '.join(map(str, types))}", "convert the tiles")
    for k, (given, dtype) in enumerate(zip(combine.gives, types, strict=True)):
        if given != dtype:
            which = f" of value {k}" if len(types) > 1 else ""
            return Fault(
                f"combine changes the dtype{which}: it returns {given} for {dtype}",
                f"convert what it returns, as in tj.{dtype}(...), or the tile, as in x.astype(tj.{given})",
            )
    return None


def folded(sources: Sequence[np.ndarray], axes: tuple[int, ...], combine: CombineFunction) -> tuple[np.ndarray, ...]:
    """Combine the elements of arrays of one shape from first to last, in row-major order over `axes`."""
    columns = [flattened(x, axes) for x in sources]
    made = tuple(column[..., 0] for column in columns)
    for k in range(1, columns[0].shape[-1]):
        made = combine(made, [column[..., k] for column in columns])
    return made


def _reference(
    dst: np.ndarray, src: np.ndarray, combine: CombineFunction, axis: tuple[int, ...] | None = None
) -> np.ndarray:
    (made,) = folded([src], axes_of({AXIS.name: axis}, src.ndim), combine)
    return np.asarray(made, dst.dtype).reshape(dst.shape)


REDUCE = TileOperation(
    name="reduce", operands=(DST, TileOperand("src", "the source"), *_OTHERS), attrs=(AXIS, COMBINE, VARIANT_NAME),
    meaning="dst, dst2, ... = src, src2, ..., reduced over axes by one function, in the order of the elements",
    example=(
        "def last(a, b): return tj.where(b != 0.0, b, a)\n"
        "x = tj.alloc_local((32,), tj.float32); tj.thread.reduce(x, tj.thread.load(A[0:32, 0:8]), 1, last)"
    ),
    reference=_reference, relation=axes.REDUCTION, shape_fault=_shape_fault, type_fault=_type_fault,
)
