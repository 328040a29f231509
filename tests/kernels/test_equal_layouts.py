"""Layouts that are equal as functions and written differently: operands that are combined may have either."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj
from tilejit import S, TileLayout, laneid
from tilejit.layout.iters import Iter
from tilejit.runtime.device import Device

OWNED = S[(2, 16, 8) : (16 @ laneid, 1 @ laneid, 1)]
SHARED = S[(32, 8) : (8, 1)]


@st.composite
def rewritten(draw: st.DrawFn, layout: TileLayout) -> TileLayout:
    """A layout written differently: iterators are cut in up to three, and some of extent 1 are added."""
    shard = []
    for it in layout.canonical().shard:
        first = draw(st.sampled_from([f for f in range(1, it.extent + 1) if it.extent % f == 0]))
        second = draw(st.sampled_from([f for f in range(1, it.extent // first + 1) if it.extent // first % f == 0]))
        extents = (first, second, it.extent // first // second)
        strides = [it.stride * math.prod(extents[k + 1 :]) for k in range(len(extents))]
        shard += [Iter(extent, stride, it.axis) for extent, stride in zip(extents, strides, strict=True)]
    return layout.replace(shard=shard)


def branch(X, Y, n: tj.int32, A: tj.constexpr, B: tj.constexpr):
    if n % 2 == 0:
        x = tj.warp.load(X[0, 0:32, 0:8], layout=A)
    else:
        x = tj.warp.load(X[1, 0:32, 0:8], layout=B)
    tj.warp.store(Y[0:32, 0:8], x * 2)


def expression(X, Y, n: tj.int32, A: tj.constexpr, B: tj.constexpr):
    a, b = tj.warp.load(X[0, 0:32, 0:8], layout=A), tj.warp.load(X[1, 0:32, 0:8], layout=B)
    tj.warp.store(Y[0:32, 0:8], (a if n % 2 == 0 else b) * 2)


def loop(X, Y, n: tj.int32, A: tj.constexpr, B: tj.constexpr):
    x = tj.warp.load(X[0, 0:32, 0:8], layout=A)
    for i in range(n):
        other = tj.warp.load(X[(i + 1) % 2, 0:32, 0:8], layout=B)
        x = other
    tj.warp.store(Y[0:32, 0:8], x * 2)


def swapped(X, Y, n: tj.int32, A: tj.constexpr, B: tj.constexpr):
    x, y = tj.warp.load(X[0, 0:32, 0:8], layout=A), tj.warp.load(X[1, 0:32, 0:8], layout=B)
    for _ in range(n):
        x, y = y, x
    tj.warp.store(Y[0:32, 0:8], x * 2)


def buffers(X, Y, n: tj.int32, A: tj.constexpr, B: tj.constexpr):
    a, b = tj.alloc_shared((32, 8), X.dtype, layout=A), tj.alloc_shared((32, 8), X.dtype, layout=B)
    tj.warp.copy(a, X[0, 0:32, 0:8])
    tj.warp.copy(b, X[1, 0:32, 0:8])
    tj.warp_sync()
    chosen = a
    for i in range(n):
        if i % 2 == 0:
            chosen = b
        else:
            chosen = a
    top = chosen[n : n + 16]
    flat = chosen.view((256,))
    tj.warp.store(Y[0:16, 0:8], tj.warp.load(top) + tj.warp.load(chosen.T[0:8, n : n + 16]).T)
    tj.warp.store(Y[16:32, 0:8], tj.warp.load(flat[n * 8 : n * 8 + 128]).reshape(16, 8) * 2)


def runs(device: Device, fn: Any, one: TileLayout, other: TileLayout, wanted: Any) -> None:
    kernel = tj.kernel(threads=32)(fn)
    x = np.random.default_rng(0).integers(-100, 100, (2, 32, 8)).astype(np.float32)
    for n in (0, 1, 2, 3):
        y = np.zeros_like(x[0])
        with tj.use_device(device.name):
            kernel[1](x, y, n, one, other)
        np.testing.assert_array_equal(y, wanted(x[n % 2], n))


@given(fn=st.sampled_from([branch, expression, loop, swapped]), one=rewritten(OWNED), other=rewritten(OWNED))
def test_tile_layouts_are_compared_as_functions(device: Device, fn: Any, one: TileLayout, other: TileLayout) -> None:
    runs(device, fn, one, other, lambda x, n: 2 * x)


@given(one=rewritten(SHARED), other=rewritten(SHARED))
def test_buffer_layouts_are_compared_as_functions(device: Device, one: TileLayout, other: TileLayout) -> None:
    runs(device, buffers, one, other, lambda x, n: 2 * np.concatenate([x[n : n + 16], x[n : n + 16]]))


@pytest.mark.parametrize("fn", [branch, expression, loop], ids=lambda fn: fn.__name__)
def test_layouts_with_other_owners_are_refused(device: Device, fn: Any) -> None:
    with pytest.raises(tj.KernelTypeError, match="in layout"):
        runs(device, fn, OWNED, S[(16, 2, 8) : (1 @ laneid, 16 @ laneid, 1)], None)
