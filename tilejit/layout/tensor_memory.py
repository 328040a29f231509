"""The layouts `tj.tmem.datapath` and `tj.tcgen05.atom_layout`."""

from __future__ import annotations

from ..dtypes import DType, as_dtype
from ..errors import LayoutError
from ..wording import shown
from .arguments import integer
from .axes import m
from .iters import Iter
from .stock import TCGEN05_SHAPES, tcgen05_atom_layout, tmem_datapath_layout
from .tile_layout import TileLayout

#: lanes (rows) of a CTA's tensor memory, each of 512 columns of 32 bits
TMEM_LANES = 128

_WORD = 32


def datapath(path: str, rows: int, columns: int, half: int = 0) -> TileLayout:
    """Return the tensor memory layout of an accumulator.

    path: "A" or "D": 128 rows, row r in lane r; "C" or "F": 64 rows, in 16 of every 32 lanes, the upper ones if `half`
    is 1; "B" or "E": 64 rows, with the right half of the columns in lanes 64 to 127; "G": 32 rows, with a quarter of
    the columns in every 32 lanes. columns: in elements.
    source: PTX ISA, "tcgen05: data path layout organization".

    Example:
        path = tj.tmem.datapath("F", 64, 32)
        assert path.apply(16, 0, shape=(64, 32)) == {"TLane": 32, "TCol": 0}
    """
    return tmem_datapath_layout(path, rows, columns, half)


def atom_layout(shape: str, num: int, dtype: DType, rows: int = 128) -> TileLayout:
    """Return the register layout of `.shape.xN` instructions in a warpgroup.

    shape: "32x32b", "16x64b", "16x128b" or "16x256b". num: the instruction's N, a power of two.
    rows: rows of the tile: 128, for which a `.16x*b` shape takes two instructions, or 64, for data paths F and B.
    dtype: a type of 8, 16 or 32 bits; narrow elements share a register and a 32-bit column.
    returns: a layout of (rows, columns) elements.

    Example:
        row = tj.tcgen05.atom_layout("32x32b", 8, tj.float32)
        assert row.apply(1, 2, shape=(128, 8)) == {"tid_in_wg": 1, "m": 2}
    """
    if not isinstance(shape, str) or shape not in TCGEN05_SHAPES:
        raise LayoutError(f"no tcgen05 shape {shown(shape)}", hint=f"write one of {', '.join(TCGEN05_SHAPES)}")
    form = TCGEN05_SHAPES[shape]
    if not isinstance(num, int) or not 1 <= num <= form.max_num or num & (num - 1):
        raise LayoutError(
            f"{shape}.x{shown(num)} doesn't exist: N is a power of two up to {form.max_num}",
            hint=f"write a power of two from 1 to {form.max_num}",
        )
    rows = integer(rows, "a number of rows", "write 64 or 128")
    if rows not in (64, 128):
        raise LayoutError(f"a warpgroup moves 64 or 128 rows; got {shown(rows)}", hint="write 64 or 128")
    element = as_dtype(dtype)
    if element is None:
        raise LayoutError(f"{shown(dtype)} is not an element type", hint="write tj.float32, or another type")
    if element.bits not in (8, 16, 32):
        raise LayoutError(
            f"tensor memory holds elements of 8, 16 and 32 bits; {element} has {element.bits}",
            hint="view the elements as a type of these widths",
        )
    halves = 2 if shape == "32x32b" and rows == 64 else 1
    words = tcgen05_atom_layout(shape, (rows, num * form.columns * halves), _WORD)
    packed = _WORD // element.bits
    if packed == 1:
        return words
    spread = (Iter(it.extent, it.stride * packed, m) if it.axis == m else it for it in words.shard)
    return TileLayout((*spread, Iter(packed, 1, m)))
