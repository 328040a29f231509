"""Indices, fills and masks that are needed in two layouts: rematerialized in each, from the same scalars."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilejit as tj

N = 32
I = np.arange(N, dtype=np.int32)  # noqa: E741 - as in kernels


@tj.kernel(threads=64)
def sums_of_indices(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    i = tj.cta.indices((N,), 0)
    tj.cta.store(Y[0:N, 0:N], i[:, None] * 100 + i[None, :])


@tj.kernel(threads=64)
def masks(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    m = tj.cta.indices((N,), 0) < n
    tj.cta.store(Y[0:N, 0:N], tj.where(m[:, None], 1, 0) + tj.where(m[None, :], 2, 0))


@tj.kernel(threads=64)
def longer_chains(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    # a product, a comparison and a choice: one too many
    m = tj.cta.indices((N,), 0) * 3 < n
    tj.cta.store(Y[0:N, 0:N], tj.where(m[:, None], 1, 0) + tj.where(m[None, :], 2, 0))


@tj.kernel(threads=64)
def transposed(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    i = tj.cta.indices((N, N), 1)
    tj.cta.store(Y[0:N, 0:N], i * 100 + i.T)


@tj.kernel(threads=64)
def scalars_that_change(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    limit = 1
    for _ in range(n):
        limit = limit + 1
    m = tj.cta.indices((N,), 0) < limit
    for _ in range(n):
        limit = limit + 2
    tj.cta.store(Y[0:N, 0:N], tj.where(m[:, None], 1, 0) + tj.where(m[None, :], 2, 0) + 0 * limit)


@tj.kernel(threads=64)
def written_in_a_branch(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    m = tj.cta.zeros((N,), tj.int32)
    if n > 3:
        least = n * 2
        m = tj.cta.indices((N,), 0) + least
    tj.cta.store(Y[0:N, 0:N], m[:, None] * 100 + m[None, :])


@tj.kernel(threads=64)
def in_a_loop(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    for k in range(2):
        m = tj.cta.indices((N,), 0) + k * n
        tj.cta.store(Y[k * 16 : k * 16 + 16, 0:N], m[:16, None] * 100 + m[None, :])


def outer(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return rows[:, None] + columns[None, :]


def of_mask(mask: np.ndarray) -> np.ndarray:
    return outer(np.where(mask, 1, 0), np.where(mask, 2, 0))


def in_loop(n: int) -> np.ndarray:
    return np.concatenate([outer(100 * (I[:16] + k * n), I + k * n) for k in range(2)])


#: kernel, what it computes of n, and how often it makes indices where they are made again
CASES = [
    (sums_of_indices, lambda n: outer(100 * I, I), 2),
    (masks, lambda n: of_mask(n > I), 2),
    (longer_chains, lambda n: of_mask(n > 3 * I), 1),
    (transposed, lambda n: outer(I, 100 * I), 2),
    (scalars_that_change, lambda n: of_mask(n + 1 > I), 1),
    (written_in_a_branch, lambda n: outer(100 * (I + 2 * n), I + 2 * n) if n > 3 else np.zeros((N, N), int), None),
    (in_a_loop, in_loop, 2),
]


@pytest.mark.parametrize(("kernel", "expected", "made"), CASES, ids=[case[0].name for case in CASES])
def test_rematerialized_values_are_the_same(kernel, expected, made):
    x = np.zeros((N, N), np.int32)
    for n in (0, 5, 9):
        y = np.full((N, N), -1, np.int32)
        with tj.use_device("sim:sm_90a"):
            kernel[1](x, y, n)
        assert np.array_equal(y, expected(n))
    text = kernel.compile(x, x, 5, target="sm_90a").tile_ir
    if made is not None:
        assert len(re.findall(r"cta\.indices", text)) == made
        # nothing is converted, or everything
        assert len(re.findall(r"cta\.copy (?!Y)", text)) == (0 if made == 2 else 1)


@tj.kernel(threads=64)
def parts(X: tj.Tensor, Y: tj.Tensor, first: tj.constexpr):
    i = tj.cta.indices((64,), 0)
    tj.cta.store(Y[0:12], tj.cta.load(X[0:12]) + i[first : first + 12])
    tj.cta.store(Y[12:76], i)


@pytest.mark.parametrize("first", [0, 5, 16, 52])
def test_a_part_of_indices_begins_where_it_is_cut(first):
    x, y = np.arange(76, dtype=np.int32), np.zeros(76, np.int32)
    with tj.use_device("sim:sm_90a"):
        parts[1](x, y, first=first)
    assert np.array_equal(y, np.concatenate([x[:12] + np.arange(first, first + 12), np.arange(64)]))


@tj.kernel(threads=64)
def rows_of_indices(X: tj.Tensor, Y: tj.Tensor, row: tj.constexpr):
    i = tj.cta.indices((8, N), 0) * 2
    tj.cta.store(Y[0:N], tj.cta.load(X[0:N]) + i[row])
    tj.cta.store(Y[N : 9 * N], i.reshape((8 * N,)))


@pytest.mark.parametrize("row", [0, 3])
def test_a_row_of_indices_along_rows_is_one_number(row):
    x, y = np.arange(9 * N, dtype=np.int32), np.zeros(9 * N, np.int32)
    with tj.use_device("sim:sm_90a"):
        rows_of_indices[1](x, y, row=row)
    assert np.array_equal(y[:N], x[:N] + 2 * row)
    assert np.array_equal(y[N:], np.repeat(np.arange(8), N) * 2)
