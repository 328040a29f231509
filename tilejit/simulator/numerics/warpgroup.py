"""wgmma: the distribution of elements over the threads of a warpgroup, and the arithmetic.

With warp w, lane = 4·g + t and e elements per 32-bit word:

    A, register 2·h + i    row 16·w + 8·i + g    columns (t + 4·h)·e + 0 … e-1
    D, 32-bit elements, register 4·c + 2·i + j    row 16·w + 8·i + g    column 8·c + 2·t + j
    D, 16-bit elements, register 2·c + i    row 16·w + 8·i + g    columns 8·c + 2·t, 8·c + 2·t + 1

source: PTX ISA, "Register Fragments and Shared Memory Matrix Layouts" of wgmma.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ..machine.lanes import WARPGROUP
from .products import Doubles, decode, rounded, stacked

ROWS = 64


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
    #: True if the operand is MN-major
    trans_a: bool
    trans_b: bool


def matrix_d(registers: Sequence[Any], threads: int, form: ProductForm) -> NDArray[Any]:
    """Return the accumulators of `threads` threads in their element type: warpgroups × 64 × n."""
    words = stacked(registers, threads, np.uint32 if form.d == "f16" else registers[0].dtype)
    if form.d == "f16":
        split = words.view(np.float16).reshape(form.n // 8, 2, -1, 4, 8, 4, 2).transpose(2, 3, 1, 4, 0, 5, 6)
    else:
        split = words.reshape(form.n // 8, 2, 2, -1, 4, 8, 4).transpose(3, 4, 1, 5, 0, 6, 2)
    matrix: NDArray[Any] = split.reshape(-1, ROWS, form.n)
    return matrix


def registers_d(matrix: NDArray[Any], form: ProductForm) -> NDArray[Any]:
    """Invert `matrix_d`: return registers × threads."""
    split = matrix.reshape(-1, 4, 2, 8, form.n // 8, 4, 2)
    if form.d == "f16":
        words = np.ascontiguousarray(split.transpose(4, 2, 0, 1, 3, 5, 6)).view(np.uint32)
        return words.reshape(form.n // 4, -1)
    registers: NDArray[Any] = split.transpose(4, 2, 6, 0, 1, 3, 5).reshape(form.n // 2, -1)
    return registers


def matrix_a(registers: Sequence[Any], threads: int, form: ProductForm) -> Doubles:
    """Return A from four registers of each thread: warpgroups × 64 × k."""
    elements = decode(stacked(registers, threads, np.uint32), form.a)
    split = elements.reshape(2, 2, -1, 4, 8, 4, elements.shape[-1])
    matrix: Doubles = split.transpose(2, 3, 1, 4, 0, 5, 6).reshape(threads // WARPGROUP, ROWS, -1)
    return matrix


def from_chunks(chunks: NDArray[Any], element: str, transposed: bool) -> Doubles:
    """Return an operand, (M or N) × k, from its 16-byte chunks: (M or N) × 2, or (M or N)/8 × 16 if transposed."""
    raw = np.ascontiguousarray(chunks)
    if transposed:
        halves = raw.view(np.uint16).reshape(*raw.shape, 8).swapaxes(1, 2)
        raw = np.ascontiguousarray(halves).reshape(-1, halves.shape[2])
    words = raw.view(np.uint32).reshape(raw.shape[0], -1)
    return decode(words, element).reshape(raw.shape[0], -1)


def multiplied(form: ProductForm, a: Doubles, b: Doubles, c: NDArray[Any] | None) -> NDArray[Any]:
    """Return ±A·B + C in the accumulator's type: exact products, summed in float64, rounded once.

    b: N × k. c: None for 0.
    """
    total = a @ b.swapaxes(-1, -2)
    if form.sign_a * form.sign_b < 0:
        np.negative(total, out=total)
    # Without c, adding 0.0 turns -0 into +0.
    total += 0.0 if c is None else c
    return rounded(total, form.d, form.saturate)
