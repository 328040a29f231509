"""Atoms against the worked numbers of Hopper's operands, and against the swizzled layouts element by element."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilejit.dtypes import DType, float8_e4m3fn, float16, float32, float64, int64
from tilejit.errors import LayoutError
from tilejit.ir.arithmetic.evaluate import number
from tilejit.ir.nodes import Region, Var
from tilejit.layout import S, Swizzle, TileLayout, swizzled_atom_layout
from tilejit.lower.ask import operand, sym
from tilejit.lower.schedule.swizzle_atoms import Atoms, atoms_of

#: (start, extent) a dimension
Window = Sequence[tuple[int | Var, int]] | None

DTYPES = (float8_e4m3fn, float16, float32, float64)


def tile(shape: tuple[int, ...], mode: str, window: Window = None, dtype: DType = float16) -> Region:
    layout = swizzled_atom_layout(shape, dtype.bits, mode)
    return shared(shape, layout, window, dtype)


def shared(shape: tuple[int, ...], layout: TileLayout, window: Window = None, dtype: DType = float16) -> Region:
    return operand("shared", shape, dtype, layout, window).named("a")


def steps(atoms: Atoms, rows: int, columns: int) -> list[int]:
    """Bytes from the start to each tile of these rows and columns: along the longer of the two."""
    along_rows = range(0, atoms.rows, rows)
    along_columns = range(0, atoms.columns, columns)
    size = atoms.element_bits // 8
    return [atoms.at(r, c) * size for r in along_rows for c in along_columns]


def test_a_row_major_tile_of_128_x_64_halves_is_one_block() -> None:
    atoms = atoms_of(tile((128, 64), "128B"))
    assert (atoms.row_bytes, atoms.row_elements, atoms.blocks, atoms.mode) == (128, 64, 1, "128B")
    assert (atoms.rows, atoms.columns, atoms.major, atoms.is_dense) == (128, 64, 1, True)
    assert (atoms.lbo_bytes, atoms.sbo_bytes) == (128 * 128, 1024)
    # as factor of (MN, K): rows are M or N
    assert steps(atoms, 64, 16) == [8192 * i + 32 * k for i in range(2) for k in range(4)]
    # rows are K
    assert steps(atoms, 16, 64) == [2048 * k for k in range(8)]


def test_a_tile_of_64_x_256_halves_has_four_blocks() -> None:
    atoms = atoms_of(tile((64, 256), "128B"))
    assert (atoms.row_bytes, atoms.row_elements, atoms.blocks) == (128, 64, 4)
    assert (atoms.lbo_bytes, atoms.sbo_bytes) == (8192, 1024)
    assert steps(atoms, 16, 256) == [2048 * k for k in range(4)]
    assert steps(atoms, 64, 64) == [8192 * j for j in range(4)]


def test_a_tile_of_64_x_128_halves_in_rows_of_64_bytes() -> None:
    atoms = atoms_of(tile((64, 128), "64B"))
    assert (atoms.row_bytes, atoms.row_elements, atoms.blocks) == (64, 32, 4)
    assert (atoms.lbo_bytes, atoms.sbo_bytes) == (4096, 512)
    assert steps(atoms, 64, 16) == [32 * (k % 2) + 4096 * (k // 2) for k in range(8)]
    assert steps(atoms, 16, 128) == [1024 * k for k in range(4)]


def test_without_a_swizzle_atoms_are_core_matrices_and_rows_are_rows() -> None:
    core = atoms_of(tile((128, 64), "none"))
    assert (core.row_bytes, core.row_elements, core.blocks, core.lbo_bytes, core.sbo_bytes) == (16, 8, 8, 2048, 128)
    plain = atoms_of(shared((128, 64), TileLayout.row_major((128, 64))))
    assert (plain.row_bytes, plain.row_elements, plain.blocks, plain.sbo_bytes) == (128, 64, 1, 1024)


def test_a_stage_of_a_ring_starts_where_its_stride_leads() -> None:
    stage = sym("stage")
    atoms = atoms_of(tile((4, 64, 256), "128B", [(stage, 1), (0, 64), (0, 256)]))
    assert (atoms.rows, atoms.columns, atoms.blocks, atoms.block_stride) == (64, 256, 4, 4096)
    assert atoms.placement.offsets[0].stride == 64 * 256


def test_a_transposed_view_exchanges_rows_and_columns() -> None:
    layout, ends = swizzled_atom_layout((128, 64), 16, "128B").group((128, 64))
    view = layout.permute_groups(ends, (1, 0))
    atoms = atoms_of(shared((64, 128), view))
    assert (atoms.major, atoms.row_dims, atoms.rows, atoms.columns) == (0, (1,), 128, 64)
    assert (atoms.lbo_bytes, atoms.sbo_bytes) == (128 * 128, 1024)


@pytest.mark.parametrize("mode", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(data=st.data())
def test_each_element_is_where_the_layout_says(mode: str, dtype: DType, data: st.DataObject) -> None:
    swizzle = Swizzle.for_dtype(dtype, mode)
    e = swizzle.chunk << swizzle.bits
    outer, groups, blocks = (data.draw(st.integers(1, 3)) for _ in range(3))
    shape = (outer, 8 * groups, e * blocks)
    row = 8 * data.draw(st.integers(0, groups - 1))
    rows = data.draw(st.integers(1, shape[1] - row))
    block = data.draw(st.integers(0, blocks - 1))
    columns = e * data.draw(st.integers(1, blocks - block))
    at = data.draw(st.integers(0, outer - 1))
    region = tile(shape, mode, [(at, 1), (row, rows), (e * block, columns)], dtype)
    atoms = atoms_of(region)
    assert (atoms.rows, atoms.columns, atoms.blocks) == (rows, columns, columns // e)
    layout, start = region.buffer.tile_layout, number(atoms.start)
    r, c = np.indices((rows, columns)).reshape(2, -1)
    index = (at * shape[1] + row + r) * shape[2] + e * block + c
    places = layout.map_all(shape)["m"][index]
    plain = np.array([start + atoms.at(int(y), int(x)) for y, x in zip(r, c, strict=True)])
    assert (places == swizzle.apply(plain)).all()
    assert prod(atoms.placement.shape) == rows * columns


#: what is no tile of atoms: a region and the reason
REFUSED = {
    "another type's swizzle": (
        shared((64, 64), TileLayout.row_major((64, 64), Swizzle(3, 4, 3))),
        "swizzle Swizzle(3, 4, 3) is for 8-bit elements; float16 needs base 3",
    ),
    "another shift": (
        shared((64, 64), TileLayout.row_major((64, 64), Swizzle(3, 3, 4))),
        "swizzle Swizzle(3, 3, 4) is not supported by TMA and wgmma; Swizzle(3, 3, 3) is",
    ),
    "half an atom's rows": (
        tile((64, 64), "128B", [(4, 8), (0, 64)]),
        "row start 4 of a isn't a multiple of 8, the swizzle's period",
    ),
    "rows of which little is known": (
        tile((64, 64), "128B", [(sym("i", multiple_of=2), 8), (0, 64)]),
        "row start (a multiple of 2) of a isn't known to be a multiple of 8, the swizzle's period",
    ),
    "inside an atom": (
        tile((64, 64), "128B", [(0, 64), (32, 32)]),
        "column start 32 of a isn't a multiple of 64, a row of the swizzle",
    ),
    "no columns": (
        shared((64, 64), S[(64, 64) : (128, 2)]),
        "no dimension of a has unit stride; strides are (128, 2)",
    ),
    "padded rows": (
        shared((64, 64), S[(64, 64) : (72, 1)]),
        "rows of a are 144 bytes apart; they must be contiguous, 128 bytes apart",
    ),
    "a narrow swizzle": (
        shared((64, 64), TileLayout.row_major((64, 64), Swizzle(2, 3, 3))),
        "64 columns of a are contiguous; a row of the 64B swizzle holds 32",
    ),
    "a part of two blocks": (
        tile((64, 128), "128B", [(0, 64), (0, 96)]),
        "dimension 1 of a is split as 2·64; 96 elements from 0 on aren't whole parts",
    ),
    "several tiles of two blocks": (
        tile((2, 64, 128), "128B"),
        "rows of a are split into runs of 2·64; needs contiguous rows, or evenly spaced runs of 8",
    ),
    "a buffer at the wrong address": (
        operand("shared", (64, 64), float16, swizzled_atom_layout((64, 64), 16, "128B"), align=128).named("a"),
        "a is aligned to 128 bytes; the swizzle needs 1024",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_tile_of_atoms_is_refused_with_numbers(case: str) -> None:
    region, reason = REFUSED[case]
    with pytest.raises(LayoutError, match=re.escape(reason)):
        atoms_of(region)


def test_products_may_begin_inside_an_atoms_row_and_boxes_may_not() -> None:
    """Along k, which one says: in steps of 32 bytes, and inside one block of columns."""
    for row, start in ((0, 16), (8, 32), (0, Var("i", int64, 16, (0, 48)))):
        atoms = atoms_of(tile((64, 64), "128B", [(row, 8), (start, 16)]), 1)
        assert (atoms.row_elements, atoms.columns, atoms.blocks) == (64, 16, 1)
    inside = tile((64, 64), "128B", [(0, 64), (32, 32)])
    for k in (None, 0):
        with pytest.raises(LayoutError, match="column start 32 of a isn't a multiple of 64, a row of the swizzle"):
            atoms_of(inside, k)
    with pytest.raises(LayoutError, match="column start 8 of a isn't a multiple of 16, the step of products along K"):
        atoms_of(tile((64, 64), "128B", [(0, 64), (8, 16)]), 1)
    with pytest.raises(LayoutError, match="row start 4 of a isn't a multiple of 8, the swizzle's period"):
        atoms_of(tile((64, 64), "128B", [(4, 8), (16, 16)]), 1)
    with pytest.raises(LayoutError, match="96 elements from 32 on aren't whole parts"):
        atoms_of(tile((64, 128), "128B", [(0, 64), (32, 96)]), 1)
