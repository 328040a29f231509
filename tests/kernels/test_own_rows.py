"""Rows of a buffer that other CTAs copy to, which none of these copies fills: each CTA writes its own."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tilejit.runtime.device import Device


@tj.kernel(threads=256, cluster=(2, 1))
def padded(X: tj.Tensor, W: tj.Tensor, C: tj.Tensor):
    x = tj.alloc_shared((2, 64, 64), X.dtype, swizzle="128B")
    w = tj.alloc_shared((2, 32, 64), X.dtype, swizzle="128B")
    ring = tj.alloc_ring(2, consumers=4, multicast=0)
    column = tj.cta_id(0) * 32
    if tj.warpgroup_id() == 0:
        if tj.warp_id() == 0:
            for i in range(4):
                t = ring[i]
                t.acquire()
                tj.warp.copy_async(x[t.stage, 0:16], X[0:16, i * 64 : i * 64 + 64], barrier=t, multicast=0)
                tj.warp.copy_async(w[t.stage], W[column : column + 32, i * 64 : i * 64 + 64], barrier=t)
                tj.warp.commit(t)
    else:
        acc = tj.alloc_local((64, 32), tj.float32, layout=tj.wgmma.layout_c((64, 32)))
        for s in tj.static_range(2):
            tj.wg.fill(x[s, 16:64], 1.0)
        tj.warpgroup_sync()
        for i in range(4):
            t = ring[i]
            t.wait()
            tj.wg.gemm_async(acc, x[t.stage], w[t.stage].T, accumulate=i > 0)
            tj.wgmma.wait(0)
            tj.warp.release(t)
        tj.wg.store(C[0:64, column : column + 32], acc)


@pytest.mark.parametrize("schedule", range(4))
def test_rows_that_no_copy_fills_keep_what_threads_write(schedule: int) -> None:
    random = np.random.default_rng(schedule)
    x, w = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((16, 256), (64, 256)))
    c = np.zeros((64, 64), np.float32)
    tj.simulate(padded, 2, x, w, c, schedule=schedule)
    np.testing.assert_array_equal(c, _wanted(x, w))


def test_rows_that_no_copy_fills_on_a_device(hopper: Device) -> None:
    x, w = np.ones((16, 256), np.float16), np.eye(64, 256, dtype=np.float16)
    c = np.zeros((64, 64), np.float32)
    with tj.use_device(hopper.name):
        padded[2](x, w, c)
    np.testing.assert_array_equal(c, _wanted(x, w))


def _wanted(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    rows = np.concatenate([x, np.ones((48, 256), x.dtype)]).astype(np.float32)
    return rows @ w.astype(np.float32).T
