"""The predefined layout of swizzled tiles in shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import LayoutError
from .arguments import extents
from .axes import m
from .iters import Iter, weights
from .swizzle import Swizzle
from .tile_layout import TileLayout

_ATOM_ROWS = 8


def swizzled_atom_layout(shape: Sequence[int], bits: int, mode: str) -> TileLayout:
    """Return a shared memory layout for ldmatrix, TMA, wgmma and tcgen05: atoms of 8 rows by 16, 32, 64 or 128 bytes.

    The last two dimensions are tiled by the atom. In memory, blocks of rows are fastest, then blocks of columns, then
    the leading dimensions.
    shape: at least two dimensions. bits: the width of an element. mode: "none" (16 bytes), "32B", "64B" or "128B".
    source: `mma_shared_layout` of Apache TVM's TIRx.
    """
    swizzle = Swizzle.for_dtype(bits, mode)
    atom_columns = swizzle.chunk << swizzle.bits
    shape = extents(shape)
    if len(shape) < 2:
        raise LayoutError(
            f"a swizzled tile has rows and columns; got shape {tuple(shape)}", hint="give at least two extents"
        )
    *leading, rows, columns = shape
    if rows % _ATOM_ROWS != 0 or columns % atom_columns != 0:
        raise LayoutError(
            f"shape {tuple(shape)} doesn't divide into atoms of {_ATOM_ROWS} rows by {atom_columns} columns "
            f"(swizzle mode {mode!r}, {bits}-bit elements)",
            hint=f"pad rows to a multiple of {_ATOM_ROWS} and columns to one of {atom_columns}"
            + (", or choose a narrower swizzle" if columns % atom_columns and swizzle.bits else ""),
        )
    outer = (Iter(n, w * rows * columns, m) for n, w in zip(leading, weights(leading), strict=True))
    tile = (
        Iter(rows, atom_columns, m),
        Iter(columns // atom_columns, rows * atom_columns, m),
        Iter(atom_columns, 1, m),
    )
    return TileLayout((*outer, *tile), swizzle=None if swizzle.is_identity else swizzle)
