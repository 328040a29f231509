"""Integer division, power and shifts against NumPy, where NumPy has a value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.codegen.math_host import run

SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
NUMPY: dict[str, Callable[..., np.ndarray]] = {
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}


def pairs(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """All pairs for one byte; else all pairs of the ends, the small and some random numbers."""
    info = np.iinfo(dtype)
    if info.bits == 8:
        values = np.arange(info.min, info.max + 1).astype(dtype)
    else:
        ends = np.array([info.min, info.min + 1, info.max - 1, info.max], dtype)
        small = np.arange(-70 if info.min else 0, 71).astype(dtype)
        drawn = np.random.default_rng(info.bits).integers(info.min, info.max, 60, dtype, endpoint=True)
        values = np.concatenate([ends, small, drawn])
    x, y = np.meshgrid(values, values)
    return x.ravel().copy(), y.ravel().copy()


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
@pytest.mark.parametrize("op", NUMPY)
def test_division_and_shifts_are_numpys_with_zero_divisors_overflow_and_counts_beyond_the_width(
    op: str, dtype: type
) -> None:
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(op, x, y), NUMPY[op](x, y))


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_powers_wrap_as_numpys(dtype: type) -> None:
    x, y = pairs(dtype)
    np.testing.assert_array_equal(run("pow", x[y >= 0], y[y >= 0]), np.power(x[y >= 0], y[y >= 0]))


@pytest.mark.parametrize("dtype", SIGNED)
def test_a_negative_exponent_gives_the_quotient_rounded_towards_zero(dtype: type) -> None:
    x = np.array([0, 1, 1, -1, -1, 2, -2, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    y = np.array([-1, -1, -2, -1, -2, -1, -3, -1, -1], dtype)
    np.testing.assert_array_equal(run("pow", x, y), np.array([0, 1, 1, -1, 1, 0, 0, 0, 0], dtype))
