"""Predefined layouts: swizzled shared tiles, tensor memory data paths, and tcgen05 register fragments."""

from __future__ import annotations

from collections.abc import Sequence

from ..dataclass import dataclass
from ..errors import LayoutError
from ..wording import shown
from .arguments import extents, integer
from .axes import Axis, TCol, TLane, laneid, m, tid_in_wg, wid_in_wg
from .iters import Iter, weights
from .swizzle import Swizzle
from .tile_layout import TileLayout

_ATOM_ROWS = 8


def wg_local(columns: int, rows: int = 128) -> TileLayout:
    """Return the register layout in which thread i of a warpgroup holds row i."""
    return TileLayout((Iter(rows, 1, tid_in_wg), Iter(columns, 1, m)))


def swizzled_atom_layout(shape: Sequence[int], bits: int, mode: str) -> TileLayout:
    """Return the shared memory layout that ldmatrix, TMA and wgmma use: atoms of 8 rows by 16, 32, 64 or 128 bytes.

    The last two dimensions are tiled by the atom; row blocks are innermost, then column blocks, then leading
    dimensions.
    shape: at least two dimensions. bits: the width of an element. mode: "none", "32B", "64B" or "128B".
    source: `mma_shared_layout` of Apache TVM's TIRx.
    """
    swizzle = Swizzle.for_dtype(bits, mode)
    atom_columns = swizzle.chunk << swizzle.bits
    shape = extents(shape)
    if len(shape) < 2:
        raise LayoutError(
            f"a swizzled tile has rows and columns; got shape {tuple(shape)}", hint="give two extents or more"
        )
    *leading, rows, columns = shape
    if rows % _ATOM_ROWS != 0 or columns % atom_columns != 0:
        raise LayoutError(
            f"shape {tuple(shape)} doesn't divide into atoms of {_ATOM_ROWS} rows by {atom_columns} columns "
            f"({mode} swizzle of {bits}-bit elements)",
            hint="pad the tile, or choose a narrower swizzle",
        )
    outer = (Iter(n, w * rows * columns, m) for n, w in zip(leading, weights(leading), strict=True))
    tile = (
        Iter(rows, atom_columns, m),
        Iter(columns // atom_columns, rows * atom_columns, m),
        Iter(atom_columns, 1, m),
    )
    return TileLayout((*outer, *tile), swizzle=None if swizzle.is_identity else swizzle)


def tmem_datapath_layout(path: str, rows: int, columns: int, sub_slab: int = 0) -> TileLayout:
    """Return the tensor memory layout of an accumulator.

    path: "A" to "G". sub_slab: 0 or 1; only C and F have a second half, 16 lanes further.
    source: PTX ISA, "tcgen05: data path layout organization".
    """
    needs = {"A": 128, "B": 64, "C": 64, "D": 128, "E": 64, "F": 64, "G": 32}
    if not isinstance(path, str) or path not in needs:
        raise LayoutError(f"no data path {shown(path)}; there are {', '.join(needs)}", hint="choose one of these")
    hint = "give rows and columns of the accumulator"
    rows, columns = integer(rows, "a number of rows", hint), integer(columns, "a number of columns", hint, least=1)
    sub_slab = integer(sub_slab, "a sub-slab", "write 0 or 1")
    if rows != needs[path]:
        raise LayoutError(
            f"data path {path} has {needs[path]} rows; got {shown(rows)}",
            hint=f"write {needs[path]}, or choose another path",
        )
    if sub_slab not in ((0, 1) if path in "CF" else (0,)):
        raise LayoutError(f"data path {path} has no sub-slab {shown(sub_slab)}", hint="write 0; C and F also have 1")
    if path in "AD":
        return TileLayout((Iter(128, 1, TLane), Iter(columns, 1, TCol)))
    if path in "CF":
        shard = (Iter(4, 32, TLane), Iter(16, 1, TLane), Iter(columns, 1, TCol))
        return TileLayout(shard, offset=((TLane, 16 * sub_slab),))
    parts = 128 // rows
    if columns < parts or columns % parts != 0:
        raise LayoutError(
            f"data path {path} splits columns into {parts} parts; {columns} isn't a multiple of {parts}",
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


#: source: PTX ISA, "tcgen05: matrix fragments and data movement shapes"
TCGEN05_SHAPES = {
    s.name: s
    for s in (
        Tcgen05Shape("32x32b", 32, 1, 1, 128),
        Tcgen05Shape("16x64b", 16, 2, 1, 128),
        Tcgen05Shape("16x128b", 16, 4, 2, 64),
        Tcgen05Shape("16x256b", 16, 8, 4, 32),
    )
}


@dataclass(frozen=True, slots=True)
class Tcgen05Atom:
    """The `slabs` instructions that move a tile, each with `num` repetitions and `registers` registers per thread."""

    num: int
    slabs: int
    registers: int


def tcgen05_atom(shape: str, rows: int, columns: int, bits: int) -> Tcgen05Atom:
    """Return the instructions that move exactly a tile of `rows` by `columns` elements, or raise LayoutError."""
    form = _form(shape)
    hint = "give rows, columns and the bits of an element"
    rows, bits = integer(rows, "a number of rows", hint), integer(bits, "a number of bits", hint)
    columns = integer(columns, "a number of columns", hint)
    if bits not in (16, 32):
        raise LayoutError(
            f"tcgen05 fragments hold 16- and 32-bit elements; got {shown(bits)} bits", hint="write 16 or 32"
        )
    if rows not in (64, 128):
        raise LayoutError(f"a tcgen05 fragment has 64 or 128 rows; got {shown(rows)}", hint="write 64 or 128")
    folded = shape == "32x32b" and rows == 64
    if folded and bits != 32:
        raise LayoutError(
            "32x32b with 64 rows (data path B) holds 32-bit elements only; got 16 bits",
            hint="take 128 rows, or another shape",
        )
    step = form.columns * (2 if folded else 1) * (32 // bits)
    num = columns // step
    if columns % step != 0 or not 1 <= num <= form.max_num or num & (num - 1):
        raise LayoutError(
            f"{shown(columns)} columns of {bits} bits don't fit {shape}.xN, which has {step} * N columns, "
            f"N a power of two up to {form.max_num}",
            hint="change the number of columns, or use another shape",
        )
    slabs = rows // 64 if shape != "32x32b" else 1
    return Tcgen05Atom(num, slabs, num * form.registers)


def tcgen05_atom_layout(shape: str, tile: tuple[int, int], bits: int) -> TileLayout:
    """Return the register layout of a tcgen05.ld or tcgen05.st in a warpgroup.

    shape: "32x32b", "16x64b", "16x128b" or "16x256b". tile: (rows, columns) in elements.
    source: PTX ISA, "tcgen05: matrix fragments and data movement shapes".
    """
    pair = extents(tile, "a tile")
    if len(pair) != 2:
        raise LayoutError(f"a tile has rows and columns; got {shown(tile)}", hint="give (rows, columns)")
    rows, columns = pair
    atom = tcgen05_atom(shape, rows, columns, bits)
    if shape == "32x32b":
        if rows == 128:
            return wg_local(columns)
        return TileLayout((Iter(64, 1, tid_in_wg), Iter(2, 64, tid_in_wg), Iter(columns // 2, 1, m)))
    run = _SLAB[shape]
    words = [Iter(4, 1, wid_in_wg)]
    if atom.slabs == 2:
        words.append(Iter(2, atom.registers, m))
    # an extent of 0 is a placeholder for num
    words += [Iter(extent or atom.num, stride, axis) for extent, stride, axis in run]
    if bits == 32:
        return TileLayout(words)
    halves = [Iter(it.extent, it.stride * 2, m) if it.axis == m else it for it in words]
    return TileLayout((*halves, Iter(2, 1, m)))


_SLAB: dict[str, tuple[tuple[int, int, Axis], ...]] = {
    "16x64b": ((2, 1, laneid), (8, 4, laneid), (0, 1, m), (2, 2, laneid)),
    "16x128b": ((2, 1, m), (8, 4, laneid), (0, 2, m), (4, 1, laneid)),
    "16x256b": ((2, 2, m), (8, 4, laneid), (0, 4, m), (4, 1, laneid), (2, 1, m)),
}


def _form(shape: str) -> Tcgen05Shape:
    if not isinstance(shape, str) or shape not in TCGEN05_SHAPES:
        raise LayoutError(
            f"no tcgen05 shape {shown(shape)}; there are {', '.join(TCGEN05_SHAPES)}", hint="choose one of these"
        )
    return TCGEN05_SHAPES[shape]
