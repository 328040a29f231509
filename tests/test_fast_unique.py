"""The fast_unique values of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tilejit.fast_unique import fast_unique

KINDS = st.sampled_from(("int64", "int32", "uint64", "uint8", "bool"))
SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=20)


@given(values=arrays.arrays(KINDS, SHAPES))
def test_they_are_those_of_numpy(values: Any) -> None:
    expected, kept = np.unique(values), values.copy()
    given_back = fast_unique(values)
    assert given_back.dtype == expected.dtype and np.array_equal(given_back, expected)
    assert np.array_equal(values, kept)


@pytest.mark.parametrize("values", [[], [3], [3, 3], [2, 1]])
def test_few_values(values: list[int]) -> None:
    assert fast_unique(np.array(values, np.int64)).tolist() == sorted(set(values))
