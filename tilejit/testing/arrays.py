"""Strategies for element types and arrays, and how arrays are compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..dtypes import DTYPES, DType, from_numpy

__all__ = ["Array", "arrays", "assert_equal", "dtypes", "ulps"]

Array = np.ndarray[Any, Any]


def dtypes(*, kinds: Sequence[str] = ("bool", "int", "uint", "float"), fp8: bool = True) -> st.SearchStrategy[DType]:
    """Any element type of these kinds. fp8: the two float8 too, which can only be moved and cast."""
    return st.sampled_from([t for t in DTYPES.values() if t.kind in kinds and (fp8 or not t.is_fp8)])


@st.composite
def arrays(
    draw: st.DrawFn, shape: Sequence[int], dtype: DType, *, strided: bool = False, misaligned: bool = False
) -> Array:
    """An array of random bits, small numbers and special values: zeros, infinities, NaNs, the ends of the range.

    strided: its strides may be permuted, padded, negative or, where it repeats itself, 0.
    misaligned: it may begin at any element, instead of at a multiple of 128 bytes.
    """
    strides, low, span = draw(_strides(tuple(shape))) if strided else (_row_major(shape), 0, math.prod(shape))
    shift = draw(st.integers(0, 16)) if misaligned else 0
    room = np.zeros((span + shift) * dtype.bytes + 128, np.uint8)
    start = -room.ctypes.data % 128 + (shift + low) * dtype.bytes
    array: Array = np.ndarray(tuple(shape), dtype.numpy, room, start, tuple(s * dtype.bytes for s in strides))
    seed, tame = draw(st.tuples(st.integers(0, 2**32 - 1), st.booleans()))
    array[...] = _values(np.random.default_rng(seed), math.prod(shape), dtype, tame).reshape(array.shape)
    return array


@st.composite
def _strides(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[list[int], int, int]:
    """Strides in elements, how many elements the first lies behind the lowest, and elements from end to end."""
    strides, step = [0] * len(shape), 1
    for d in draw(st.permutations(range(len(shape)))):
        if draw(st.integers(0, 7)) == 0:
            continue
        step *= draw(st.sampled_from((1, 1, 1, 2, 3)))
        strides[d] = step * draw(st.sampled_from((1, 1, -1)))
        step = step * shape[d] + draw(st.sampled_from((0, 0, 1, 4, 8)))
    reach = [max(n - 1, 0) * s for n, s in zip(shape, strides, strict=True)]
    low = -sum(r for r in reach if r < 0)
    return strides, low, low + sum(r for r in reach if r > 0) + 1


def _row_major(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def _values(random: np.random.Generator, count: int, dtype: DType, tame: bool) -> Array:
    """tame: small numbers, else any bits; special values are strewn among both."""
    if dtype.kind == "bool":
        return random.integers(0, 2, count).astype(np.bool_)
    if tame:
        low = 0 if dtype.kind == "uint" else -8
        drawn = random.integers(low, 9, count)
        values = (drawn / 4 if dtype.is_float else drawn).astype(dtype.numpy)
    else:
        values = random.integers(0, 256, count * dtype.bytes, dtype=np.uint8).view(dtype.numpy)
    special = _special(dtype)
    strewn = random.random(count) < 0.1
    return np.where(strewn, special[random.integers(0, len(special), count)], values).astype(dtype.numpy)


def _special(dtype: DType) -> Array:
    if not dtype.is_float:
        ends = np.iinfo(dtype.numpy)
        return np.array([0, 1, ends.min, ends.max], dtype.numpy)
    import ml_dtypes

    info = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    listed = [0.0, -0.0, 1.0, -1.0, math.nan, info.max, info.min, info.tiny, info.smallest_subnormal]
    if dtype.name != "float8_e4m3fn":
        listed += [math.inf, -math.inf]
    return np.array(listed, np.float64).astype(dtype.numpy)


def assert_equal(name: str, got: Array, expected: Any, rtol: float = 0, atol: float = 0, ulp: int = 0) -> None:
    """Raise AssertionError where `got` isn't `expected`: index, both values, their distance, how many more.

    rtol, atol: as in `numpy.isclose`. ulp: how many units in the last place floats may differ. All 0: bit for bit,
    but for NaNs, which all are equal.
    """
    wanted = np.asarray(expected)
    if wanted.dtype != got.dtype:
        raise AssertionError(f"{name} is of {got.dtype}; expected is of {wanted.dtype}: cast it")
    if wanted.shape != got.shape:
        raise AssertionError(f"{name} has shape {got.shape}; expected has {wanted.shape}")
    wrong = ~_agree(got, wanted, rtol, atol, ulp)
    if not wrong.any():
        return
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    apart = f", {int(ulps(got[at], wanted[at]))} ulp apart" if _is_float(got) else ""
    others = int(wrong.sum()) - 1
    more = f"; {others} more of {got.size} differ" if others else f"; the other {got.size - 1} agree"
    raise AssertionError(f"{name}{list(at)} is {got[at]!s}, expected {wanted[at]!s}{apart}{more}")


def _agree(got: Array, wanted: Array, rtol: float, atol: float, ulp: int) -> Array:
    same = _bits(got) == _bits(wanted)
    if not _is_float(got):
        return np.asarray(same | np.isclose(got, wanted, rtol, atol) if rtol or atol else same)
    with np.errstate(all="ignore"):
        same |= np.isnan(got) & np.isnan(wanted)
        if rtol or atol:
            same |= np.isclose(got.astype(np.float64), wanted.astype(np.float64), rtol, atol)
        if ulp:
            same |= ulps(got, wanted) <= ulp
    return np.asarray(same)


def _is_float(array: Array) -> bool:
    dtype = from_numpy(array.dtype)
    return dtype is not None and dtype.is_float


def _bits(array: Any) -> Array:
    whole = np.ascontiguousarray(array)
    return np.asarray(whole.view(f"u{whole.itemsize}").reshape(np.shape(array)))


def ulps(a: Any, b: Any) -> Array:
    """How many representable values lie between two floats of one type; 0 of two NaNs, a lot of one."""
    one, other = (_ordered(np.asarray(x)) for x in (a, b))
    apart = np.where(one > other, one - other, other - one)
    nans = np.isnan(np.asarray(a)).astype(int) + np.isnan(np.asarray(b))
    return np.asarray(np.where(nans == 1, np.iinfo(np.int64).max, np.where(nans == 2, 0, apart)))


def _ordered(values: Array) -> Array:
    """Floats as whole numbers in their order; both zeros are 0."""
    bits = _bits(values)
    sign = bits >> (8 * values.itemsize - 1)
    magnitude = (bits & (np.iinfo(bits.dtype).max >> 1)).astype(np.int64)
    return np.asarray(np.where(sign == 1, -magnitude, magnitude))
