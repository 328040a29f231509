"""Any number of elements: the last CTA is rarely full."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import doubled

import tilejit as tj
from tilejit.testing import Array, arrays, check


@settings(deadline=None)
@given(arrays(st.integers(1, 300), tj.int32))
def test_edges(x: Array) -> None:
    check(doubled, tj.cdiv(x.size, 64), x, np.zeros_like(x), expected=x + x)
