"""Conditions along a run hold throughout where the tests of its ends say so, wrapped sums included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilejit.dtypes import DType, int32, int64, uint32
from tilejit.ir.arithmetic import build, runs
from tilejit.ir.arithmetic.evaluate import evaluate
from tilejit.ir.nodes import Expr, Var
from tilejit.ir.text.printer import expr_text

COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


@st.composite
def conditions(draw: st.DrawFn, dtype: DType, k: Var) -> Expr:
    """One on c * k + x, or several joined."""
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(("logical_and", "bitwise_and", "logical_or")))
        return build.op(name, draw(conditions(dtype, k)), draw(conditions(dtype, k)))
    x, limit = Var("x", dtype), Var("n", dtype)
    number = build.add(build.mul(build.cast(k, dtype), draw(st.integers(-9, 9))), x)
    if draw(st.integers(0, 5)) == 0:
        number = build.mod(number, 3)
    sides = (number, draw(st.sampled_from((limit, build.const(draw(st.integers(0, 40)), dtype)))))
    return build.op(draw(st.sampled_from(COMPARISONS)), *(sides if draw(st.booleans()) else sides[::-1]))


@given(st.data(), st.sampled_from((int32, uint32, int64)), st.integers(1, 16))
def test_throughout_is_what_all_values_say(data: st.DataObject, dtype: DType, count: int) -> None:
    k = Var("k", int32, bounds=(0, count - 1))
    cond = data.draw(conditions(dtype, k))
    info = np.iinfo(dtype.numpy)
    # of int64, which is taken not to overflow, no number is at the end of its range
    near = st.sampled_from((0, *((info.min, info.max, info.max // 2) if dtype != int64 else ())))
    places = data.draw(near), data.draw(near)
    x, n = (min(max(place + data.draw(st.integers(-80, 80)), info.min), info.max) for place in places)
    values = {"x": dtype.numpy.type(x), "n": dtype.numpy.type(n)}
    every = [bool(evaluate(runs.at(cond, k, build.const(i, int32)), values)) for i in range(count)]
    decided = bool(evaluate(runs.throughout(cond, k, count), values))
    assert not decided or all(every)
    # the ends of a sum that wraps around aren't asked
    may_wrap = dtype == uint32 or places[0] != 0
    assert may_wrap or decided == all(every)


K, X = Var("k", int32, bounds=(0, 7)), Var("x", int32, bounds=(-100, 5000))


@pytest.mark.parametrize(
    ("cond", "wanted"),
    [
        (build.greater_equal(build.add(X, K), 0), "x >= 0"),
        (build.less(build.add(X, K), 4095), "x + 7 < 4095"),
        (build.less(build.sub(X, K), 4095), "x < 4095"),
        (build.less(build.const(3, int32), build.add(X, K)), "x > 3"),
        (build.less(X, 4), "x < 4"),
    ],
)
def test_one_end_decides_a_comparison(cond: Expr, wanted: str) -> None:
    assert _text(runs.by_ends(cond, K, 8)) == wanted


def test_a_sum_that_may_wrap_around_is_tested_for_it() -> None:
    at = build.add(Var("x", int32), K)
    assert _text(runs.by_ends(build.less(at, Var("n", int32)), K, 8)) == "x + 7 < n and x <= x + 7"


@pytest.mark.parametrize("name", ["equal", "not_equal"])
def test_ends_dont_decide_equality(name: str) -> None:
    assert runs.by_ends(build.op(name, build.add(X, K), build.const(5, int32)), K, 8) is None


def _text(expr: Expr | None) -> str:
    assert expr is not None
    return expr_text(expr)
