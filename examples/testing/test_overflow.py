"""The ends of the range: sums of two uint8 need nine bits."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import blended

import tilejit as tj
from tilejit.testing import Array, arrays, check


@settings(deadline=None)
@given(st.integers(1, 99).flatmap(lambda n: st.tuples(arrays(n, tj.uint8), arrays(n, tj.uint8))))
def test_overflow(xy: tuple[Array, Array]) -> None:
    check(blended, 2, *xy, np.zeros_like(xy[0]), expected=np.mean(xy, axis=0).astype(np.uint8))
