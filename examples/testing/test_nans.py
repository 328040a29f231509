"""The drawn values include infinities and NaNs unless `finite=True`."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import relu

import tilejit as tj
from tilejit.testing import Array, arrays, check


@settings(deadline=None)
@given(arrays(st.integers(1, 300), tj.float32))
def test_nans(x: Array) -> None:
    check(relu, tj.cdiv(x.size, 64), x, np.zeros_like(x), expected=np.maximum(x, 0))
