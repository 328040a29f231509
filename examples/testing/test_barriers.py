"""The simulator checks all that it runs for races; the test needn't mention them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import backwards

import tilejit as tj
from tilejit.testing import Array, arrays, check


@settings(deadline=None)
@given(arrays(st.integers(1, 64), tj.int32))
def test_barriers(x: Array) -> None:
    check(backwards, 1, x, np.zeros_like(x), expected=x[::-1])
