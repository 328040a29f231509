"""Conversion between element types, bit for bit."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilejit.dtypes import (
    DType,
    bfloat16,
    bool_,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int32,
    uint32,
)
from tilejit.ops.cast import convert


def nearest(value: float, dtype: DType) -> float:
    """The value of a narrow type that is nearest, ties to even, by looking at all there are."""
    codes = np.arange(2**dtype.bits).astype(np.uint16 if dtype.bits == 16 else np.uint8)
    with np.errstate(all="ignore"):
        values = codes.view(dtype.numpy).astype(np.float64)
    finite = np.isfinite(values)
    codes, values = codes[finite], values[finite]
    around = values[np.argsort(np.abs(values - value), kind="stable")[:4]]
    gaps = {float(v): abs(Fraction(float(v)) - Fraction(value)) for v in around}
    least = min(gaps.values())
    tied = [v for v, gap in gaps.items() if gap == least]
    even = [v for v in tied if int(codes[values == v][0]) & 1 == 0]
    return (even or tied)[0]


@given(st.floats(-440, 440))
@pytest.mark.parametrize("dtype", [float8_e4m3fn, float8_e5m2, bfloat16, float16])
def test_float64_reaches_narrow_floats_with_one_rounding(dtype: DType, value: float) -> None:
    assert float(convert(np.asarray(value), dtype)) == nearest(value, dtype)


def test_a_double_rounding_trap_is_avoided() -> None:
    # just above the middle of two bfloat16s; float32 would round it to the middle, and that to even
    value = 1 + 2.0**-8 + 2.0**-40
    assert float(convert(np.asarray(value), bfloat16)) == 1 + 2.0**-7
    assert float(np.asarray(value).astype(np.float32).astype(ml_dtypes.bfloat16)) == 1.0


def test_fp8_saturates_as_the_hardware_unless_asked_otherwise() -> None:
    x = np.float32([1e9, -1e9, math.inf, -math.inf, math.nan, 464.0])
    assert convert(x, float8_e4m3fn).astype(np.float32)[:4].tolist() == [448, -448, 448, -448]
    assert convert(x, float8_e5m2).astype(np.float32)[:4].tolist() == [57344, -57344, 57344, -57344]
    assert np.isnan(convert(x, float8_e4m3fn).astype(np.float32)[4])
    loose = convert(x, float8_e5m2, saturate=False).astype(np.float32)
    np.testing.assert_array_equal(loose[:4], [math.inf, -math.inf, math.inf, -math.inf])
    np.testing.assert_array_equal(
        convert(x, float8_e4m3fn, saturate=False).view(np.uint8), x.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    )


def test_floats_go_to_integers_toward_zero() -> None:
    x = np.float32([2.9, -2.9, 0.5, -0.5])
    np.testing.assert_array_equal(convert(x, int32), [2, -2, 0, 0])
    np.testing.assert_array_equal(convert(x.astype(ml_dtypes.bfloat16), int32), [2, -2, 0, 0])


def test_integers_wrap_around() -> None:
    x = np.asarray([-1, 2**40 + 5, 2**31])
    np.testing.assert_array_equal(convert(x, uint32), np.uint32([2**32 - 1, 5, 2**31]))
    np.testing.assert_array_equal(convert(x, int8), np.int8([-1, 5, 0]))


def test_anything_but_zero_is_true() -> None:
    np.testing.assert_array_equal(convert(np.float32([0.0, -0.0, math.nan, 1e-45]), bool_), [False, False, True, True])
    np.testing.assert_array_equal(convert(np.asarray([True, False]), float64), [1.0, 0.0])
    np.testing.assert_array_equal(convert(np.asarray([2.0]).astype(ml_dtypes.bfloat16), bool_), [True])


def test_a_value_of_the_type_stays_as_it_is() -> None:
    x = np.float32([1, 2])
    assert convert(x, float32) is x
