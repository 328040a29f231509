"""Which cell of tensor memory each register of a warp is, as three public sources state it, each in its own form.

A place is (lane of tensor memory, 32-bit column), both counted from the instruction's address. Nothing here is used by
the compiler or by the simulator.
"""

from __future__ import annotations

import numpy as np

#: shape -> (32-bit columns and registers for each unit of `.xN`, largest N)
SIZES = {"32x32b": (1, 1, 128), "16x64b": (2, 1, 128), "16x128b": (4, 2, 64), "16x256b": (8, 4, 32)}

#: every legal (shape, num)
FORMS = [(shape, 1 << k) for shape, (_, _, most) in SIZES.items() for k in range(most.bit_length())]

Places = tuple[np.ndarray, np.ndarray]


def height(shape: str) -> int:
    """Lanes of tensor memory that a warp's instruction reaches."""
    return int(shape.split("x")[0])


def apache_tvm(shape: str, num: int) -> Places:
    """(lanes, columns), of shape (32, registers).

    source: Apache TVM's documentation, tirx/tile_ops/tcgen05_ld_st, table "Native images": for lane l of the warp and
    register r.
    """
    l, r = np.indices((32, SIZES[shape][1] * num))  # noqa: E741 - the table's own letter
    return {
        "32x32b": (l, r),
        "16x64b": (l // 4 + 8 * (l % 2), l // 2 % 2 + 2 * r),
        "16x128b": (l // 4 + 8 * (r % 2), l % 4 + 4 * (r // 2)),
        "16x256b": (l // 4 + 8 * (r // 2 % 2), r % 2 + 2 * (l % 4) + 8 * (r // 4)),
    }[shape]


def cutlass(shape: str, num: int) -> Places:
    """The same, from bits.

    source: NVIDIA CUTLASS 17f8157, include/cute/atom/copy_traits_sm100.hpp, `DstLayout` of
    `Copy_Traits<SM100_TMEM_LOAD_{32dp32b,16dp64b,16dp128b,16dp256b}{num}x>`: (thread, bit) -> bit of the image, the
    first digit fastest; its rows follow each other, `ValID` gives each a lane.
    """
    width = 32 * SIZES[shape][0] * num
    threads, bits = {
        "32x32b": ([(32, width)], [(width, 1)]),
        "16x64b": ([(2, 8 * width), (2, 32), (8, width)], [(32, 1), (num, 64)]),
        "16x128b": ([(4, 32), (8, width)], [(32, 1), (2, 8 * width), (num, 128)]),
        "16x256b": ([(4, 64), (8, width)], [(64, 1), (2, 8 * width), (num, 256)]),
    }[shape]
    image = _strided(threads)[:, None] + _strided(bits)[None, ::32]
    return image // width, image % width // 32


def _strided(digits: list[tuple[int, int]]) -> np.ndarray:
    """The sums of digit * stride for (extent, stride), the first digit fastest."""
    found = np.zeros(1, np.int64)
    for extent, stride in digits:
        found = (np.arange(extent)[:, None] * stride + found[None, :]).ravel()
    return found


def triton(shape: str, num: int) -> Places:
    """The same, from powers of two.

    source: Triton, lib/Dialect/TritonNvidiaGPU/IR/TensorMemoryUtils.cpp, `getTileLayout`: what each bit of the
    register's number and of the lane adds to (row, column); further registers are further columns.
    """
    registers, lanes = {
        "32x32b": ([], [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0)]),
        "16x64b": ([], [(8, 0), (0, 1), (1, 0), (2, 0), (4, 0)]),
        "16x128b": ([(8, 0)], [(0, 1), (0, 2), (1, 0), (2, 0), (4, 0)]),
        "16x256b": ([(0, 1), (8, 0)], [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]),
    }[shape]
    step = SIZES[shape][0]
    registers = registers + [(0, step << k) for k in range(num.bit_length() - 1)]
    row, column = (_xored([b[k] for b in lanes])[:, None] ^ _xored([b[k] for b in registers]) for k in (0, 1))
    return row, column


def _xored(bases: list[int]) -> np.ndarray:
    number = np.arange(1 << len(bases))
    found = np.zeros_like(number)
    for bit, base in enumerate(bases):
        found ^= np.where(number >> bit & 1, base, 0)
    return found


SOURCES = {"Apache TVM": apache_tvm, "CUTLASS": cutlass, "Triton": triton}


def of_warpgroup(shape: str, num: int, rows: int, first: int = 0) -> Places:
    """(lanes, columns), of shape (128, registers): what each thread's registers are of a tile's tensor memory.

    rows: 128, which a `.16x*b` shape moves 16 lanes at a time, the lower half's registers first; or 64, 16 of every
    32 lanes from lane `first` on.
    """
    row, column = apache_tvm(shape, num)
    if rows == 128 and height(shape) == 16:
        row, column = np.hstack([row, row + 16]), np.hstack([column, column])
    warps = 32 * np.arange(4)[:, None, None]
    lanes = (warps + row + first).reshape(128, -1)
    return lanes, np.broadcast_to(column, (4, *column.shape)).reshape(128, -1)
