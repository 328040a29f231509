"""A tile that is loaded without a layout can be stored again, whatever its shape and scope."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import assume, example, given
from hypothesis import strategies as st

import tilejit as tj
from tests.support.programs import source_of
from tilejit.dtypes import DType, int8, int64
from tilejit.testing import dtypes

EXTENTS = st.sampled_from((1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 16, 24, 27, 31, 32, 48, 64, 96, 128))
SHAPES = st.lists(EXTENTS, min_size=1, max_size=3).map(tuple).filter(lambda shape: math.prod(shape) <= 1536)
#: whose threads carry the operations out, and how many a CTA has
GROUPS = st.sampled_from(
    (("thread", 32), ("warp", 32), ("warp", 64), ("warpgroup", 128), ("cta", 48), ("cta", 96), ("cta", 128))
)


def load_and_store(scope: str, shape: tuple[int, ...], threads: int) -> Any:
    box = ", ".join(f"0:{extent}" for extent in shape)
    text = f"def copied(A, B):\n    tj.{scope}.store(B[{box}], tj.{scope}.load(A[{box}]))\n"
    return tj.kernel(threads=threads)(source_of(text))


@given(group=GROUPS, shape=SHAPES, dtype=dtypes(), transposed=st.booleans())
@example(group=("warp", 32), shape=(16, 12), dtype=int64, transposed=False)
@example(group=("cta", 96), shape=(3, 32, 5), dtype=int8, transposed=True)
def test_what_is_loaded_can_be_stored(
    group: tuple[str, int], shape: tuple[int, ...], dtype: DType, transposed: bool
) -> None:
    scope, threads = group
    owners = 1 if scope == "thread" else threads
    assume(math.prod(shape) * dtype.bits <= 32 * 200 * owners)  # what registers hold
    numbers = np.arange(math.prod(shape)).astype(dtype.numpy)
    a = numbers.reshape(shape[::-1]).T if transposed else numbers.reshape(shape)
    b = np.zeros_like(a)
    load_and_store(scope, shape, threads)[1](a, b)
    assert a.tobytes() == b.tobytes()
