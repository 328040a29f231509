"""The reference is computed in float64, and the error measured in units in the last place."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import sigmoid

import tilejit as tj
from tilejit.testing import Array, arrays, check


@settings(deadline=None)
@given(arrays(st.integers(1, 99), tj.float32, range=(-80, 80)))
def test_accuracy(x: Array) -> None:
    check(sigmoid, 2, x, np.zeros_like(x), expected=1 / (1 + np.exp(-x.astype(float))), ulp=4)
