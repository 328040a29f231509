"""Fragments: the elements of a matrix that each lane's registers hold, for wmma and for mma in double precision.

Each operand is a matrix whose rows are multiplied with another's rows: A is M × K, B is N × K, and the accumulator is
M × N. For m8n32k16 the accumulator is N × M, as if A and B were exchanged.

With lane = 4·g + t and w elements in a 32-bit word (w = 1 for 64 bits, w = 2 for all accumulators), lane 0 holds row 0,
columns 0 … w-1; g adds g rows and t adds t·w columns. The lane's other elements are 4·w columns and 8 rows apart.

The ISA documents this for mma. The fragments of wmma are unspecified, except for their number of registers; these are
those of sm_90, which consist of fragments of mma and don't depend on the order of the matrix in memory.

source: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64 floating point type", "Matrix Fragments for WMMA"; for wmma,
what an sm_90 GPU loads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ..decode.names import SIZE
from ..machine.lanes import WARP, Index
from . import floats
from .directed import fma_dir_f64
from .products import Doubles, decode, stacked

#: PTX type → bits
BITS = {"b1": 1, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "f64": 64}
#: PTX type → dtype of elements in a fragment's matrix; of types narrower than a byte it has words
_DTYPE = {"f16": "f2", "bf16": "u2", "s8": "i1", "u8": "u1", "f32": "f4", "s32": "i4", "f64": "f8"}
#: PTX type of an accumulator or of doubles → dtype of a register
_REGISTER = {"f32": "f4", "s32": "i4", "f64": "f8"}
#: registers of A and of B in f16, which repeat elements if there are fewer
HALF_COUNT = 8
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
    #: dtype of a register, and number of registers
    register: str
    count: int
    #: lanes × elements of a lane → index in the matrix
    places: Index
    #: index in the matrix → index of the first of its copies in lanes × elements
    first: Index

    @property
    def lane_bytes(self) -> int:
        return self.count * int(SIZE[self.register])

    def matrix(self, values: Sequence[Any], n: int) -> NDArray[Any]:
        """Return the matrices in the registers of `n` threads: warps × rows × columns."""
        words = np.ascontiguousarray(stacked(values, n, self.register).T)
        elements = words.view(self.dtype).reshape(n // WARP, -1)
        return np.take(elements, self.first, axis=1).reshape(-1, self.rows, self.columns)

    def registers(self, matrix: NDArray[Any]) -> NDArray[Any]:
        """Invert `matrix`: return registers × threads."""
        elements = np.take(matrix.reshape(-1, self.rows * self.columns), self.places, axis=1)
        words = elements.view(self.register)
        return np.ascontiguousarray(words.reshape(-1, self.count).T)

    def doubles(self, values: Sequence[Any], n: int) -> Doubles:
        """Return the matrices in the registers of `n` threads as float64."""
        matrix = self.matrix(values, n)
        if self.element == "f64":
            return matrix
        elements = decode(matrix.view(np.uint32), self.element)
        result: Doubles = elements.reshape(-1, self.rows, elements.shape[-1] * elements.shape[-2])
        return result


def extents(shape: str) -> tuple[int, int, int]:
    """Return M, N and K of a shape such as m16n8k16."""
    m, n, k = (int(x) for x in re.findall(r"\d+", shape))
    return m, n, k


def is_exchanged(shape: str) -> bool:
    """True if the roles of A and B are exchanged."""
    m, n, _ = extents(shape)
    return n > m


@lru_cache(maxsize=128)
def fragment(role: str, shape: str, element: str) -> Fragment:
    """Return the fragment of matrix `role`: "a", "b" or "c" (the accumulator)."""
    m, n, k = extents(shape)
    bits = BITS[element]
    exchanged = is_exchanged(shape)
    if role == "c":
        rows, columns, width = (n, m, 2) if exchanged else (m, n, 2)
    else:
        rows, columns, width = m if role == "a" else n, k, max(32 // bits, 1)
    if bits < 8:
        # a lane's elements are one word
        columns, width = columns // width, 1
    places = _places(rows, columns, width, left=role == "c" or (role == "a") != exchanged)
    dtype, register = _DTYPE.get(element, "u4"), _REGISTER.get(element, "u4")
    count = places.shape[1] * SIZE[dtype] // SIZE[register]
    if element == "f16" and role != "c":
        places, count = np.tile(places, (1, HALF_COUNT // count)), HALF_COUNT
    first = np.zeros(rows * columns, np.int64)
    first[places.reshape(-1)[::-1]] = np.arange(places.size)[::-1]
    return Fragment(f"{role}_{shape}_{element}", rows, columns, element, dtype, register, count, places, first)


def _places(rows: int, columns: int, width: int, left: bool) -> Index:
    """Return lanes × elements of a lane → index in the matrix. left: True for A and the accumulator, False for B."""
    lanes = _sums([width, 2 * width, columns, 2 * columns, 4 * columns])
    word = _doubled(1, width)
    right = _doubled(4 * width, columns)
    below = [columns * x for x in _doubled(8, rows)]
    steps = [*word, *below[:1], *right, *below[1:]] if left else [*word, *right, *below]
    return lanes[:, None] + _sums(steps)


def _doubled(start: int, end: int) -> list[int]:
    """Return start, 2 * start, 4 * start, ... below `end`."""
    return [start << i for i in range((end - 1).bit_length()) if start << i < end]


def _sums(steps: Iterable[int]) -> Index:
    """Return, for each number, the sum of the steps that belong to its set bits."""
    result = np.zeros(1, np.int64)
    for step in steps:
        result = np.concatenate([result, result + step])
    return result


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
    chunk = min(line_bytes, CHUNK_BYTES, kept.lane_bytes)
    chunks = lines * line_bytes // chunk
    order = np.arange(WARP) ^ (31 if role == "c" else 16)
    lanes = np.flatnonzero(order < chunks)
    order = order[lanes] + np.arange(0, chunks, WARP)[:, None]
    stride = 8 * line_bytes // BITS[element]
    return MatrixTile(
        f"{layout}_{kept.name}", kept, is_by_rows, lines, stride, BITS[element], chunk, order, lanes
    )


def fused_product(a: Doubles, b: Doubles, c: Doubles, mode: str) -> Doubles:
    """Return D = A·B + C by fused multiply-adds in ascending order of k, rounded in `mode`: rn, rz, rm or rp.

    The ISA prescribes the precision of each step, not their order, which is that of sm_90 GPUs.
    """
    result = c.reshape(-1)
    for k in range(a.shape[-1]):
        x, y = np.broadcast_arrays(a[:, :, None, k], b[:, None, k])
        x, y = x.reshape(-1), y.reshape(-1)
        result = floats.fma_f64(x, y, result) if mode == "rn" else fma_dir_f64(x, y, result, mode)
    return result.reshape(c.shape)


FUNCTIONS: dict[str, Any] = {"fused_product": fused_product}
