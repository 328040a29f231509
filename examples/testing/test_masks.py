"""Any two extents: a mask that mixes them up is right for squares."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import transposed

import tilejit as tj
from tilejit.testing import Array, arrays, check


@settings(deadline=None)
@given(arrays(st.tuples(st.integers(1, 20), st.integers(1, 20)), tj.int16))
def test_masks(x: Array) -> None:
    check(transposed, (tj.cdiv(x.shape[0], 8), tj.cdiv(x.shape[1], 8)), x, np.zeros_like(x.T), expected=x.T)
