"""`x[:, None]` of parts of tiles, as NumPy has it."""

from __future__ import annotations

import numpy as np

import tilejit as tj
from tilejit import S, laneid

ROWS = S[(32, 8) : (1 @ laneid, 1)]


@tj.kernel(threads=32)
def columns(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
    x = tj.warp.load(A[0:32, 0:8], layout=ROWS)
    column = x[0:32, 2]
    tj.warp.store(B[0:32, 0:8], x * column[:, None])
    tj.warp.store(B[32:64, 0:3], x[:, 2:5] * x[:, 4:6][:, 1][:, None])
    tj.warp.store(B[64:96, 0:1], x[:, n + 1][:, None])
    tj.warp.store(B[96:128, 0:3], (x[:, None, 1:4] * column[:, None, None])[:, 0])


def test_a_dimension_can_be_added_to_a_part_of_a_tile():
    a, b = np.random.default_rng(0).random((32, 8), np.float32), np.zeros((128, 8), np.float32)
    with tj.use_device("sim"):
        columns[1](a, b, 3)
    expected = np.zeros_like(b)
    expected[:32] = a * a[:, 2][:, None]
    expected[32:64, :3] = a[:, 2:5] * a[:, 4:6][:, 1][:, None]
    expected[64:96, :1] = a[:, 4][:, None]
    expected[96:, :3] = a[:, 1:4] * a[:, 2][:, None]
    np.testing.assert_array_equal(b, expected)
