"""A row of 16-bit floats that is read on both sides of a barrier: the same bits, and no registers for float32."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.support.ptxas import ptxas_path, usage
from tilejit.lower.passes import packed
from tilejit.runtime.device import Device


def softmax(X: tj.Tensor, Y: tj.Tensor, N: tj.constexpr):
    """Each thread adds up and compares what the others put into shared memory."""
    row = tj.cta_id(0)
    s = tj.alloc_shared((1024,), tj.float32)
    x = tj.cta.load(X[row, 0:N])
    a = x.astype(tj.float32)
    m = a.registers[0]
    for i in tj.static_range(1, N // 1024):
        m = tj.maximum(m, a.registers[i])
    s[tj.thread_id()] = m
    tj.cta_sync()
    for i in range(1024):
        m = tj.maximum(m, s[i])
    e = tj.exp(x.astype(tj.float32) - m)
    t = e.registers[0]
    for i in tj.static_range(1, N // 1024):
        t = t + e.registers[i]
    tj.cta_sync()
    s[tj.thread_id()] = t
    tj.cta_sync()
    t = 0.0
    for i in range(1024):
        t = t + s[i]
    r = 1.0 / t
    tj.cta.store(Y[row, 0:N], (tj.exp(x.astype(tj.float32) - m) * r).astype(X.dtype))


def kernel() -> tj.Kernel:
    """One that nothing was compiled for yet."""
    return tj.kernel(threads=1024)(softmax)


def ptx(elements: int) -> str:
    """The PTX for rows with `elements` elements per thread."""
    rows = tj.spec((4, 1024 * elements), tj.float16)
    return kernel().compile(rows, rows, N=1024 * elements, target="sm_90a").ptx


def conversions(text: str) -> list[int]:
    """To float32, between one barrier and the next."""
    return [part.count("cvt.f32.f16") for part in text.split("bar.sync")]


def test_a_large_tile_is_converted_again_after_the_barrier():
    assert conversions(ptx(64)) == [64, 64, 0, 64]


def test_a_small_one_is_converted_once():
    assert conversions(ptx(32)) == [32, 0, 0, 0]


def test_a_row_of_64_elements_a_thread_nearly_fits_64_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    if ptxas_path() is None:
        pytest.skip("no ptxas: install nvidia-cuda-nvcc")
    stored = usage(ptx(64), "sm_90a").spill_stores
    monkeypatch.setattr(packed, "OTHER_REGISTERS", -1000)
    assert stored <= 16 < 160 <= usage(ptx(64), "sm_90a").spill_stores


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_bits_are_those_of_a_row_that_is_float32_all_along(device: Device, dtype: str, monkeypatch):
    x = np.random.default_rng(1).normal(size=(1, 64 * 1024)).astype(tj.spec((1,), dtype).dtype.numpy)
    found = []
    for beside in (packed.OTHER_REGISTERS, -1000):
        monkeypatch.setattr(packed, "OTHER_REGISTERS", beside)
        y = np.zeros_like(x)
        with tj.use_device(device.name):
            kernel()[1](x, y, N=x.shape[1])
        found.append(y)
    assert found[0].tobytes() == found[1].tobytes()
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max())
    np.testing.assert_allclose(found[0].astype(np.float64), powers / powers.sum(), rtol=2**-8, atol=1e-7)
