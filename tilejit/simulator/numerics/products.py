"""Matrix products by a warp (mma.sync) or a warpgroup (wgmma): the elements that each thread holds, and arithmetic.

With lane = 4·g + t (g: groupID, t: threadID_in_group) and e elements per 32-bit word, the ISA's tables for m16n8k*
reduce to one:

    A, register r   row g + 8·(r mod 2)    columns (t + 4·(r div 2))·e + 0 … e-1
    B, register r   rows (t + 4·r)·e + 0 … e-1    column g
    C and D, 32-bit elements, register r   row g + 8·(r div 2)    column 2·t + r mod 2
    C and D, 16-bit elements, register r   row g + 8·r    columns 2·t, 2·t + 1

For wgmma, warp w of a warpgroup holds rows 16·w to 16·w + 15 of A and D; its registers of D are those of C for columns
0 to 7, then for columns 8 to 15, and so on.

source: PTX ISA, "Matrix Fragments for mma.m16n8k4 with .tf32 floating point type" and the sections after it; "Register
Fragments and Shared Memory Matrix Layouts" of wgmma.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ..machine.lanes import WARP
from . import convert, floats

WordArray = NDArray[np.uint32]
Doubles = NDArray[np.float64]


def stacked(values: Sequence[Any], n: int, dtype: Any) -> NDArray[Any]:
    """Return registers of `n` threads as an array: registers × threads. A scalar is the value for all threads."""
    out = np.empty((len(values), n), dtype)
    for i, value in enumerate(values):
        out[i] = value
    return out


def decode(words: WordArray, element: str) -> Doubles:
    """Return the elements of 32-bit words as float64, in a new last dimension, the lowest first.

    The lower 13 bits of tf32 are ignored.
    """
    if element == "tf32":
        values = (words & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    elif element == "bf16":
        values = floats.bf16_to_f32(words.view(np.uint16)).astype(np.float64)
    elif element == "f16":
        values = words.view(np.float16).astype(np.float64)
    elif element in ("s8", "u8"):
        values = words.view(np.int8 if element == "s8" else np.uint8).astype(np.float64)
    elif element in ("s4", "u4", "b1"):
        bits = 1 if element == "b1" else 4
        shifts = np.arange(0, 32, bits, dtype=np.uint32)
        values = (words[..., None] >> shifts & np.uint32((1 << bits) - 1)).astype(np.float64)
        if element == "s4":
            values -= 16 * (values > 7)
    else:
        values = convert.FP8_VALUES[element][words.view(np.uint8)]
    elements: Doubles = values.reshape(*words.shape, -1)
    return elements


def fragment_a(values: Sequence[Any], n: int, element: str) -> Doubles:
    """Return A from the registers of `n` threads: warps × 16 × k."""
    elements = decode(stacked(values, n, np.uint32), element)
    registers, threads, each = elements.shape
    split = elements.reshape(registers // 2, 2, threads // WARP, 8, 4, each)
    matrix: Doubles = split.transpose(2, 1, 3, 0, 4, 5).reshape(-1, 16, registers // 2 * 4 * each)
    return matrix


def fragment_b(values: Sequence[Any], n: int, element: str) -> Doubles:
    """Return B from the registers of `n` threads: warps × k × 8."""
    elements = decode(stacked(values, n, np.uint32), element)
    registers, threads, each = elements.shape
    split = elements.reshape(registers, threads // WARP, 8, 4, each)
    matrix: Doubles = split.transpose(1, 0, 3, 4, 2).reshape(-1, registers * 4 * each, 8)
    return matrix


def fragment_c(values: Sequence[Any], n: int, half: bool) -> NDArray[Any]:
    """Return C from the registers of `n` threads, in its type: warps × 16 × columns. half: elements have 16 bits."""
    registers = stacked(values, n, np.uint32 if half else values[0].dtype)
    if half:
        split = registers.view(np.float16).reshape(len(values) // 2, 2, -1, 8, 4, 2).transpose(2, 1, 3, 0, 4, 5)
    else:
        split = registers.reshape(len(values) // 4, 2, 2, -1, 8, 4).transpose(3, 1, 4, 0, 5, 2)
    matrix: NDArray[Any] = split.reshape(n // WARP, 16, -1)
    return matrix


def product(a: Doubles, b: Doubles, c: NDArray[Any], element: str, saturate: bool) -> NDArray[Any]:
    """Return D = A·B + C in C's type.

    Exact products are summed in float64, and the sum is rounded. For floats, the ISA leaves order and precision open.
    """
    total = a @ b
    total += c
    return rounded(total, element, saturate)


def registers_d(matrix: NDArray[Any], half: bool) -> NDArray[Any]:
    """Invert `fragment_c`: return registers × threads."""
    split = matrix.reshape(-1, 2, 8, matrix.shape[-1] // 8, 4, 2)
    if half:
        words = np.ascontiguousarray(split.transpose(3, 1, 0, 2, 4, 5)).view(np.uint32)
        return words.reshape(matrix.shape[-1] // 4, -1)
    registers: NDArray[Any] = split.transpose(3, 1, 5, 0, 2, 4).reshape(matrix.shape[-1] // 2, -1)
    return registers


def rounded(total: Doubles, element: str, saturate: bool) -> NDArray[Any]:
    """Round sums to the accumulator's type; integers wrap, or are clamped with `saturate`."""
    if element == "f32":
        result: NDArray[Any] = floats.canonical(total.astype(np.float32))
        return result
    if element == "f16":
        half: NDArray[Any] = floats.to_f16(total)
        return half
    if saturate:
        total = np.clip(total, -(2.0**31), 2.0**31 - 1)
    return total.astype(np.int64).astype(np.int32)


@dataclass(frozen=True, slots=True)
class ProductForm:
    """One form of wgmma.mma_async."""

    n: int
    #: element types
    a: str
    b: str
    d: str
    saturate: bool
    #: factors of A and B, 1 or -1
    sign_a: int
    sign_b: int
    #: True for an operand in MN-major order
    trans_a: bool
    trans_b: bool

    def registers(self, a: Doubles, b: Doubles, c: NDArray[Any] | None) -> NDArray[Any]:
        """Return the registers of D = ±A·B + C, as registers × threads. b: N × K. c: None for 0.

        Exact products are summed in float64, and the sum is rounded to the accumulator's type.
        """
        total = a @ b.swapaxes(-1, -2)
        if self.sign_a * self.sign_b < 0:
            np.negative(total, out=total)
        # Without c, adding 0.0 turns -0 into +0.
        total += 0.0 if c is None else c
        return registers_d(rounded(total, self.d, self.saturate), self.d == "f16")


def from_chunks(chunks: NDArray[Any], element: str, transposed: bool) -> Doubles:
    """Return an operand, (M or N) × K, from its 16-byte chunks: (M or N) × 2, or (M or N)/8 × 16 if transposed."""
    raw = np.ascontiguousarray(chunks)
    if transposed:
        halves = raw.view(np.uint16).reshape(*raw.shape, 8).swapaxes(1, 2)
        raw = np.ascontiguousarray(halves).reshape(-1, halves.shape[2])
    words = raw.view(np.uint32).reshape(raw.shape[0], -1)
    return decode(words, element).reshape(raw.shape[0], -1)


FUNCTIONS: dict[str, Any] = {f.__name__: f for f in (fragment_a, fragment_b, fragment_c, product, registers_d)}
