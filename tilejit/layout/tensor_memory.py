"""`tj.tmem.datapath` and `tj.tcgen05.atom_layout`: layouts of tensor memory, and of registers copied to or from it."""

from __future__ import annotations

from ..dataclass import dataclass
from ..dtypes import DType, as_dtype
from ..errors import LayoutError
from ..wording import shown
from .arguments import integer
from .axes import Axis, TCol, TLane, laneid, m, tid_in_wg, wid_in_wg
from .iters import Iter
from .tile_layout import TileLayout

#: lanes (rows) of a CTA's tensor memory, each of 512 columns of 32 bits
TMEM_LANES = 128


def datapath(path: str, rows: int, columns: int, half: int = 0) -> TileLayout:
    """Return the tensor memory layout of an accumulator.

    path: "A" or "D": 128 rows, row r in lane r; "C" or "F": 64 rows, in 16 of every 32 lanes, the upper 16 if `half`
    is 1; "B" or "E": 64 rows, with the right half of the columns in lanes 64 to 127; "G": 32 rows, with a quarter of
    the columns in every 32 lanes. rows: as `path` requires. columns: the number of elements of a row.
    source: PTX ISA, "Data Path Layout Organization".

    Example:
        path = tj.tmem.datapath("F", 64, 32)
        assert path.apply(16, 0, shape=(64, 32)) == {"TLane": 32, "TCol": 0}
    """
    needs = {"A": 128, "B": 64, "C": 64, "D": 128, "E": 64, "F": 64, "G": 32}
    if not isinstance(path, str) or path not in needs:
        raise LayoutError(f"no data path {shown(path)}; the paths are {', '.join(needs)}", hint="choose one of these")
    hint = "give the rows and columns of the accumulator"
    rows, columns = integer(rows, "a number of rows", hint), integer(columns, "a number of columns", hint, least=1)
    half = integer(half, "half", "write 0 or 1")
    if rows != needs[path]:
        raise LayoutError(
            f"data path {path} has {needs[path]} rows; got {shown(rows)}",
            hint=f"write {needs[path]}, or choose another path",
        )
    if half not in ((0, 1) if path in "CF" else (0,)):
        raise LayoutError(f"data path {path} has no half {shown(half)}", hint="write half=0; C and F also have half=1")
    if path in "AD":
        return TileLayout((Iter(128, 1, TLane), Iter(columns, 1, TCol)))
    if path in "CF":
        shard = (Iter(4, 32, TLane), Iter(16, 1, TLane), Iter(columns, 1, TCol))
        return TileLayout(shard, offset=((TLane, 16 * half),))
    parts = 128 // rows
    if columns < parts or columns % parts != 0:
        raise LayoutError(
            f"data path {path} splits its columns into {parts} parts; {columns} isn't a multiple of {parts}",
            hint=f"write a multiple of {parts}",
        )
    return TileLayout((Iter(rows, 1, TLane), Iter(parts, rows, TLane), Iter(columns // parts, 1, TCol)))


@dataclass(frozen=True, slots=True)
class Tcgen05Shape:
    """One repetition of a shape of tcgen05.ld and tcgen05.st.

    lanes, columns: lanes of tensor memory per warp, and 32-bit columns. registers: 32-bit registers per thread.
    max_num: the largest number of repetitions per instruction.
    """

    name: str
    lanes: int
    columns: int
    registers: int
    max_num: int


#: source: PTX ISA, "Data Movement Shape"; for `max_num`, "tcgen05.ld"
TCGEN05_SHAPES = {
    s.name: s
    for s in (
        Tcgen05Shape("32x32b", 32, 1, 1, 128),
        Tcgen05Shape("16x64b", 16, 2, 1, 128),
        Tcgen05Shape("16x128b", 16, 4, 2, 64),
        Tcgen05Shape("16x256b", 16, 8, 4, 32),
    )
}

#: shape -> (extent, stride, axis) of the digits of 16 rows and of the 32-bit columns, slowest first; an extent of 0 is
#: replaced by the number of repetitions
_SLAB: dict[str, tuple[tuple[int, int, Axis], ...]] = {
    "16x64b": ((2, 1, laneid), (8, 4, laneid), (0, 1, m), (2, 2, laneid)),
    "16x128b": ((2, 1, m), (8, 4, laneid), (0, 2, m), (4, 1, laneid)),
    "16x256b": ((2, 2, m), (8, 4, laneid), (0, 4, m), (4, 1, laneid), (2, 1, m)),
}


def atom_layout(shape: str, num: int, dtype: DType, rows: int = 128) -> TileLayout:
    """Return the layout of the registers that a warpgroup's tcgen05.ld or tcgen05.st with `.shape.xN` accesses.

    shape: "32x32b", "16x64b", "16x128b" or "16x256b". num: N, a power of two.
    rows: 128, for which a `.16x*b` shape takes two instructions, or 64, for data paths B and E (32x32b) or C and F.
    dtype: a type of 8, 16 or 32 bits; narrow elements share a register and a 32-bit column.
    returns: a layout of (rows, columns) elements, with the columns that N repetitions cover.

    Example:
        row = tj.tcgen05.atom_layout("32x32b", 8, tj.float32)
        assert row.apply(1, 2, shape=(128, 8)) == {"tid_in_wg": 1, "m": 2}
    """
    if not isinstance(shape, str) or shape not in TCGEN05_SHAPES:
        raise LayoutError(f"no tcgen05 shape {shown(shape)}", hint=f"write one of {', '.join(TCGEN05_SHAPES)}")
    form = TCGEN05_SHAPES[shape]
    if not isinstance(num, int) or not 1 <= num <= form.max_num or num & (num - 1):
        raise LayoutError(
            f"{shape}.x{shown(num)} doesn't exist: num must be a power of two up to {form.max_num}",
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
            hint="view the elements as a type of one of these widths",
        )
    words = _words(form, num, rows)
    packed = 32 // element.bits
    if packed == 1:
        return TileLayout(words)
    spread = (Iter(it.extent, it.stride * packed, m) if it.axis == m else it for it in words)
    return TileLayout((*spread, Iter(packed, 1, m)))


def _words(form: Tcgen05Shape, num: int, rows: int) -> list[Iter]:
    """Return the shard of the layout for a tile of 32-bit elements."""
    if form.name == "32x32b":
        halves = [Iter(2, 64, tid_in_wg)] if rows == 64 else []
        return [Iter(rows, 1, tid_in_wg), *halves, Iter(num, 1, m)]
    slabs = [Iter(2, num * form.registers, m)] if rows == 128 else []
    inside = (Iter(extent or num, stride, axis) for extent, stride, axis in _SLAB[form.name])
    return [Iter(4, 1, wid_in_wg), *slabs, *inside]
