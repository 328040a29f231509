"""What the reference is sure of."""

from __future__ import annotations

import numpy as np

from tests.reference.values import Tile
from tilejit.dtypes import float32, int16, int32


def test_what_no_integer_holds_stays_unsure_on_its_way_back() -> None:
    outside = Tile(np.array([-np.inf, np.nan, 1e9, -7.5], np.float32))
    for dtype in (int16, int32):
        whole = outside.astype(dtype)
        again = whole.astype(float32).astype(dtype)
        unsure = [True, True, dtype is int16, False]
        assert np.isinf(whole.error).tolist() == np.isinf(again.error).tolist() == unsure
