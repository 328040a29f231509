"""Tiles that go through tensor memory on the simulator: stored in one shape, loaded in another."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.lower.test_tcgen05_places import hardware_place
from tests.support.profiles import times
from tilejit.dtypes import DType, float16, float32, int32, uint8
from tilejit.layout import TCGEN05_SHAPES, TileLayout, atom_layout, datapath

EXAMPLES = Path(__file__).parents[2] / "examples"


@tj.kernel(threads=128)
def through(
    A: tj.Tensor, B: tj.Tensor, SHAPE: tj.constexpr, STORED: tj.constexpr, LOADED: tj.constexpr, TMEM: tj.constexpr,
    COLUMNS: tj.constexpr, AT: tj.constexpr, COUNT: tj.constexpr,
):
    thread = tj.thread_id()
    tj.alloc_tmem((128, 32), tj.float32)
    t = tj.alloc_tmem((SHAPE[0], COLUMNS), A.dtype, layout=TMEM)
    r = tj.alloc_local(SHAPE, A.dtype, layout=STORED)
    q = tj.alloc_local(SHAPE, A.dtype, layout=LOADED)
    for k in tj.static_range(COUNT):
        r.registers[k] = A[thread, k]
    tj.wg.copy_async(t[:, AT : AT + SHAPE[1]], r)
    tj.tcgen05.wait_st()
    tj.wg.copy_async(q, t[:, AT : AT + SHAPE[1]])
    tj.tcgen05.wait_ld()
    for k in tj.static_range(COUNT):
        B[thread, k] = q.registers[k]


def words_at(shape: str, registers: int, rows: int) -> dict[tuple[int, int], tuple[int, int]]:
    """(TMEM lane of the fragment, 32-bit column) -> (thread, 32-bit register), as the hardware moves a whole tile."""
    slabs = 2 if rows == 128 and shape != "32x32b" else 1
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for thread in range(128):
        for register in range(registers):
            slab, k = divmod(register, registers // slabs)
            row, column = hardware_place(shape, thread % 32, k)
            found[thread // 32 * 32 + 16 * slab + row, column] = thread, register
    return found


@settings(max_examples=times(0.8))
@given(st.data())
def test_what_is_stored_in_one_shape_is_loaded_in_another(data: st.DataObject) -> None:
    rows = data.draw(st.sampled_from((64, 128)))
    shapes = sorted(TCGEN05_SHAPES) if rows == 128 else ["16x64b", "16x128b", "16x256b"]
    stored, loaded = (data.draw(st.sampled_from(shapes)) for _ in range(2))
    dtype: DType = data.draw(st.sampled_from((float32, int32, float16, uint8)))
    words = 8 << data.draw(st.integers(0, 2))
    packed = 32 // dtype.bits
    at = packed * data.draw(st.integers(0, 5))
    columns = at + (words + data.draw(st.integers(0, 3))) * packed
    path = datapath("D", rows, columns) if rows == 128 else datapath("F", rows, columns, data.draw(st.integers(0, 1)))

    def layout(shape: str) -> TileLayout:
        return atom_layout(shape, words // TCGEN05_SHAPES[shape].columns, dtype, rows)

    registers = words * rows // 128
    count = registers * packed
    a = np.random.default_rng(0).integers(0, 1 << 32, (128, registers), dtype=np.uint32).view(dtype.numpy)
    b = np.zeros_like(a)
    with tj.use_device("sim:sm_100a"):
        through[1](
            a, b, SHAPE=(rows, words * packed), STORED=layout(stored), LOADED=layout(loaded), TMEM=path,
            COLUMNS=columns, AT=at, COUNT=count,
        )
    source, target = words_at(stored, registers, rows), words_at(loaded, registers, rows)
    assert source.keys() == target.keys()
    expected = np.zeros((128, registers), np.uint32)
    for place, to in target.items():
        expected[to] = a.view(np.uint32)[source[place]]
    assert (b.view(np.uint32) == expected).all()


@tj.kernel(threads=128)
def folded(A: tj.Tensor, B: tj.Tensor, WORDS: tj.constexpr):
    r = tj.alloc_local((64, 2 * WORDS), A.dtype, layout=tj.tcgen05.atom_layout("32x32b", WORDS, A.dtype, rows=64))
    t = tj.alloc_tmem((64, 2 * WORDS), A.dtype, layout=tj.tmem.datapath("B", 64, 2 * WORDS))
    tj.wg.copy(r, A[0:64, 0 : 2 * WORDS])
    tj.wg.copy_async(t, r)
    tj.tcgen05.wait_st()
    tj.wg.fill(r, 0)
    tj.wg.copy_async(r, t)
    tj.tcgen05.wait_ld()
    tj.wg.copy(B[0:64, 0 : 2 * WORDS], r)


@pytest.mark.parametrize("words", [1, 8, 64])
def test_data_path_b_goes_there_and_back(words: int) -> None:
    a = np.arange(64 * 2 * words, dtype=np.int32).reshape(64, -1)
    b = np.zeros_like(a)
    with tj.use_device("sim:sm_100a"):
        folded[1](a, b, WORDS=words)
    assert (a == b).all()


@tj.kernel(threads=256)
def columns_in_rounds(A: tj.Tensor, B: tj.Tensor):
    layout = tj.tcgen05.atom_layout("16x128b", 2, tj.float32)
    r = tj.alloc_local((128, 32), A.dtype, layout=tj.tcgen05.atom_layout("16x128b", 8, tj.float32))
    q = tj.alloc_local((128, 8), A.dtype, layout=layout)
    t = tj.alloc_tmem((128, 64), A.dtype)
    group = tj.warpgroup_id()
    tj.wg.copy(r, A.tile((128, 32), (0, group)))
    for i in range(4):
        tj.wg.copy_async(t[:, group * 32 + i * 8 : group * 32 + i * 8 + 8], r[:, i * 8 : i * 8 + 8])
    tj.tcgen05.wait_st()
    for i in range(4):
        tj.wg.copy_async(q, t[:, group * 32 + i * 8 : group * 32 + i * 8 + 8])
        tj.tcgen05.wait_ld()
        tj.wg.copy(B.tile((128, 8), (0, group * 4 + i)), q)


def test_two_warpgroups_move_columns_chosen_at_run_time() -> None:
    a = np.random.default_rng(1).standard_normal((128, 64)).astype(np.float32)
    b = np.zeros_like(a)
    with tj.use_device("sim:sm_100a"):
        columns_in_rounds[1](a, b)
    assert (a == b).all()


def test_the_example_runs_and_says_what_was_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "tensor_memory.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert ".32x32b, num 4, slabs 1, issues 1: tj.wg.copy_async(t, r)" in said
    assert ".16x256b, num 2, slabs 2, issues 2: tj.wg.copy_async(t, fragments)" in said
    assert "tcgen05.ld.sync.aligned.32x32b.x16.b32" in said
