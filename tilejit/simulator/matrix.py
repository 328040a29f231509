"""ldmatrix, stmatrix and mma.sync: which thread holds which element, and the products themselves.

With lane = 4·g + t (g: groupID, t: threadID_in_group), words of 32 bits and e elements in a word, the ISA's tables
for all types of m16n8k* come to one:

    A, register r   row g + 8·(r mod 2)    columns (t + 4·(r div 2))·e + 0 … e-1
    B, register r   rows (t + 4·r)·e + 0 … e-1    column g
    C and D, 32-bit elements, register r   row g + 8·(r div 2)    column 2·t + r mod 2
    C and D, 16-bit elements, register r   row g + 8·r    columns 2·t, 2·t + 1

source: PTX ISA, "Matrix Fragments for mma.m16n8k4 … mma.m16n8k32", "Warp-level matrix load instruction: ldmatrix".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilejit.simulator.access import Access
from tilejit.simulator.lanes import WARP, Lanes
from tilejit.simulator.memory import ELEMENTS
from tilejit.simulator.numerics import convert, floats
from tilejit.simulator.warp import Warps

Words = NDArray[np.uint32]
Doubles = NDArray[np.float64]
ROW_BYTES = 16
ROWS = 8


class Matrices:
    """Matrix instructions of the executing threads, which are whole warps."""

    def __init__(self, lanes: Lanes, warps: Warps, access: Access) -> None:
        self.lanes = lanes
        self.warps = warps
        self.access = access

    def ldmatrix(self, number: int, address: Any, num: int, trans: bool, pc: int) -> NDArray[np.uint32]:
        """Row i of matrix m from the address of lane 8·m + i; lane 4·i + j gets its word j.

        returns: `num` registers, one row each; with `trans`, of the transposed matrices.
        """
        self.warps.whole(pc)
        group = self.lanes.group
        address = self.select_rows(np.broadcast_to(address, (self.lanes.n,)), num)
        rows = np.ascontiguousarray(self.access.load(number, address))
        self.lanes.select(group)
        if trans:
            halves = rows.view(np.uint16).reshape(-1, num, ROWS, ROWS).swapaxes(2, 3)
            words = np.ascontiguousarray(halves).view(np.uint32)
        else:
            words = rows.view(np.uint32).reshape(-1, num, ROWS, ROW_BYTES // 4)
        registers: Words = words.swapaxes(0, 1).reshape(num, -1)
        return registers

    def stmatrix(self, number: int, address: Any, values: Sequence[Any], trans: bool, pc: int) -> None:
        """The reverse of ldmatrix."""
        self.warps.whole(pc)
        group = self.lanes.group
        num = len(values)
        words = stacked(values, self.lanes.n, np.uint32).reshape(num, -1, ROWS, ROW_BYTES // 4).swapaxes(0, 1)
        words = np.ascontiguousarray(words)
        if trans:
            halves = words.view(np.uint16).reshape(-1, num, ROWS, ROWS).swapaxes(2, 3)
            words = np.ascontiguousarray(halves).view(np.uint32)
        address = self.select_rows(np.broadcast_to(address, (self.lanes.n,)), num)
        self.access.store(number, address, words.reshape(-1).view(ELEMENTS["V16"]))
        self.lanes.select(group)

    def select_rows(self, address: NDArray[Any], num: int) -> NDArray[Any]:
        """Let the lanes execute that name the rows of `num` matrices; their addresses."""
        lanes = ROWS * num
        if lanes == WARP:
            return address
        self.lanes.select(self.lanes.positions().reshape(-1, WARP)[:, :lanes].reshape(-1))
        return address.reshape(-1, WARP)[:, :lanes].reshape(-1)

    def mma(
        self, types: tuple[str, str, str], saturate: bool, pc: int, a: Sequence[Any], b: Sequence[Any], c: Sequence[Any]
    ) -> NDArray[Any]:
        """D = A·B + C per warp. types: of A, B, and of both C and D. returns: D's registers, one row each.

        Products are exact and summed in float64, then rounded once; the ISA leaves order and precision open.
        """
        self.warps.whole(pc)
        n = self.lanes.n
        product = fragment_a(decode(stacked(a, n, np.uint32), types[0])) @ fragment_b(
            decode(stacked(b, n, np.uint32), types[1])
        )
        half = types[2] == "f16"
        total = product + fragment_c(stacked(c, n, ACCUMULATOR[types[2]]), half)
        return registers_d(rounded(total, types[2], saturate), half)


ACCUMULATOR: dict[str, Any] = {"f32": np.float32, "f16": np.uint32, "s32": np.int32}


def stacked(values: Sequence[Any], n: int, dtype: Any) -> NDArray[Any]:
    """Registers of `n` threads as an array of registers × threads."""
    out = np.empty((len(values), n), dtype)
    for i, value in enumerate(values):
        out[i] = value
    return out


def decode(words: Words, element: str) -> Doubles:
    """The elements of 32-bit words as float64: registers × threads × elements of a word, the lowest first.

    tf32 keeps 10 bits of fraction; the lower 13 are cut off.
    """
    if element == "tf32":
        values = (words & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    elif element == "bf16":
        values = floats.bf16_to_f32(words.view(np.uint16)).astype(np.float64)
    elif element == "f16":
        values = words.view(np.float16).astype(np.float64)
    elif element in ("s8", "u8"):
        values = words.view(np.int8 if element == "s8" else np.uint8).astype(np.float64)
    else:
        values = convert.FP8_VALUES[element][words.view(np.uint8)]
    elements: Doubles = values.reshape(*words.shape, -1)
    return elements


def fragment_a(elements: Doubles) -> Doubles:
    """warps × 16 × k."""
    registers, threads, each = elements.shape
    split = elements.reshape(registers // 2, 2, threads // WARP, 8, 4, each)
    matrix: Doubles = split.transpose(2, 1, 3, 0, 4, 5).reshape(-1, 16, registers // 2 * 4 * each)
    return matrix


def fragment_b(elements: Doubles) -> Doubles:
    """warps × k × 8."""
    registers, threads, each = elements.shape
    split = elements.reshape(registers, threads // WARP, 8, 4, each)
    matrix: Doubles = split.transpose(1, 0, 3, 4, 2).reshape(-1, registers * 4 * each, 8)
    return matrix


def fragment_c(registers: NDArray[Any], half: bool) -> Doubles:
    """warps × 16 × 8."""
    if half:
        elements = registers.view(np.float16).reshape(2, -1, 8, 4, 2).transpose(1, 0, 2, 3, 4)
    else:
        elements = registers.reshape(2, 2, -1, 8, 4).transpose(2, 0, 3, 4, 1)
    matrix: Doubles = elements.reshape(-1, 16, 8).astype(np.float64)
    return matrix


def registers_d(matrix: NDArray[Any], half: bool) -> NDArray[Any]:
    """The reverse of fragment_c, from elements in their own type."""
    split = matrix.reshape(-1, 2, 8, 4, 2)
    if half:
        registers: NDArray[Any] = np.ascontiguousarray(split.transpose(1, 0, 2, 3, 4)).view(np.uint32).reshape(2, -1)
    else:
        registers = split.transpose(1, 4, 0, 2, 3).reshape(4, -1)
    return registers


def rounded(total: Doubles, element: str, saturate: bool) -> NDArray[Any]:
    """The sums in the accumulator's type; integers wrap around, or stop at the ends with `saturate`."""
    if element == "f32":
        result: NDArray[Any] = floats.canonical(total.astype(np.float32))
        return result
    if element == "f16":
        half: NDArray[Any] = floats.f64_to_f16(total)
        return half
    if saturate:
        total = np.clip(total, -(2.0**31), 2.0**31 - 1)
    return total.astype(np.int64).astype(np.int32)
