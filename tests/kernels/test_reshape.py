"""A tile in another shape, its layouts chosen by the compiler, holds the same elements in row-major order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.support.programs import source_of
from tilejit.runtime.device import Device

CASES = [
    ("cta", 128, (32, 48), (16, 96), np.float16),
    ("cta", 96, (6, 10), (4, 15), np.float32),
    ("cta", 64, (64, 16), (1024,), np.int8),
    ("warp", 64, (8, 3, 5), (15, 8), np.float64),
    ("warpgroup", 128, (128,), (2, 64), np.int32),
    ("thread", 32, (4, 6), (3, 8), np.uint16),
    # as many slots of as many elements in either shape
    ("cta", 32, (5, 8), (8, 5), np.int32),
    ("cta", 32, (7, 8), (8, 7), np.float32),
]


@pytest.mark.parametrize(("scope", "threads", "before", "after", "dtype"), CASES)
@pytest.mark.parametrize("reduced", [False, True])
def test_a_tile_in_another_shape(
    scope: str, threads: int, before: tuple[int, ...], after: tuple[int, ...], dtype: type, reduced: bool,
    device: Device,
) -> None:
    box, other = (", ".join(f"0:{n}" for n in shape) for shape in (before, after))
    value = f"(tj.{scope}.load(A[{box}]) + 1).reshape({after})"
    axis = len(after) - 1
    if reduced:
        value, other = f"tj.max({value}, axis={axis})", ", ".join(f"0:{n}" for n in after[:-1])
    store = f"    tj.{scope}.store(B[{other}], {value})\n" if other else f"    B[0] = {value}\n"
    rng = np.random.default_rng(3)
    a = rng.integers(0, 100, before).astype(dtype)
    expected = (a + dtype(1)).reshape(after)
    expected = expected.max(axis) if reduced else expected
    b = np.zeros(expected.shape or (1,), dtype)
    with tj.use_device(device.name):
        tj.kernel(threads=threads)(source_of(f"def k(A, B):\n{store}"))[1](a, b)
    np.testing.assert_array_equal(b, expected.reshape(b.shape))


#: extents that layouts pad, and some that they don't
EXTENTS = st.sampled_from((1, 2, 3, 5, 6, 7, 8, 12, 15, 16, 24))


@settings(max_examples=settings.default.max_examples // 2)
@given(
    before=st.tuples(EXTENTS, EXTENTS), part=st.none() | st.integers(0, 99), threads=st.sampled_from((32, 64, 100)),
    dtype=st.sampled_from((np.int32, np.int8, np.float64)),
)
def test_a_computed_tile_takes_any_shape(
    before: tuple[int, int], part: int | None, threads: int, dtype: type
) -> None:
    """part: which divisor of the number of elements is the number of rows; none: rows and columns change places."""
    count = before[0] * before[1]
    divisors = [n for n in range(1, count + 1) if count % n == 0]
    rows = before[1] if part is None else divisors[part % len(divisors)]
    after = (rows, count // rows)
    box, other = (", ".join(f"0:{n}" for n in shape) for shape in (before, after))
    text = f"def k(A, B):\n    x = tj.cta.load(A[{box}]) + 1\n    tj.cta.store(B[{other}], x.reshape({after}))\n"
    a = (np.arange(count) % 50).astype(dtype).reshape(before)
    b: np.ndarray = np.zeros(after, dtype)
    tj.kernel(threads=threads)(source_of(text))[1](a, b)
    np.testing.assert_array_equal(b, (a + dtype(1)).reshape(after))
