"""Compile-time values are bounded: what would be too large is an error at once, not a hang or a full memory."""

from __future__ import annotations

import math
import operator
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.programs import array, tile_ir
from tilejit.errors import KernelTypeError
from tilejit.frontend import scalars, values

BITS, ELEMENTS = values.MAX_BITS, values.MAX_ELEMENTS

TOO_LARGE = [
    "10 ** 10 ** 8 % 7", "(-3) ** 10**9", "pow(2, 5000)", "pow(base=2, exp=10**12)", "1 << 5000", "1 << 10**15",
    "1 << (1 << 4000)", "2 ** 4095 * 2", "2**4095 + 2**4095", "'a' * 10**11", "10**11 * 'a'", "(1,) * 10**9",
    "((1, 2),) * 40000", "round(5, -10**9)", "round(5, ndigits=-10**9)", "math.factorial(10**8)",
    "math.factorial(1000)", "math.comb(10**6, 10**5)", "math.perm(10**9, 10**6)", "math.prod((2**4000, 2**4000))",
    "math.prod((1.0,) + (2**4000,) * 60000)", "math.lcm(2**4000 - 1, 2**4000 - 3)", "f'{3:1000000000}'",
    "format(3, '>100000')", "format(0.5, '.1000000000f')", "f'{3:99999999999999999999999999}'", "'%99999999d' % 3",
    "'%*d' % (10**9, 3)", "BIG", "STRING", "TUPLE", "'a' * 60000 + 'b' * 60000", "(1,) * 60000 + (2,) * 60000",
    "f\"{'a' * 60000}{'b' * 60000}\"", "half ** 10**9",
]


@pytest.mark.parametrize("text", TOO_LARGE)
def test_what_would_be_too_large_is_refused_at_once(text: str) -> None:
    from fractions import Fraction

    names: dict[str, Any] = {
        "math": math, "BIG": 1 << 5000, "STRING": "a" * 100_000, "TUPLE": (0,) * 100_000, "half": Fraction(1, 2),
    }
    source = f"def k(A):\n    x = {text}\n    A[0] = 1\n"
    start = time.process_time()
    with pytest.raises(KernelTypeError, match=r"a compile-time .*; the limit is (4,096|65,536)") as caught:
        tile_ir(source, array(), **names)
    assert time.process_time() - start < 10  # computed, it takes minutes
    assert caught.value.span.line == 2
    assert "outside the kernel" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    ["2 ** 4095", "-(2 ** 4095)", "1 << 4095", "0 << 10**15", "1 ** 10**15", "(-1) ** 10**15", "0 ** 10**15",
     "pow(3, 10**15, 7)", "2.0 ** 100", "2 ** -3", "'a' * 65536", "'a' * -(10**15)", "(1,) * 65536", "() * 10**15",
     "round(1234, -2)", "math.factorial(400)", "math.comb(10**9, 3)", "math.perm(10**9, 3)", "math.prod((2, 3.5))",
     "f'{3:08d}'", "'%5d' % 3", "'%*d' % (5, 3)", "7 % 4", "BIG"],
)
def test_what_is_large_but_within_the_limits_is_computed(text: str) -> None:
    names: dict[str, Any] = {"math": math, "BIG": 1 << 4095}
    tile_ir(f"def k(A):\n    x = {text}\n    tj.static_assert(x == {text})\n    A[0] = 1\n", array(), **names)


def test_tuples_that_double_are_refused_before_they_fill_the_memory() -> None:
    for doubled in ("x + x", "(x, x)", "x * 2"):
        text = f"def k(A):\n    x = (1, 2)\n    for i in tj.static_range(60):\n        x = {doubled}\n    A[0] = 1\n"
        with pytest.raises(KernelTypeError, match=r"a compile-time tuple has 131,072 elements") as caught:
            tile_ir(text, array())
        assert caught.value.span.line == 4


def test_integers_that_square_are_refused() -> None:
    text = "def k(A):\n    x = 3\n    for i in tj.static_range(60):\n        x = x * x\n    A[0] = 1\n"
    with pytest.raises(KernelTypeError, match=r"a compile-time integer has 6,493 bits"):
        tile_ir(text, array())


def test_constexpr_arguments_are_bounded_too() -> None:
    for value in (1 << 5000, "a" * 100_000, (0,) * 100_000, ((0, 1),) * 40_000):
        with pytest.raises(KernelTypeError, match="a compile-time .*; the limit is") as caught:
            tile_ir("def k(A, N):\n    A[0] = 1\n", array(), value)
        assert caught.value.span.line == 1


def test_a_loop_over_a_long_tuple_is_refused() -> None:
    with pytest.raises(KernelTypeError, match="unrolls 5000 iterations; the limit is 4096"):
        tile_ir("def k(A):\n    for x in (1,) * 5000:\n        A[0] = x\n", array())


NUMBERS = st.integers(-(2**40), 2**40)
CALLS = {
    operator.pow: st.tuples(st.integers(-1000, 1000), st.integers(0, 900)),
    operator.lshift: st.tuples(NUMBERS, st.integers(0, 9000)),
    operator.mul: st.tuples(st.sampled_from(["", "ab", (1, 2, 3), ((1, 2), 3), 7]), st.integers(-9, 90_000)),
    math.perm: st.tuples(st.integers(0, 900), st.integers(0, 900)),
    math.comb: st.tuples(st.integers(0, 9000), st.integers(0, 9000)),
    math.factorial: st.tuples(st.integers(0, 900)),
    math.prod: st.tuples(st.lists(NUMBERS, max_size=200).map(tuple)),
    format: st.tuples(st.integers(0, 9), st.integers(0, 90_000).map(str)),
}


@given(st.sampled_from(list(CALLS)), st.data())
def test_nothing_within_the_limits_is_refused_beforehand_and_nothing_large_is_computed(
    function: Any, data: st.DataObject
) -> None:
    """A zero among the factors is the exception: the product would have been large before it."""
    arguments = data.draw(CALLS[function])
    result = function(*arguments)
    bits = result.bit_length() if isinstance(result, int) else 0
    count = _leaves(result) if not isinstance(result, int) else 0
    try:
        scalars.check_call(function, arguments, {})
    except KernelTypeError:
        assert bits > BITS or count > ELEMENTS or (function is math.prod and 0 in arguments[0])
    else:
        assert bits <= 20 * BITS and count <= 20 * ELEMENTS


def _leaves(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return sum(_leaves(item) if isinstance(item, tuple) else 1 for item in value)
