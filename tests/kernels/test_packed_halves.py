"""Tiles of float16 and bfloat16 whose elements are compared two at a time: NumPy's values, whatever the pair."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.kernels.test_property_elementwise import specials
from tilejit.dtypes import DTYPES
from tilejit.runtime.device import Device


@tj.kernel(threads=32)
def extremes(X: tj.Tensor, Y: tj.Tensor, U: tj.Tensor, V: tj.Tensor, N: tj.constexpr):
    x, y = tj.cta.load(X[0:N]), tj.cta.load(Y[0:N])
    tj.cta.store(U[0:N], tj.maximum(x, y))
    tj.cta.store(V[0:N], tj.minimum(x, y))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_every_pair_of_special_values_gives_numpys_bits(name: str, device: Device) -> None:
    listed = specials(DTYPES[name])
    x, y = (a.ravel() for a in np.meshgrid(listed, listed))
    count = -(-x.size // 512) * 512
    x, y = np.resize(x, count), np.resize(y, count)
    u, v = np.zeros_like(x), np.zeros_like(x)
    with tj.use_device(device.name):
        extremes[1](x, y, u, v, N=count)
    for found, wanted in ((u, np.maximum(x, y)), (v, np.minimum(x, y))):
        np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize(("name", "word"), [("float16", "f16x2"), ("bfloat16", "bf16x2")])
def test_words_are_compared_as_they_were_loaded(name: str, word: str) -> None:
    array = tj.spec((256,), name)
    ptx = extremes.compile(array, array, array, array, N=256, target="sm_90a").ptx
    assert ptx.count(f"max.NaN.{word}") == ptx.count(f"min.NaN.{word}") == 4
    assert "cvt." not in ptx and "prmt" not in ptx and ".f32" not in ptx
