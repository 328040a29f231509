"""Signed with unsigned: exact comparisons, arithmetic in a type that holds both, shifts in the left operand's type."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.support.profiles import times
from tests.support.programs import array, tile_ir
from tilejit import dtypes
from tilejit.dtypes import DTYPES, DType
from tilejit.errors import KernelTypeError
from tilejit.ir.arithmetic.facts import full_range

INTEGERS = [d for d in DTYPES.values() if d.is_integer]
PAIRS = [(a, b) for a, b in itertools.product(INTEGERS, INTEGERS) if a.kind != b.kind]
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
THREADS = 32


@pytest.fixture(autouse=True)
def simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")


@tj.kernel(threads=32)
def compares(OUT, X, Y):
    t = tj.thread_id()
    x, y = X[t], Y[t]
    OUT[0, t] = x < y
    OUT[1, t] = x <= y
    OUT[2, t] = x > y
    OUT[3, t] = x >= y
    OUT[4, t] = x == y
    OUT[5, t] = x != y


@tj.kernel(threads=32)
def compares_tiles(OUT, X, Y):
    x, y = tj.warp.load(X[0:32]), tj.warp.load(Y[0:32])
    tj.warp.store(OUT[0, 0:32], (x < y).astype(tj.int32))
    tj.warp.store(OUT[1, 0:32], (x <= y).astype(tj.int32))
    tj.warp.store(OUT[2, 0:32], (x > y).astype(tj.int32))
    tj.warp.store(OUT[3, 0:32], (x >= y).astype(tj.int32))
    tj.warp.store(OUT[4, 0:32], (x == y).astype(tj.int32))
    tj.warp.store(OUT[5, 0:32], (x != y).astype(tj.int32))


@tj.kernel(threads=32)
def shifts(OUT, X, Y):
    t = tj.thread_id()
    OUT[0, t] = X[t] << Y[t]
    OUT[1, t] = X[t] >> Y[t]


@tj.kernel(threads=32)
def shifts_tiles(OUT, X, Y):
    x, y = tj.warp.load(X[0:32]), tj.warp.load(Y[0:32])
    tj.warp.store(OUT[0, 0:32], x << y)
    tj.warp.store(OUT[1, 0:32], x >> y)


@tj.kernel(threads=32)
def computes(OUT, X, Y):
    t = tj.thread_id()
    x, y = X[t], Y[t]
    OUT[0, t] = x + y
    OUT[1, t] = x - y
    OUT[2, t] = min(x, y)
    OUT[3, t] = max(x, y)
    OUT[4, t] = tj.where(x > 0, x, y)
    OUT[5, t] = x // y
    OUT[6, t] = x % y


def numbers(dtype: DType, data: Any, *also: int) -> np.ndarray:
    low, high = full_range(dtype)
    ends = [n for n in (low, low + 1, -1, 0, 1, high - 1, high, *also) if low <= n <= high]
    number = st.one_of(st.sampled_from(ends), st.integers(low, high))
    return np.array(data.draw(st.lists(number, min_size=THREADS, max_size=THREADS)), dtype.numpy)


@settings(max_examples=times(2))
@given(st.sampled_from(PAIRS), st.sampled_from([compares, compares_tiles]), st.data())
def test_comparisons_are_exact(pair: tuple[DType, DType], kernel: Any, data: Any) -> None:
    x, y = (numbers(d, data) for d in pair)
    out = np.zeros((6, THREADS), np.int32)
    kernel[1](out, x, y)
    expected = [[compare(int(a), int(b)) for a, b in zip(x, y, strict=True)] for compare in COMPARISONS]
    np.testing.assert_array_equal(out, expected)


@settings(max_examples=times(2))
@given(st.sampled_from(PAIRS), st.sampled_from([shifts, shifts_tiles]), st.data())
def test_shifts_are_in_the_left_operands_type(pair: tuple[DType, DType], kernel: Any, data: Any) -> None:
    """By any count: one outside 0 .. bits-1 leaves zeros, or the sign."""
    left, count = pair
    x, y = numbers(left, data), numbers(count, data, left.bits - 1, left.bits, 256, 2**32)
    out = np.zeros((2, THREADS), left.numpy)
    kernel[1](out, x, y)
    for a, b, up, down in zip(x.tolist(), y.tolist(), *out, strict=True):
        inside = 0 <= b < left.bits
        assert int(up) % 2**left.bits == (a << b if inside else 0) % 2**left.bits
        assert int(down) == (a >> b if inside else -1 if a < 0 else 0)


@settings(max_examples=times(2))
@given(st.sampled_from([p for p in PAIRS if "uint64" not in map(str, p)]), st.data())
def test_arithmetic_is_in_a_type_that_holds_both(pair: tuple[DType, DType], data: Any) -> None:
    x, y = (numbers(d, data) for d in pair)
    y = np.where(y == 0, np.ones_like(y), y)
    common = dtypes.promote(*pair)
    assert common.kind == "int" and all(np.can_cast(d.numpy, common.numpy) for d in pair)
    out = np.zeros((7, THREADS), common.numpy)
    computes[1](out, x, y)
    operations: list[Callable[[int, int], int]] = [
        operator.add, operator.sub, min, max, lambda a, b: a if a > 0 else b, operator.floordiv, operator.mod,
    ]
    for operation, row in zip(operations, out, strict=True):
        wanted = [operation(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        assert [int(got) % 2**common.bits for got in row] == [n % 2**common.bits for n in wanted]


@pytest.mark.parametrize("dtype", [d for d in INTEGERS if d.kind == "int"], ids=str)
@pytest.mark.parametrize("expression", ["x + y", "y - x", "x * y", "x // y", "y % x", "max(x, y)", "min(y, x)",
                                        "tj.where(x > 0, x, y)"])
def test_uint64_with_a_signed_type_asks_for_a_conversion(dtype: DType, expression: str) -> None:
    with pytest.raises(KernelTypeError, match="no integer type holds all values of") as caught:
        tile_ir(f"def k(A, x, y):\n    z = {expression}\n    A[0] = z\n", array(), dtype, dtypes.uint64)
    assert caught.value.span.line == 2
    assert "convert" in caught.value.hint


def test_a_range_from_a_uint64_to_a_signed_number_asks_for_a_conversion() -> None:
    with pytest.raises(KernelTypeError, match="no integer type holds all values of uint64 and int8") as caught:
        tile_ir("def k(A, x, y):\n    for i in range(x, y):\n        A[0] = i\n", array(), dtypes.uint64, dtypes.int8)
    assert "tj.int64(x)" in caught.value.hint


def test_a_literal_that_does_not_fit_is_refused() -> None:
    for expression in ("x > -1", "-1 < x", "x + -1", "x == 2**32"):
        with pytest.raises(KernelTypeError, match="doesn't fit in uint32"):
            tile_ir(f"def k(A, x):\n    A[0] = {expression}\n", array(), dtypes.uint32)
