"""Conversion between element types, in NumPy."""

from __future__ import annotations

import numpy as np

from ..dtypes import DType, bool_


def convert(values: np.ndarray, dtype: DType, saturate: bool = True) -> np.ndarray:
    """Convert `values` to `dtype` with the semantics of the IR's `Cast`.

    To floats: rounded once, to nearest even, except that integers are rounded to float32 first for bfloat16 and fp8.
    To integers: modulo 2**bits from integers; toward zero from floats, unspecified if out of range. To bool_: x != 0.

    saturate: for fp8, map finite overflows and infinities to ± the largest finite value, like cvt.satfinite.
    source: PTX ISA, "Data Movement and Conversion Instructions: cvt".
    """
    if values.dtype == dtype.numpy:
        return values
    with np.errstate(all="ignore"):
        if dtype == bool_:
            return np.asarray(values != 0)
        if not dtype.is_float or dtype.name in ("float16", "float32", "float64"):
            # ml_dtypes converts its types exactly to float32, which NumPy can convert further
            plain = values if values.dtype.kind in "biuf" else values.astype(np.float32)
            return plain.astype(dtype.numpy)
        return _to_narrow(values, dtype, saturate)


def _to_narrow(values: np.ndarray, dtype: DType, saturate: bool) -> np.ndarray:
    single = round_to_odd(values) if values.dtype == np.float64 else values.astype(np.float32)
    narrow = single.astype(dtype.numpy)
    if not (dtype.is_fp8 and saturate):
        return narrow
    import ml_dtypes

    largest = np.float32(ml_dtypes.finfo(dtype.numpy).max)  # type: ignore[no-untyped-call]
    return np.where(np.isnan(single), single, np.clip(single, -largest, largest)).astype(dtype.numpy)


def round_to_odd(values: np.ndarray) -> np.ndarray:
    """Round float64 to float32 such that rounding the result to a narrower type gives the correctly rounded value.

    A value that float32 can't represent becomes the adjacent float32 whose last bit is 1.

    source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding
    to odd", IEEE Transactions on Computers 57(4), 2008.
    """
    nearest = values.astype(np.float32)
    back = nearest.astype(np.float64)
    inexact = np.isfinite(values) & (back != values)
    toward_zero = np.where(
        inexact & (np.abs(back) > np.abs(values)), np.nextafter(nearest, np.float32(0)), nearest
    ).astype(np.float32)
    bits = toward_zero.view(np.uint32)
    return np.where(inexact, bits | np.uint32(1), bits).astype(np.uint32).view(np.float32)
