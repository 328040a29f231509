"""Arithmetic of matrix products by a warp (mma, wmma) or a warpgroup (wgmma)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from . import convert, floats
from .directed import fma_dir_f64

WordArray = NDArray[np.uint32]
Doubles = NDArray[np.float64]


def stacked(values: Sequence[Any], n: int, dtype: Any) -> NDArray[Any]:
    """Return registers of `n` threads as an array: registers × threads. A scalar is the value for all threads."""
    out = np.empty((len(values), n), dtype)
    for i, value in enumerate(values):
        out[i] = value
    return out


def decode(words: WordArray, element: str) -> Doubles:
    """Return the elements of 32-bit words as float64, the lowest of each word first, along the last dimension.

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
    elements: Doubles = values.reshape(*words.shape[:-1], -1)
    return elements


def product(a: Doubles, b: Doubles, c: NDArray[Any], element: str, saturate: bool) -> NDArray[Any]:
    """Return D = A·B + C in C's type.

    Exact products are summed in float64, and the sum is rounded. For floats, the ISA leaves order and precision open.
    """
    total = a @ b
    total += c
    return rounded(total, element, saturate)


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
    k: int
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

    def product(self, a: Doubles, b: Doubles, c: NDArray[Any] | None) -> NDArray[Any]:
        """Return D = ±A·B + C. b: N × K. c: None for 0.

        Exact products are summed in float64, and the sum is rounded to the accumulator's type.
        """
        total = a @ b.swapaxes(-1, -2)
        if self.sign_a * self.sign_b < 0:
            np.negative(total, out=total)
        # Without c, adding 0.0 turns -0 into +0.
        total += 0.0 if c is None else c
        return rounded(total, self.d, self.saturate)


def from_chunks(chunks: NDArray[Any], element: str, transposed: bool) -> Doubles:
    """Return an operand, (M or N) × K, from its 16-byte chunks: (M or N) × 2, or (M or N)/8 × 16 if transposed."""
    raw = np.ascontiguousarray(chunks)
    if transposed:
        halves = raw.view(np.uint16).reshape(*raw.shape, 8).swapaxes(1, 2)
        raw = np.ascontiguousarray(halves).reshape(-1, halves.shape[2])
    words = raw.view(np.uint32).reshape(raw.shape[0], -1)
    return decode(words, element)


FUNCTIONS: dict[str, Any] = {"product": product, "fused_product": fused_product}
