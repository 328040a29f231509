"""A tile in another shape, its layouts chosen by the compiler, holds the same elements in row-major order."""

from __future__ import annotations

import numpy as np
import pytest

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
]


@pytest.mark.parametrize(("scope", "threads", "before", "after", "dtype"), CASES)
@pytest.mark.parametrize("reduced", [False, True])
def test_a_tile_in_another_shape(
    scope: str, threads: int, before: tuple[int, ...], after: tuple[int, ...], dtype: type, reduced: bool,
    device: Device,
) -> None:
    box, other = (", ".join(f"0:{n}" for n in shape) for shape in (before, after))
    value = f"tj.{scope}.load(A[{box}]).reshape({after})"
    axis = len(after) - 1
    if reduced:
        value, other = f"tj.max({value}, axis={axis})", ", ".join(f"0:{n}" for n in after[:-1])
    store = f"    tj.{scope}.store(B[{other}], {value})\n" if other else f"    B[0] = {value}\n"
    rng = np.random.default_rng(3)
    a = rng.integers(0, 100, before).astype(dtype)
    expected = a.reshape(after).max(axis) if reduced else a.reshape(after)
    b = np.zeros(expected.shape or (1,), dtype)
    with tj.use_device(device.name):
        tj.kernel(threads=threads)(source_of(f"def k(A, B):\n{store}"))[1](a, b)
    np.testing.assert_array_equal(b, expected.reshape(b.shape))
