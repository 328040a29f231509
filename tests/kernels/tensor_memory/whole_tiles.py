"""Kernels that move whole tiles through tensor memory, and where every word must end up."""

from __future__ import annotations

import numpy as np

import tilejit as tj
from tests.kernels.tensor_memory.published_places import SIZES, of_warpgroup
from tilejit.dtypes import DType
from tilejit.layout import TileLayout, atom_layout, datapath

DEVICE = "sim:sm_100a"

#: path -> rows
ROWS = {"D": 128, "F": 64, "B": 64}

#: shape -> num
Sizes = dict[str, int]


@tj.kernel(threads=128)
def pairs(A: tj.Tensor, B: tj.Tensor, SHAPE: tj.constexpr, LAYOUTS: tj.constexpr, TMEM: tj.constexpr):
    t = tj.thread_id()
    m = tj.alloc_tmem(SHAPE, A.dtype, layout=TMEM)
    for s in tj.static_range(len(LAYOUTS)):
        r = tj.alloc_local(SHAPE, A.dtype, layout=LAYOUTS[s])
        tj.thread.copy(r.registers, A[s, t, 0 : r.registers.shape[0]])
        tj.wg.copy_async(m, r)
        tj.tcgen05.wait_st()
        for k in tj.static_range(len(LAYOUTS)):
            q = tj.alloc_local(SHAPE, A.dtype, layout=LAYOUTS[k])
            tj.wg.copy_async(q, m)
            tj.tcgen05.wait_ld()
            tj.thread.copy(B[s, k, t, 0 : q.registers.shape[0]], q.registers)


def sizes(path: str, columns: int) -> Sizes:
    """The shapes that move a whole tile of `columns` 32-bit columns, with their numbers."""
    if path == "B":
        return {"32x32b": columns // 2}
    found = {shape: columns // step for shape, (step, _, most) in SIZES.items() if columns % step == 0}
    legal = {shape: num for shape, num in found.items() if num <= SIZES[shape][2]}
    return {shape: num for shape, num in legal.items() if path == "D" or shape != "32x32b"}


def layouts(path: str, moved: Sizes, dtype: DType) -> tuple[TileLayout, ...]:
    return tuple(atom_layout(shape, num, dtype, ROWS[path]) for shape, num in moved.items())


def words(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.integers(0, 1 << 32, shape, dtype=np.uint32)


def arrived(held: np.ndarray, path: str, half: int, store: tuple[str, int], load: tuple[str, int]) -> np.ndarray:
    """What registers hold that loads of one shape fill with what stores of another put down.

    held: 32-bit words, of shape (128, registers).
    """
    rows = 128 if path in "DB" else 64
    memory = np.zeros((128, 512), np.uint32)
    memory[of_warpgroup(*store, rows, 16 * half)] = held
    return memory[of_warpgroup(*load, rows, 16 * half)]


def check_pairs(path: str, half: int, columns: int, dtype: DType) -> None:
    """Run all pairs of shapes for a tile of `columns` 32-bit columns, each store with other words."""
    moved = sizes(path, columns)
    registers = ROWS[path] * columns // 128
    a = words(np.random.default_rng(columns), len(moved), 128, registers)
    b = np.zeros((len(moved), *a.shape), np.uint32)
    shape = (ROWS[path], columns * 32 // dtype.bits)
    pairs[1](
        a.view(dtype.numpy), b.view(dtype.numpy), SHAPE=shape, LAYOUTS=layouts(path, moved, dtype),
        TMEM=datapath(path, *shape, half),
    )
    for s, store in enumerate(moved.items()):
        for k, load in enumerate(moved.items()):
            expected = arrived(a[s], path, half, store, load)
            np.testing.assert_array_equal(b[s, k], expected, f"stored as {store}, loaded as {load}")
