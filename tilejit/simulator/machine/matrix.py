"""ldmatrix and stmatrix: 8x8 matrices of 16 bits between shared memory and the lanes of a warp.

source: PTX ISA, "Warp-level matrix load instruction: ldmatrix", "Warp-level matrix store instruction: stmatrix".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics.products import WordArray, stacked
from .access import Access
from .lanes import WARP, Lanes
from .memory import ELEMENTS
from .warp import Warps

ROW_BYTES = 16
ROWS = 8


class Matrices:
    """ldmatrix and stmatrix of the executing threads, which must form whole warps."""

    def __init__(self, lanes: Lanes, warps: Warps, access: Access) -> None:
        self.lanes = lanes
        self.warps = warps
        self.access = access

    def ldmatrix(self, number: int, address: Any, num: int, trans: bool, pc: int) -> NDArray[np.uint32]:
        """Load row i of matrix m from the address of lane 8·m + i; its word j goes to lane 4·i + j.

        Return `num` registers, one row each. trans: transpose each matrix.
        """
        self.warps.whole(pc)
        group = self.lanes.group
        address = self.select_rows(self.lanes.each(address), num)
        rows = np.ascontiguousarray(self.access.load(number, address))
        self.lanes.select(group)
        if trans:
            halves = rows.view(np.uint16).reshape(-1, num, ROWS, ROWS).swapaxes(2, 3)
            words = np.ascontiguousarray(halves).view(np.uint32)
        else:
            words = rows.view(np.uint32).reshape(-1, num, ROWS, ROW_BYTES // 4)
        registers: WordArray = words.swapaxes(0, 1).reshape(num, -1)
        return registers

    def stmatrix(self, number: int, address: Any, values: Sequence[Any], trans: bool, pc: int) -> None:
        self.warps.whole(pc)
        group = self.lanes.group
        num = len(values)
        words = stacked(values, self.lanes.n, np.uint32).reshape(num, -1, ROWS, ROW_BYTES // 4).swapaxes(0, 1)
        words = np.ascontiguousarray(words)
        if trans:
            halves = words.view(np.uint16).reshape(-1, num, ROWS, ROWS).swapaxes(2, 3)
            words = np.ascontiguousarray(halves).view(np.uint32)
        address = self.select_rows(self.lanes.each(address), num)
        self.access.store(number, address, words.reshape(-1).view(ELEMENTS["V16"]))
        self.lanes.select(group)

    def select_rows(self, address: NDArray[Any], num: int) -> NDArray[Any]:
        lanes = ROWS * num
        if lanes == WARP:
            return address
        self.lanes.select(self.lanes.positions().reshape(-1, WARP)[:, :lanes].reshape(-1))
        return address.reshape(-1, WARP)[:, :lanes].reshape(-1)
