"""Equal values: two updates of one element race if nothing orders them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import histogram

import tilejit as tj
from tilejit.testing import Array, arrays, check


@settings(deadline=None)
@given(arrays(st.integers(1, 300), tj.int32, range=(0, 15)))
def test_races(x: Array) -> None:
    check(histogram, tj.cdiv(x.size, 64), x, np.zeros(16, int), expected=np.bincount(x, minlength=16))
