"""Unwritten memory: on a GPU it often contains zeros; on the simulator, reading it is an error."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import total

import tilejit as tj
from tilejit.testing import Array, arrays, check


@settings(deadline=None)
@given(arrays(st.integers(1, 64), tj.int32, range=(-9, 9)))
def test_uninitialized(x: Array) -> None:
    check(total, 1, x, np.zeros(1, np.int32), expected=x.sum(keepdims=True, dtype=np.int32))
