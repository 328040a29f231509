"""The simulator and a GPU give the host's bits, for every function."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen import math_host
from tests.codegen.math_device import FUNCTIONS, Gpu, entry, ptx
from tilejit.simulator import Pointer
from tilejit.simulator import run as simulate


def arguments(dtype: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Half random bit patterns, half numbers of everyday size."""
    rng = np.random.default_rng(count)
    kind = math_host.computed(dtype)
    unsigned = np.dtype(f"uint{8 * kind.itemsize}")
    drawn = rng.integers(0, np.iinfo(unsigned).max, (2, count // 2), unsigned, endpoint=True).view(kind)
    everyday = rng.normal(size=(2, count // 2)) * 5 if kind.kind == "f" else rng.integers(0, 40, (2, count // 2))
    x, y = np.concatenate([drawn, everyday.astype(kind)], axis=1)
    return np.ascontiguousarray(x), np.ascontiguousarray(y)


def assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal bits, but for NaN: which NaN an operation gives is the hardware's choice."""
    unsigned = f"u{got.dtype.itemsize}"
    differs = got.view(unsigned) != expected.view(unsigned)
    if got.dtype.kind == "f":
        differs &= ~(np.isnan(got) & np.isnan(expected))
    assert not differs.any(), f"{got[differs][:5]} where the host has {expected[differs][:5]}"


@pytest.mark.parametrize(("op", "dtype"), FUNCTIONS)
def test_the_simulator_gives_the_hosts_bits(op: str, dtype: str) -> None:
    x, y = arguments(dtype, 1024)
    out = np.zeros_like(x)
    pointers = [Pointer(array.view(np.uint8)) for array in (x, y, out)]
    simulate(ptx("sm_90"), entry(op, dtype), (8, 1, 1), (128, 1, 1), pointers)
    assert_same_bits(out, math_host.run(op, x, y, dtype))


@pytest.mark.gpu
def test_a_gpu_gives_the_hosts_bits() -> None:
    gpu = Gpu()
    for op, dtype in FUNCTIONS:
        x, y = arguments(dtype, 1 << 18)
        assert_same_bits(gpu.run(op, dtype, x, y), math_host.run(op, x, y, dtype))
