"""Fragments: the elements of a matrix that each lane's registers hold, for mma, wmma and wgmma.

Each operand is a matrix whose rows are multiplied with another's rows: A is M × K, B is N × K, and the accumulator is
M × N. For wmma's m8n32k16 the accumulator is N × M, as if A and B were exchanged.

With lane = 4·g + t and w elements in a 32-bit word (w = 1 for 64 bits, w = 2 for all accumulators), lane 0 holds row 0,
columns 0 … w-1; g adds g rows and t adds t·w columns. The lane's other elements are 4·w columns and 8 rows apart. They
are in the order of the rows and then of the columns; but in A and the accumulator, blocks of 16 rows are subdivided by
columns, and then by rows.

The ISA documents this for mma and wgmma, where each warp of a warpgroup holds 16 rows of A and D. The fragments of wmma
are unspecified, except for their number of registers; these are those of sm_90, which consist of fragments of mma and
don't depend on the order of the matrix in memory.

source: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64 floating point type" and the sections after it, "Matrix
Fragments for WMMA", "Register Fragments and Shared Memory Matrix Layouts" of wgmma; for wmma, what an sm_90 GPU loads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ..decode.names import DTYPES, SIZE
from ..machine.lanes import WARP, Index
from .products import Doubles, decode, stacked

#: PTX type → dtype of elements in a fragment's matrix; for types narrower than a byte, of words
_DTYPE = {
    "b1": "u4", "s4": "u4", "u4": "u4", "s8": "i1", "u8": "u1", "e4m3": "u1", "e5m2": "u1", "f16": "f2", "bf16": "u2",
    "tf32": "u4", "f32": "f4", "s32": "i4", "f64": "f8",
}
#: type narrower than a byte → bits
NARROW = {"b1": 1, "s4": 4, "u4": 4}
#: the numbers M · N of wmma's shapes, and of registers of A and of B in f16, which repeat elements if there are fewer
_WMMA_ELEMENTS, _HALF_COUNT = 256, 8
#: the largest number of bytes that a lane accesses at once
CHUNK_BYTES = 16


@dataclass(frozen=True, slots=True)
class Fragment:
    """A matrix, rows × columns, in the registers of a warp."""

    name: str
    rows: int
    columns: int
    element: str
    dtype: str
    #: dtype of a register; the number of registers, of which those after the first `distinct` repeat elements
    register: str
    count: int
    distinct: int
    #: the numbers of blocks of rows, of blocks of columns in such a block, of rows in these, and of adjacent registers
    split: tuple[int, int, int, int]

    def matrix(self, values: Sequence[Any], n: int) -> NDArray[Any]:
        """Return the matrices in the registers of `n` threads: warps × rows × columns."""
        outer, columns, inner, pair = self.split
        words = stacked(values[: self.distinct], n, DTYPES[self.register])
        words = words.reshape(outer, columns, inner, pair, n // WARP, 8, 4).transpose(4, 0, 2, 5, 1, 6, 3)
        result: NDArray[Any] = words.reshape(n // WARP, self.rows, -1).view(DTYPES[self.dtype])
        return result

    def registers(self, matrix: NDArray[Any]) -> NDArray[Any]:
        """Invert `matrix`: return registers × threads."""
        outer, columns, inner, pair = self.split
        words = matrix.view(DTYPES[self.register]).reshape(-1, outer, inner, 8, columns, 4, pair)
        result = words.transpose(1, 4, 2, 6, 0, 3, 5).reshape(self.distinct, -1)
        return result if self.count == self.distinct else np.tile(result, (self.count // self.distinct, 1))

    def doubles(self, values: Sequence[Any], n: int, transposed: bool = False) -> Doubles:
        """Return the matrices, or the transposed ones, in the registers of `n` threads as float64."""
        matrix = self.matrix(values, n)
        result = matrix if self.element == "f64" else decode(matrix.view(np.uint32), self.element)
        return np.ascontiguousarray(result.swapaxes(1, 2)) if transposed else result


def bits_of(element: str) -> int:
    return NARROW.get(element, 8 * int(SIZE[_DTYPE[element]]))


def is_exchanged(shape: str) -> bool:
    """True if the roles of A and B are exchanged."""
    return shape == "m8n32k16"


@lru_cache(maxsize=256)
def fragment(role: str, shape: str, element: str) -> Fragment:
    """Return the fragment of matrix `role`: "a", "b" or "c" (the accumulator). shape: such as m16n8k16."""
    m, n, k = (int(x) for x in re.findall(r"\d+", shape))
    rows, columns = {"a": (m, k), "b": (n, k), "c": (n, m) if is_exchanged(shape) else (m, n)}[role]
    dtype = _DTYPE[element]
    register = dtype if SIZE[dtype] >= 4 else "u4"
    if element in NARROW:
        columns = columns * NARROW[element] // 32
    is_left = role == "c" or (role == "a") != is_exchanged(shape)
    inner = 2 if is_left and rows > 8 else 1
    pair = 2 if role == "c" and element != "f16" else 1
    outer, words = rows // 8 // inner, columns * SIZE[dtype] // SIZE[register]
    split = outer, words // (4 * pair), inner, pair
    distinct = prod(split)
    count = _HALF_COUNT if element == "f16" and role != "c" and m * n == _WMMA_ELEMENTS else distinct
    return Fragment(f"{role}_{shape}_{element}", rows, columns, element, dtype, register, count, distinct, split)


@dataclass(frozen=True, slots=True)
class MatrixTile:
    """A fragment's matrix in memory."""

    name: str
    fragment: Fragment
    #: True if the rows of the fragment's matrix are contiguous, False if its columns are
    is_by_rows: bool
    lines: int
    #: number of elements from one line to the next if no others are between them
    stride: int
    #: of an element
    bits: int
    chunk_bytes: int
    #: passes × lanes that execute a pass → the chunk that it accesses
    order: Index
    #: the lanes that execute a pass
    lanes: Index

    def exchange(self, lines: NDArray[Any]) -> NDArray[Any]:
        """Return the fragment's matrices from lines, warps × lines × elements, or lines from the matrices."""
        return lines if self.is_by_rows else np.ascontiguousarray(lines.swapaxes(1, 2))


@lru_cache(maxsize=128)
def matrix_tile(role: str, layout: str, shape: str, element: str) -> MatrixTile:
    """Return the tile of matrix `role`: "a", "b" or "c". layout: "row" or "col", its order in memory."""
    kept = fragment(role, shape, element)
    # the fragment holds B, and an accumulator whose operands are exchanged, transposed
    is_transposed = role == "b" or (role == "c" and is_exchanged(shape))
    is_by_rows = (layout == "row") != is_transposed
    lines, length = (kept.rows, kept.columns) if is_by_rows else (kept.columns, kept.rows)
    line_bytes = length * SIZE[kept.dtype]
    chunk = min(line_bytes, CHUNK_BYTES, kept.count * SIZE[kept.register])
    chunks = lines * line_bytes // chunk
    order = np.arange(WARP) ^ (31 if role == "c" else 16)
    lanes = np.flatnonzero(order < chunks)
    order = order[lanes] + np.arange(0, chunks, WARP)[:, None]
    stride = 8 * line_bytes // bits_of(element)
    return MatrixTile(
        f"{layout}_{kept.name}", kept, is_by_rows, lines, stride, bits_of(element), chunk, order, lanes
    )
