"""4-bit numbers, two per byte, on the host.

In natural order, the low half of a byte comes first. In interleaved order, number 2k of each eight is nibble k of their
four bytes, and number 2k + 1 is nibble k + 4, so that one mask of a 32-bit word selects two neighbours, 16 bits apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .dtypes import DType, float4_e2m1fn_x2

#: the values of `float4_e2m1fn_x2` without a sign, by code
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
#: the code is the number of bounds below |x|; a tie goes to the even code, so every other bound counts if it is equal
E2M1_BOUNDS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)

ORDERS = ("natural", "interleaved")


def pack(x: Any, dtype: DType, order: str = "natural") -> np.ndarray:
    """Return 4-bit numbers as bytes of two along the last axis: an array of uint8, or in a kernel a tile of `dtype`.

    Integers keep their low 4 bits. float4_e2m1fn_x2 rounds to nearest even and saturates at 6; NaN becomes 0.

    x: numbers whose last axis is a multiple of 2, or of 8 in interleaved order.
    dtype: `tj.int4x2`, `tj.uint4x2` or `tj.float4_e2m1fn_x2`.
    order: "natural", or "interleaved" for `tj.unpack(x, dtype, order="interleaved")`.

    Example:
        assert tj.pack([1, 2, 3, -1], tj.int4x2).tolist() == [0x21, 0xF3]
    """
    values = np.asarray(x)
    if dtype.kind != "packed":
        raise TypeError(f"pack takes a type such as tj.int4x2; got {dtype}")
    if order not in ORDERS:
        raise ValueError(f"order= is 'natural' or 'interleaved'; got {order!r}")
    multiple = 2 if order == "natural" else 8
    if not values.ndim or values.shape[-1] % multiple:
        raise ValueError(f"the last axis must be a multiple of {multiple}; got shape {values.shape}")
    if dtype is float4_e2m1fn_x2:
        size = np.abs(values.astype(np.float64))
        codes = sum((size >= b) if k % 2 else (size > b) for k, b in enumerate(E2M1_BOUNDS))
        nibbles = np.where(np.isnan(size), 0, codes + 8 * np.signbit(values.astype(np.float64))).astype(np.uint8)
    else:
        nibbles = (values.astype(np.int64) & 15).astype(np.uint8)
    made = np.asarray(nibbles[..., 0::2] | nibbles[..., 1::2] << 4)
    return made if order == "natural" else interleave4(made)


def interleave4(x: Any) -> np.ndarray:
    """Return bytes in interleaved order, given bytes of two 4-bit numbers in natural order; each four are permuted.

    Example:
        assert tj.interleave4(tj.pack(range(8), tj.uint4x2)).tolist() == [0x20, 0x64, 0x31, 0x75]
    """
    values = np.asarray(x)
    if values.dtype.itemsize != 1 or not values.ndim or values.shape[-1] % 4:
        raise ValueError(f"interleave4 takes bytes in rows of a multiple of 4; got {values.dtype} of {values.shape}")
    whole = values.view(np.uint8).reshape(*values.shape[:-1], -1, 4)
    low, high = whole & 15, whole >> 4
    # the numbers of a byte have the indices 2i (low) and 2i + 1 (high)
    even, odd = low[..., 0::2] | low[..., 1::2] << 4, high[..., 0::2] | high[..., 1::2] << 4
    return np.concatenate([even, odd], -1).reshape(values.shape).view(values.dtype)
