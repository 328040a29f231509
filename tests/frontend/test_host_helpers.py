"""Host helpers and Python's conversions at run time: what the host's functions give, wherever it fits the type."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.frontend.test_type_ends import INTEGERS, computed, ends
from tests.support.programs import array, tile_ir
from tilejit.dtypes import DType
from tilejit.ir.text.printer import to_text


def cdiv_pairs(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    low, high = int(np.iinfo(dtype.numpy).min), int(np.iinfo(dtype.numpy).max)
    pairs = [(a, b) for a in ends(dtype) for b in ends(dtype) if b and low <= -(-a // b) <= high]
    a, b = zip(*pairs, strict=True)
    return np.array(a, dtype.numpy), np.array(b, dtype.numpy)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_cdiv_is_exact_in_every_type(dtype: DType) -> None:
    a, b = cdiv_pairs(dtype)
    out = np.zeros((3, a.size), dtype.numpy)
    computed(
        "def k(A, B, O, n: tj.int32):\n    for i in range(tj.thread_id(), n, 32):\n"
        "        O[0, i] = tj.cdiv(A[i], B[i])\n        O[1, i] = tj.cdiv(A[i], 7)\n"
        "        O[2, i] = tj.cdiv(100, B[i])\n",
        a, b, out, a.size,
    )
    x, y = a.astype(object), b.astype(object)
    np.testing.assert_array_equal(out.astype(object), np.stack([-(-x // y), -(-x // 7), -(-100 // y)]))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_tile_order_is_the_hosts_in_every_type(dtype: DType) -> None:
    high = int(np.iinfo(dtype.numpy).max)
    sizes = (1, 3, 10, 100, high // 8 + 1, high)
    cases = [
        (t, rows, columns, group)
        for rows in sizes for columns in sizes for group in (1, 8, 100)
        for t in (0, 1, rows * columns // 2, rows * columns - 1)
        if t <= high and t < rows * columns
    ]
    given = np.array(cases, dtype.numpy)
    out = np.zeros((2, 2, len(cases)), dtype.numpy)
    computed(
        "def k(X, O, n: tj.int32):\n    for i in range(tj.thread_id(), n, 32):\n"
        "        O[0, 0, i], O[0, 1, i] = tj.tile_order(X[i, 0], (X[i, 1], X[i, 2]), X[i, 3])\n"
        "        O[1, 0, i], O[1, 1, i] = tj.tile_order(X[i, 0], (X[i, 1], X[i, 2]))\n",
        given, out, len(cases),
    )
    for k, (t, rows, columns, group) in enumerate(cases):
        assert tuple(out[0, :, k].tolist()) == tj.tile_order(t, (rows, columns), group), cases[k]
        assert tuple(out[1, :, k].tolist()) == tj.tile_order(t, (rows, columns)), cases[k]


def test_helpers_of_extents_and_ids_keep_the_short_formulas() -> None:
    text = (
        "def k(A, O):\n    i = tj.cta_id(0)\n"
        "    r, c = tj.tile_order(i, (tj.cdiv(A.shape[0], 64), 8))\n    O[r] = c\n"
    )
    shown = to_text(tile_ir(text, array(), array()))
    assert "A.shape.0 + 63" in shown
    assert "%cta_id.0 // 64" in shown


def test_conversions_of_64_bits_keep_their_digits() -> None:
    for x in (3e9, -1e10, 5.7, 2.0**40 + 0.5, -(2.0**52) - 0.5):
        for n in (2**31 + 1, 7, -(2**40) - 1):
            i, f = np.zeros(3, np.int64), np.zeros(2)
            computed(
                "def k(X, N, U, I, F):\n    if tj.thread_id() == 0:\n        I[0] = int(X[0])\n"
                "        I[1] = round(X[0])\n        I[2] = int(N[0])\n        F[0] = float(N[0])\n"
                "        F[1] = float(U[0])\n",
                np.array([x]), np.array([n]), np.array([abs(n)], np.uint64), i, f,
            )
            assert i.tolist() == [int(x), round(x), n]
            assert f.tolist() == [float(n), float(abs(n))]


def test_conversions_of_fewer_bits_have_32() -> None:
    i, f = np.zeros(2, np.int32), np.zeros(1, np.float32)
    computed(
        "def k(X, N, I, F):\n    if tj.thread_id() == 0:\n        tj.static_assert(int(X[0]).dtype == tj.int32)\n"
        "        tj.static_assert(float(N[0]).dtype == tj.float32)\n"
        "        I[0] = int(X[0])\n        I[1] = round(X[0])\n        F[0] = float(N[0])\n",
        np.array([2.5], np.float32), np.array([7], np.int32), i, f,
    )
    assert (i.tolist(), f.tolist()) == ([2, 2], [7.0])
