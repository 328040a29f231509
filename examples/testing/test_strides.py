"""Rows with gaps between them: only the first n columns of a picture are used."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import packed

import tilejit as tj
from tilejit.testing import Array, arrays, check


@settings(deadline=None)
@given(arrays(st.tuples(st.integers(1, 9), st.integers(4, 9)), tj.uint8), st.integers(1, 4))
def test_strides(x: Array, n: int) -> None:
    check(packed, 2, x.ravel(), np.zeros_like(x[:, :n].ravel()), n, x.shape[1], expected=[x[:, :n].ravel()])
