"""Regions whose starts are sums of run-time values, with names that the lowering uses itself."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tilejit import S, laneid

ROWS = S[(32, 8) : (1 @ laneid, 1)]


@tj.kernel(threads=64)
def moved_and_filled(A: tj.Tensor, B: tj.Tensor, o: tj.int32):
    tj.cta.copy(B[o + 2 : o + 66], A[o + 1 : o + 65])
    tj.cta.fill(B[o + 66 : o + 80], 7.0)


def test_a_constant_beside_a_run_time_start_counts():
    a, b = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    with tj.use_device("sim"):
        moved_and_filled[1](a, b, 10)
    expected = np.zeros(100, np.float32)
    expected[12:76], expected[76:90] = a[11:75], 7
    np.testing.assert_array_equal(b, expected)


@tj.kernel(threads=32)
def starts_at_a_stride(A: tj.Tensor, B: tj.Tensor):
    n = A.strides[0]
    tj.warp.copy(B[n : n + 32], A[0, 3:35])


def test_a_start_may_be_another_tensors_stride():
    a, b = np.random.default_rng(0).random((4, 100), np.float32), np.zeros(200, np.float32)
    with tj.use_device("sim"):
        starts_at_a_stride[1](a, b)
    np.testing.assert_array_equal(b[100:132], a[0, 3:35])


@tj.kernel(threads=32)
def named_like_schedules(A: tj.Tensor, B: tj.Tensor, thread: tj.int32, trip: tj.int32, vector: tj.int32):
    tj.warp.copy(B[vector : vector + 32, 0:8], A[trip : trip + 32, 0:8])
    x = tj.alloc_local((32, 8), tj.float32, layout=ROWS)
    tj.warp.copy(x, A[thread + 3 : thread + 35, 0:8])
    tj.warp.copy(B[thread + 40 : thread + 72, trip : trip + 4], x[0:32, trip + 1 : trip + 5])


def test_variables_may_be_named_as_those_of_a_schedule():
    a, b = np.random.default_rng(0).random((80, 8), np.float32), np.zeros((80, 8), np.float32)
    with tj.use_device("sim"):
        named_like_schedules[1](a, b, 2, 1, 3)
    expected = np.zeros_like(b)
    expected[3:35], expected[42:74, 1:5] = a[1:33], a[5:37, 2:6]
    np.testing.assert_array_equal(b, expected)


@tj.kernel(threads=32)
def named_like_temporaries(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
    thread = n + 1
    tj.warp.copy(B[thread : thread + 32], A[0:32])
    thread = n + 33
    tj.warp.copy(B[thread : thread + 32], A[32:64])
    thread = n + 65
    dst = n + 1
    dst = n + 2
    dst = n + 3
    src = n + 4
    src = n + 5
    round = n + 1
    round = n + 2
    round = n + 3
    tj.warp.copy(B[thread : thread + 32], A[64:96])
    B[0] = tj.float32(thread + dst + src + round)


def test_variables_may_be_rebound_under_the_names_of_temporaries():
    a, b = np.arange(96, dtype=np.float32), np.zeros(97, np.float32)
    with tj.use_device("sim"):
        named_like_temporaries[1](a, b, 0)
    np.testing.assert_array_equal(b[1:], a)
    assert b[0] == 65 + 3 + 5 + 3


@tj.kernel(threads=128)
def second_block(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
    s = tj.alloc_shared((64, 128), A.dtype, swizzle="128B")
    tj.cta.copy(s, A[0:64, 0:128])
    tj.cta_sync()
    j = 64 + 16 * min(max(n, 0), 3)
    tj.cta.copy(B[0:64, 0:16], s[:, j : j + 16])


def test_a_start_may_never_be_0():
    """Columns from 64 on lie in the layout's second block."""
    a = np.random.default_rng(0).random((64, 128)).astype(np.float16)
    for n in (0, 3):
        b = np.zeros((64, 16), np.float16)
        tj.simulate(second_block, 1, a, b, n)
        np.testing.assert_array_equal(b, a[:, 64 + 16 * n : 80 + 16 * n])


ONE = tj.spec((1, 1), tj.float32)


@tj.kernel(threads=64)
def outside_any_grid(Y: tj.Tensor, A: tj.Tensor = ONE):
    n = tj.num_ctas(0)
    tj.cta.store(Y[0:1, 0:1], tj.cta.load(A[0:1, n : n + 1], fill=3))


@pytest.mark.filterwarnings("ignore::tilejit.OutsideWarning")
def test_a_region_may_lie_outside_because_a_grid_has_a_cta():
    y = np.zeros((1, 1), np.float32)
    outside_any_grid[1](y, np.zeros((1, 1), np.float32))
    assert y == 3
