"""Regions of global tensors that lie far outside, on either side, of tiles with padding and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit as tj

FAR = [-1, -2, -5, -(2**31), np.int64(-(2**63)), np.int64(2**63 - 1), np.int64(2**63 - 2), np.uint32(2**32 - 1), 3, 4]


@tj.kernel(threads=32)
def rows(OUT, A, n):
    tj.cta.store(OUT[0:2, 0:4], tj.cta.load(A[n : n + 2, 0:4], fill=7))


@tj.kernel(threads=32)
def many_rows(OUT, A, n):
    tj.thread.store(OUT[0:9, 0:5], tj.thread.load(A[n : n + 9, 0:5], fill=7))


@tj.kernel(threads=32)
def columns(OUT, A, n):
    tj.warp.store(OUT[0:3, 0:3], tj.warp.load(A[0:3, n : n + 3], fill=7))


@tj.kernel(threads=32)
def copied(OUT, A, n):
    tj.cta.copy(OUT[0:5, 0:4], A[n : n + 5, 0:4], fill=7)


KERNELS = [(rows, (2, 4), 0), (many_rows, (9, 5), 0), (columns, (3, 3), 1), (copied, (5, 4), 0)]


@pytest.mark.parametrize("n", FAR, ids=str)
@pytest.mark.parametrize(("kernel", "shape", "axis"), KERNELS, ids=lambda value: getattr(value, "name", None))
def test_what_lies_outside_reads_as_the_fill(kernel: Any, shape: tuple[int, int], axis: int, n: Any) -> None:
    a = np.arange(16, dtype=np.int32).reshape(4, 4)
    out = np.zeros(shape, np.int32)
    expected = np.full(shape, 7, np.int32)
    for at in np.ndindex(*shape):
        place = [at[0] + (int(n) if axis == 0 else 0), at[1] + (int(n) if axis == 1 else 0)]
        if all(0 <= i < 4 for i in place):
            expected[at] = a[tuple(place)]
    for checks in (True, False):
        out[...] = 0
        tj.simulate(kernel, 1, out, a, n, checks=checks)
        np.testing.assert_array_equal(out, expected)

