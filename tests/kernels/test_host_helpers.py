"""Host helpers mean the same in a kernel, on values known when it is compiled and on run-time ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj
from tests.support.programs import source_of, tile_ir


@tj.kernel(threads=1)
def rounded_up(out: tj.Tensor, n: tj.int32, d: tj.int32):
    out[0] = tj.cdiv(n, 4)
    out[1] = tj.cdiv(n, d)
    out[2] = tj.cdiv(out.shape[0], 2)
    out[3] = tj.cdiv(7, 2)


@given(st.integers(-10_000, 10_000), st.integers(-50, 50).filter(bool))
def test_cdiv_of_run_time_values_is_pythons(n, d):
    out = np.zeros(5, np.int64)
    with tj.use_device("sim"):
        rounded_up[1](out, n, d)
    assert out.tolist() == [tj.cdiv(n, 4), tj.cdiv(n, d), 3, 4, 0]


@tj.kernel(threads=32)
def divided(out: tj.Tensor, tiles: tj.Tensor, n: tj.int32, d: tj.int32):
    out[0], out[1] = divmod(n, d)
    out[2], out[3] = divmod(n, 7)
    out[4], out[5] = divmod(-7, 2)
    quotients, remainders = divmod(tj.cta.indices((8,), 0) + n, d)
    tj.cta.store(tiles[0:8], quotients)
    tj.cta.store(tiles[8:16], remainders)


@given(st.integers(-10_000, 10_000), st.integers(-50, 50).filter(bool))
def test_divmod_of_scalars_and_tiles_is_pythons(n, d):
    out, tiles = np.zeros(6, np.int64), np.zeros(16, np.int32)
    with tj.use_device("sim"):
        divided[1](out, tiles, n, d)
    assert out.tolist() == [*divmod(n, d), *divmod(n, 7), *divmod(-7, 2)]
    assert tiles.tolist() == [*((n + k) // d for k in range(8)), *((n + k) % d for k in range(8))]


@pytest.mark.parametrize("call", ["divmod(n)", "divmod(n, 3, n)", "divmod(n, 3, c=1)", "tj.cdiv(n, 3, c=1)"])
def test_functions_of_two_values_take_two(call):
    kernel = tj.kernel(threads=1)(source_of(f"def k(out, n):\n    x = {call}\n"))
    with pytest.raises(tj.KernelTypeError, match="takes 2 arguments; got [13]|takes no keyword arguments; got c"):
        kernel.compile(tj.spec((6,), tj.int32), tj.int32)


@tj.kernel(threads=1)
def ordered(out: tj.Tensor, rows: tj.int32, columns: tj.int32, n: tj.int32, N: tj.constexpr):
    for t in range(rows * columns):
        row, column = tj.tile_order(t, (rows, columns), group=N)
        out[t, 0], out[t, 1] = row, column
        row, column = tj.tile_order(t, (rows, columns), group=n)
        out[t, 2], out[t, 3] = row, column
    row, column = tj.tile_order(5, (3, 4), 2)
    out[rows * columns, 0], out[rows * columns, 1] = row, column


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 9))
def test_tile_order_names_each_tile_once(rows, columns, group):
    expected = [tj.tile_order(t, (rows, columns), group) for t in range(rows * columns)]
    assert sorted(expected) == [(row, column) for row in range(rows) for column in range(columns)]
    # rows of a group come down its columns, and groups one after the other
    assert expected == sorted(expected, key=lambda at: (at[0] // group, at[1], at[0]))
    out = np.zeros((rows * columns + 1, 4), np.int32)
    with tj.use_device("sim"):
        ordered[1](out, rows, columns, group, N=group)
    assert out[:, :2].tolist() == [list(at) for at in (*expected, tj.tile_order(5, (3, 4), 2))]
    assert out[:-1, 2:].tolist() == out[:-1, :2].tolist()


def test_tile_order_wants_two_extents_and_a_group():
    for call, reason in (
        ("tj.tile_order(n, n)", "the shape must be .rows, columns.; this is a scalar"),
        ("tj.tile_order(n, (n, n, n))", "this is a tuple of 3 items"),
        ("tj.tile_order(n, (n, n), group=0)", "a group can't have 0 rows"),
        ("tj.tile_order(n, (n, n), group=2.5)", "the number of rows of a group must be an integer"),
        ("tj.tile_order(n, (n, n), group='a')", "the number of rows of a group must be"),
    ):
        with pytest.raises(tj.KernelTypeError, match=reason):
            tile_ir(f"def k(n):\n    row, column = {call}\n", tj.int32)
