"""The tables of the compiler and of the simulator, each against public sources: the first rung of the evidence."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.tensor_memory.published_places import FORMS, SIZES, SOURCES, Places, height, of_warpgroup
from tilejit.dtypes import DType, float16, float32, uint8
from tilejit.isa.tcgen05 import LD, ST, Transfer
from tilejit.layout import TCGEN05_SHAPES, atom_layout, datapath
from tilejit.lower.variants.copy_async_tcgen05_ldst import pattern
from tilejit.simulator.machine import tensor_layout

IDS = [f"{shape}.x{num}" for shape, num in FORMS]
by_form = pytest.mark.parametrize(("shape", "num"), FORMS, ids=IDS)
by_source = pytest.mark.parametrize("source", SOURCES, ids=lambda s: s.replace(" ", "_"))


def same(found: Places, stated: Places) -> None:
    for one, other in zip(found, stated, strict=True):
        np.testing.assert_array_equal(one, other)


@by_form
def test_the_sources_agree_and_give_each_cell_to_one_register(shape: str, num: int) -> None:
    stated = [source(shape, num) for source in SOURCES.values()]
    for other in stated[1:]:
        same(other, stated[0])
    columns, registers, _ = SIZES[shape]
    lanes, column = stated[0]
    assert lanes.shape == (32, registers * num)
    cells = lanes * columns * num + column
    assert sorted(cells.ravel()) == list(range(height(shape) * columns * num))


@by_source
@by_form
def test_the_simulators_table_is_the_sources(shape: str, num: int, source: str) -> None:
    form = tensor_layout.form(shape, num, False, 0)
    lanes, columns = SOURCES[source](shape, num)
    same((form.rows, form.columns), (lanes, columns))
    assert (form.height, form.span, form.packed) == (height(shape), SIZES[shape][0] * num, False)


@by_source
@by_form
def test_the_compilers_register_layout_is_the_sources(shape: str, num: int, source: str) -> None:
    lanes, columns = SOURCES[source](shape, num)
    step = SIZES[shape][0] * num
    for rows in (64, 128):
        if shape == "32x32b" and rows == 64:
            continue
        slabs = rows // 4 // height(shape)
        row, column = [], []
        for warp in range(4):
            # the tile's rows are those of the warps, one after another
            parts = [(warp * rows // 4 + slab * height(shape) + lanes, columns) for slab in range(slabs)]
            row.append(np.hstack([p[0] for p in parts]))
            column.append(np.hstack([p[1] for p in parts]))
        same(owned(atom_layout(shape, num, float32, rows), rows, step), (np.vstack(row), np.vstack(column)))


def owned(layout, rows: int, columns: int) -> Places:
    """(rows, columns) of the tile, of shape (128, registers), from a layout of registers."""
    at = layout.map_all((rows, columns))
    steps = {"tid_in_wg": 1, "laneid": 1, "wid_in_wg": 32}
    thread = sum(at[axis] * step for axis, step in steps.items() if axis in at)
    table = np.full((128, rows * columns // 128), -1)
    table[thread, at["m"]] = np.arange(rows * columns)
    assert (table >= 0).all(), "some register holds no element"
    return table // columns, table % columns


@pytest.mark.parametrize("dtype", [float16, uint8], ids=str)
@by_form
def test_narrow_elements_fill_the_words_of_the_32_bit_layout_in_order(shape: str, num: int, dtype: DType) -> None:
    packed, columns = 32 // dtype.bits, SIZES[shape][0] * num
    row, column = owned(atom_layout(shape, num, dtype), 128, columns * packed)
    word_row, word_column = owned(atom_layout(shape, num, float32), 128, columns)
    np.testing.assert_array_equal(row, np.repeat(word_row, packed, axis=1))
    inside = np.tile(np.arange(packed), word_column.shape[1])
    np.testing.assert_array_equal(column, np.repeat(word_column, packed, axis=1) * packed + inside)


@pytest.mark.parametrize("num", [1 << k for k in range(8)])
def test_64_rows_of_32x32b_are_the_image_of_data_path_b(num: int) -> None:
    # 64 threads hold the left half of the columns, 64 the right one: where datapath B puts them
    row, column = owned(atom_layout("32x32b", num, float32, 64), 64, 2 * num)
    place = datapath("B", 64, 2 * num).map_all((64, 2 * num))
    flat = row * 2 * num + column
    lanes, columns = of_warpgroup("32x32b", num, 128)
    same((place["TLane"][flat], place["TCol"][flat]), (lanes, columns))


@by_source
@pytest.mark.parametrize("shape", SIZES)
def test_the_compilers_pattern_of_one_unit_is_the_sources(shape: str, source: str) -> None:
    lanes, columns = SOURCES[source](shape, 1)
    row = np.vstack([32 * warp + lanes for warp in range(4)])
    same(pattern(TCGEN05_SHAPES[shape]), (row, np.vstack([columns] * 4)))


def test_all_parts_know_the_same_shapes_registers_and_limits() -> None:
    assert {s.name: (s.columns, s.registers, s.max_num) for s in TCGEN05_SHAPES.values()} == SIZES
    assert list(LD.forms()) == list(ST.forms()) == [Transfer(*form) for form in FORMS]
    for shape, num in FORMS:
        registers = SIZES[shape][1] * num
        assert len(LD.row(Transfer(shape, num)).results) == registers
        assert len(ST.row(Transfer(shape, num)).arguments) == 1 + registers
    known = {shape: (h, *rest) for shape, (h, *rest) in tensor_layout.SHAPES.items() if shape in SIZES}
    assert known == {shape: (height(shape), *size[1:]) for shape, size in SIZES.items()}


def test_data_paths_put_rows_into_the_lanes_that_the_isa_gives() -> None:
    # source: PTX ISA, "tcgen05: data path layout organization", figures of layouts D, F and B
    at = datapath("D", 128, 8).map_all((128, 8))
    np.testing.assert_array_equal(at["TLane"].reshape(128, 8)[:, 0], np.arange(128))
    for half in (0, 1):
        at = datapath("F", 64, 8, half).map_all((64, 8))
        lanes = [*range(16), *range(32, 48), *range(64, 80), *range(96, 112)]
        np.testing.assert_array_equal(at["TLane"].reshape(64, 8)[:, 3], np.array(lanes) + 16 * half)
    at = datapath("B", 64, 8).map_all((64, 8))
    np.testing.assert_array_equal(at["TLane"].reshape(64, 8), np.arange(64)[:, None] + 64 * (np.arange(8) // 4))
    np.testing.assert_array_equal(at["TCol"].reshape(64, 8)[5], np.arange(8) % 4)
