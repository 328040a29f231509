"""Rules for the memory that a kernel allocates: valid shapes, types and layouts, the default layout, and alignment.

Used by the frontend, by `tj.operand` and by lowering. The errors raised here carry no source location.
"""

from __future__ import annotations

import math
from functools import lru_cache

from ..dtypes import DType
from ..errors import KernelTypeError, LayoutError
from ..layout import TMEM_LANES, Swizzle, TileLayout, datapath
from ..wording import counted, shown

#: memory space -> default alignment in bytes; tensor memory is addressed in columns of 32 bits
_ALIGN = {"shared": 128, "local": 16, "tmem": 4}


def check_extents(shape: tuple[int, ...]) -> None:
    """Raise KernelTypeError unless every extent is positive."""
    if any(extent < 1 for extent in shape):
        raise KernelTypeError(f"extents must be positive; got {shape}", hint="make each at least 1")


def check_tile_extents(shape: tuple[int, ...]) -> None:
    """Raise KernelTypeError if an extent is negative. Unlike memory, a tile that is a value may be empty."""
    if any(extent < 0 for extent in shape):
        raise KernelTypeError(f"extents can't be negative; got {shape}", hint="make each at least 0")


def check_rank(shape: tuple[int, ...]) -> None:
    """Raise KernelTypeError for an empty shape."""
    if not shape:
        raise KernelTypeError("memory needs at least one dimension", hint="a single element has shape (1,)")


def check_element_type(space: str, dtype: DType) -> None:
    """Raise KernelTypeError if memory of this space can't hold elements of this type."""
    if space == "tmem" and dtype.bits not in (8, 16, 32):
        raise KernelTypeError(
            f"tensor memory holds elements of 8, 16 and 32 bits; {dtype} has {dtype.bits}", hint="use a narrower type"
        )


def fitting_layout(layout: object, shape: tuple[int, ...], space: str) -> TileLayout:
    """Return the layout that a kernel passes for memory of this shape, grouped by the shape's dimensions.

    A Swizzle is accepted, too: it means the row-major layout with this swizzle.
    raises: LayoutError if `layout` is malformed or doesn't fit the shape or the space, KernelTypeError if it isn't a
    layout.
    """
    if isinstance(layout, Swizzle):
        layout = TileLayout.row_major(shape, layout)
    if not isinstance(layout, TileLayout):
        raise KernelTypeError(f"{shown(layout)} is not a layout", hint="write S[extents : strides]")
    return _fitting(layout, shape, space)


@lru_cache(maxsize=256)
def _fitting(layout: TileLayout, shape: tuple[int, ...], space: str) -> TileLayout:
    layout = layout.adapted(shape)
    if layout.size() != math.prod(shape):
        raise LayoutError(
            f"{layout!r} has {counted(layout.size(), 'element')}; shape {shape} has {math.prod(shape)}",
            hint="pass a layout whose extents multiply to the shape's size",
        )
    layout.verify_well_formed()
    for axis in layout.axes():
        if layout.lowest(axis) < 0:
            raise LayoutError(
                f"{layout!r} reaches {axis} = {layout.lowest(axis)}; memory starts at 0",
                hint=f"add an offset: {layout + -layout.lowest(axis) @ axis!r}",
            )
    if space == "shared" and layout.scope is not None:
        raise LayoutError(
            f"{layout!r} has thread axes, but shared memory is common to all threads",
            hint="use memory strides only, as in S[(32, 8) : (8, 1)]",
        )
    if space == "tmem":
        _check_tensor_memory(layout)
    if space == "local" and layout.swizzle is not None:
        raise LayoutError(f"{layout!r} is swizzled; registers have no banks", hint="leave the swizzle out")
    return layout


def _check_tensor_memory(layout: TileLayout) -> None:
    strange = [axis.name for axis in layout.axes() if axis.name not in ("TLane", "TCol")]
    if strange or layout.swizzle is not None:
        raise LayoutError(
            f"{layout!r} has {'axis ' + strange[0] if strange else 'a swizzle'}; "
            "a layout of tensor memory may only have the axes TLane and TCol, and no swizzle",
            hint="use tj.tmem.datapath(path, rows, columns)",
        )
    if layout.span("TLane") > TMEM_LANES:
        raise LayoutError(
            f"{layout!r} reaches lane {layout.span('TLane') - 1}; tensor memory has {TMEM_LANES} lanes",
            hint="put the remaining rows into more columns (TCol)",
        )


def default_layout(space: str, shape: tuple[int, ...]) -> TileLayout:
    """Return the default layout: row-major, or in tensor memory, one row per lane.

    raises: KernelTypeError for tensor memory that doesn't have 2 dimensions and 128 rows.
    """
    if space != "tmem":
        return TileLayout.row_major(shape)
    if len(shape) != 2 or shape[0] != TMEM_LANES:
        raise KernelTypeError(
            f"without a layout, a tensor memory tile must have 2 dimensions and {TMEM_LANES} rows; got {shape}",
            hint='pass a layout, such as tj.tmem.datapath("F", 64, columns) for 64 rows',
        )
    return datapath("D", *shape)


def alignment(space: str, dtype: DType, layout: TileLayout) -> int:
    """Return the alignment of allocated memory in bytes: in shared memory, at least the period of the swizzle."""
    align = _ALIGN[space]
    if space == "shared" and layout.swizzle is not None and not layout.swizzle.is_identity:
        return max(align, layout.swizzle.period * dtype.bytes)
    return align
