"""Helpers are inlined: arguments, defaults, returns in branches and loops, closures, names."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import array, run, statements, tile_ir
from tilejit import dtypes
from tilejit.errors import KernelTypeError
from tilejit.ir import nodes as ir

FACTOR = 3


@tj.function
def scaled(x, by=2, *, plus=FACTOR):
    return x * by + plus


@tj.function
def first_above(A, limit):
    for i in range(8):
        if A[i] > limit:
            return i
    return -1


@tj.function
def sign(x):
    if x < 0:
        return -1
    elif x == 0:
        return 0
    return 1


@tj.function
def both(x, y):
    return y, x + y


@tj.function
def writes(A, value):
    A[0] = value
    if value > 5:
        return
    A[1] = value


def ints(*values: int) -> np.ndarray:
    return np.asarray(values, np.int32)


def test_defaults_and_keywords_work() -> None:
    def kernel(A, n):
        A[0] = scaled(n)
        A[1] = scaled(n, 5)
        A[2] = scaled(plus=1, x=n)

    out = ints(0, 0, 0)
    run(kernel, out, 4)
    assert out.tolist() == [11, 23, 9]


@pytest.mark.parametrize("limit", [0, 3, 6, 9])
def test_a_helper_may_return_from_a_loop(limit: int) -> None:
    def kernel(A, n):
        A[0] = first_above(A, n)

    out = ints(*range(8))
    run(kernel, out, limit)
    assert out[0] == (limit + 1 if limit < 7 else -1)


@pytest.mark.parametrize("n", [-4, 0, 9])
def test_a_helper_may_return_from_branches(n: int) -> None:
    def kernel(A, n):
        A[0] = sign(n) * 10 + sign(-n)

    out = ints(7)
    run(kernel, out, n)
    assert out[0] == np.sign(n) * 10 - np.sign(n)


def test_a_helper_returns_tuples_and_nothing() -> None:
    def kernel(A, n):
        a, b = both(n, 3)
        A[2] = a
        A[3] = b
        writes(A, n)

    for n, expected in ((2, [2, 2, 3, 5]), (6, [6, 0, 3, 9])):
        out = ints(0, 0, 0, 0)
        run(kernel, out, n)
        assert out.tolist() == expected


def test_nested_functions_see_the_names_around_them_as_they_are_when_called() -> None:
    def kernel(A, n):
        base = 10

        def add(x):
            return x + base

        A[0] = add(n)
        base = 20
        A[1] = add(n)
        if n > 2:
            base = 30
        A[2] = add(n)

    for n in (1, 5):
        found, expected = ints(0, 0, 0), ints(0, 0, 0)
        run(kernel, found, n)
        kernel(expected, n)
        assert found.tolist() == expected.tolist()


def test_closures_and_functions_as_arguments_work() -> None:
    offset = 5

    @tj.function
    def twice(f, x):
        return f(f(x))

    def kernel(A, n):
        def shifted(x):
            return x + offset

        A[0] = twice(shifted, n)
        A[1] = twice(sign, n)

    out = ints(0, 0)
    run(kernel, out, 4)
    assert out.tolist() == [14, 1]


def test_a_helpers_names_are_its_own() -> None:
    @tj.function
    def helper(x):
        total = 0
        for i in range(3):
            total += x + i
        return total

    def kernel(A, n):
        total = 1
        for i in range(2):
            total += helper(i)
        A[0] = total

    out = ints(0)
    run(kernel, out, 0)
    assert out[0] == 1 + 3 + 6


def test_spans_in_a_helper_name_the_call_site() -> None:
    def kernel(A, n):
        A[0] = scaled(n)
        writes(A, n)

    stored = statements(tile_ir(kernel, array(), dtypes.int32).body, ir.Store)
    assert stored[0].span.caller is None
    assert stored[1].span.caller is not None
    assert stored[1].span.caller.text.strip() == "writes(A, n)"


def test_a_result_on_one_path_only_is_an_error() -> None:
    text = "@tj.function\ndef sometimes(x):\n    if x > 0:\n        return x\n\ndef k(A, n):\n    A[0] = sometimes(n)\n"
    with pytest.raises(KernelTypeError, match="result of sometimes"):
        tile_ir(text, array(), dtypes.int32)


def test_results_of_two_types_are_an_error_that_names_both_lines() -> None:
    text = (
        "@tj.function\ndef two(x):\n    if x > 0:\n        return tj.float16(x)\n    return x\n\n"
        "def k(A, n):\n    A[0] = two(n)\n"
    )
    with pytest.raises(KernelTypeError, match="float16 .*line 4 .*int32 .*line 5"):
        tile_ir(text, array(), dtypes.int32)


def test_a_straight_helper_emits_no_loop() -> None:
    def kernel(A, n):
        A[0] = scaled(n) + scaled(n)

    assert statements(tile_ir(kernel, array(), dtypes.int32).body, ir.Loop) == []
