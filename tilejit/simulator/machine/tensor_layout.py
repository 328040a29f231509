"""The tensor memory cell of each lane's registers, per shape of tcgen05.ld and tcgen05.st.

For lane l and register r:

    shape       row                     column
    32x32b      l                       r
    16x64b      l / 4 + 8 (l % 2)       l / 2 % 2 + 2 r
    16x128b     l / 4 + 8 (r % 2)       l % 4 + 4 (r / 2)
    16x256b     l / 4 + 8 (r / 2 % 2)   r % 2 + 2 (l % 4) + 8 (r / 4)
    16x32bx2    l % 16                  r, plus `split` in lanes 16 to 31

source: PTX ISA, "Data Movement Shape", figures "Matrix Fragment for shape .32x32b" to ".16x32bx2", and "Packing and
Unpacking".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ...dataclass import dataclass
from ...fast_unique import fast_unique
from .lanes import WARP, Index

COLUMNS = 512

# shape → (lanes of tensor memory, registers per thread of .x1, largest .num)
SHAPES = {
    "32x32b": (32, 1, 128), "16x64b": (16, 1, 128), "16x128b": (16, 2, 64), "16x256b": (16, 4, 32),
    "16x32bx2": (16, 1, 128),
}

# shape → function of lane and register that returns the row and the column
_CELLS: dict[str, Callable[[Index, Index], tuple[Index, Index]]] = {
    "32x32b": lambda lane, r: (lane, r),
    "16x64b": lambda lane, r: (lane // 4 + 8 * (lane % 2), lane // 2 % 2 + 2 * r),
    "16x128b": lambda lane, r: (lane // 4 + 8 * (r % 2), lane % 4 + 4 * (r // 2)),
    "16x256b": lambda lane, r: (lane // 4 + 8 * (r // 2 % 2), r % 2 + 2 * (lane % 4) + 8 * (r // 4)),
    "16x32bx2": lambda lane, r: (lane % 16, r),
}


@dataclass(frozen=True, slots=True)
class Form:
    """The cells of a tcgen05.ld or .st, relative to its address.

    rows, columns: the cell of each register, of shape (lanes of the warp, registers), with a third axis of 2 if packed.
    height: the number of lanes of tensor memory that the instruction spans. used: the distinct columns, ascending.
    packed: each register holds the lower 16 bits of two adjacent columns.
    """

    name: str
    height: int
    packed: bool
    rows: Index
    columns: Index
    used: Index

    @property
    def span(self) -> int:
        return int(self.used[-1]) + 1


@lru_cache(maxsize=256)
def form(shape: str, num: int, packed: bool, split: int) -> Form:
    """Return the form `.shape.xnum`. split: the number of columns between the two accesses of .16x32bx2."""
    height, each, _ = SHAPES[shape]
    lane = np.arange(WARP)[:, None]
    r = np.arange(each * num)[None, :]
    row, column = np.broadcast_arrays(*_CELLS[shape](lane, r))
    second = lane // 16 if shape == "16x32bx2" else 0 * lane
    if packed:
        row, column = np.stack([row, row], axis=2), np.stack([2 * column, 2 * column + 1], axis=2)
        second = second[:, :, None]
    column = column + second * split
    return Form(f".{shape}.x{num}", height, packed, row, column, fast_unique(column))
