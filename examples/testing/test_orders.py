"""Threads in any legal order: the simulator's default is only one of many."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import last_positive

from tilejit.testing import Array, DrawnLaunch, arrays, check, launches


@settings(deadline=None)
@given(arrays(st.integers(1, 300), "int32"), launches(5))
def test_orders(x: Array, launch: DrawnLaunch) -> None:
    last = np.append(-1, np.flatnonzero(x > 0))[-1:]
    check(last_positive, launch, x, np.full(1, -1), expected=last)
