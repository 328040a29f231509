"""Host helpers mean the same in a kernel, on values known when it is compiled and on run-time ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj


@tj.kernel(threads=1)
def rounded_up(out: tj.Tensor, n: tj.int32, d: tj.int32):
    out[0] = tj.cdiv(n, 4)
    out[1] = tj.cdiv(n, d)
    out[2] = tj.cdiv(out.shape[0], 2)
    out[3] = tj.cdiv(7, 2)


@given(st.integers(-10_000, 10_000), st.integers(-50, 50).filter(bool))
def test_cdiv_of_run_time_values_is_pythons(n, d):
    out = np.zeros(5, np.int64)
    with tj.use_device("sim"):
        rounded_up[1](out, n, d)
    assert out.tolist() == [tj.cdiv(n, 4), tj.cdiv(n, d), 3, 4, 0]
