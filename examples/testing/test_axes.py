"""Elements that differ: a sum along the wrong axis is right for zeros and ones."""

import numpy as np
from hypothesis import given, settings
from kernels import row_sums

import tilejit as tj
from tilejit.testing import Array, arrays, check


@settings(deadline=None)
@given(arrays((8, 8), tj.int32, range=(-9, 9)))
def test_axes(x: Array) -> None:
    check(row_sums, 1, x, np.zeros(8, np.int32), expected=x.sum(1, dtype=np.int32))
