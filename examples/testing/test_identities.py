"""Numbers below zero: a maximum that starts from 0 is wrong for these only."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import greatest

import tilejit as tj
from tilejit.testing import Array, arrays, check


@settings(deadline=None)
@given(arrays(st.tuples(st.integers(1, 9), st.integers(1, 99)), tj.float32, range=(-9, 9)))
def test_identities(x: Array) -> None:
    check(greatest, 2, x, np.zeros_like(x[0]), expected=x.max(axis=0))
