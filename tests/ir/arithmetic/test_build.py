"""Constructors fold, keep one form, and change no value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.ir.arithmetic.expressions import (
    Environment,
    any_integers,
    conditions,
    environments,
    integers,
    overflows_int64,
)
from tests.reference.expressions import evaluate
from tilejit.dtypes import (
    DType,
    bfloat16,
    bool_,
    float8_e4m3fn,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
    uint32,
)
from tilejit.errors import KernelTypeError
from tilejit.ir.arithmetic import build
from tilejit.ir.arithmetic.facts import bounds, multiple_of
from tilejit.ir.nodes import FALSE, TRUE, Cast, Const, Expr, Op, Special, Var
from tilejit.ir.text.printer import expr_text

N = Var("i", int32)
J = Var("j", int32, 4, (0, 124))
A = Var("a", int64)
B = Var("b", int64, 8, (0, 2**40))
LANE = Special("lane_id")


def rebuilt(expr: Expr) -> Expr:
    """The same expression through the constructors."""
    if isinstance(expr, Cast):
        return build.cast(rebuilt(expr.x), expr.dtype)
    if not isinstance(expr, Op):
        return expr
    args = [rebuilt(a) for a in expr.args]
    constructor = getattr(build, expr.name, None)
    return constructor(*args) if constructor is not None else build.op(expr.name, *args)


@given(st.one_of(any_integers(), conditions(3)), environments())
def test_constructors_change_no_value(expr: Expr, values: Environment) -> None:
    assume(not overflows_int64(expr, values))
    made = rebuilt(expr)
    assert made.dtype == expr.dtype
    assert evaluate(made, values) == evaluate(expr, values)


def test_a_remainder_goes_only_if_the_number_is_below_the_divisor() -> None:
    for greatest in (7, 8):
        x = Var("x", int32, bounds=(0, greatest))
        assert (build.mod(x, 8) == x) == (greatest < 8)


@given(any_integers())
def test_the_form_is_canonical(expr: Expr) -> None:
    made = rebuilt(expr)
    assert build.difference(made, made) == 0
    assert build.difference(build.add(made, 5), made) == 5


@given(st.sampled_from((int32, int64, uint32)).flatmap(lambda t: st.tuples(integers(t), integers(t))), environments())
def test_a_difference_is_what_one_exceeds_the_other_by(pair: tuple[Expr, Expr], values: Environment) -> None:
    a, b = (rebuilt(e) for e in pair)
    total, other = build.add(build.add(a, b), 12), build.sub(b, build.neg(a))
    assert build.difference(total, other) == 12
    width = 2**a.dtype.bits
    assert (int(evaluate(total, values)) - int(evaluate(other, values)) - 12) % width == 0
    gap = build.difference(a, b)
    if gap is not None and not any(overflows_int64(e, values) for e in pair):
        assert (int(evaluate(a, values)) - int(evaluate(b, values)) - gap) % width == 0


def test_constants_wrap_around_as_their_type() -> None:
    assert build.const(300, uint8) == Const(44, uint8)
    assert build.const(200, int8) == Const(-56, int8)
    assert build.add(Const(2**31 - 1, int32), 1) == Const(-(2**31), int32)
    assert build.const(0.1, float16).value == float(np.float16(0.1))
    assert build.const(math.nan, float32) == build.const(-math.nan, float32)


def test_sums_of_products_have_their_constant_last() -> None:
    made = build.add(build.mul(build.add(3, LANE), 4), build.mul(LANE, 2))
    assert made == Op("add", (Op("mul", (LANE, Const(6, int32)), int32), Const(12, int32)), int32)
    assert build.sub(made, made) == Const(0, int32)


def test_a_tiles_stop_minus_its_start_is_its_extent() -> None:
    start, stop = build.mul(N, 64), build.mul(build.add(N, 1), 64)
    assert build.difference(stop, start) == 64
    assert build.difference(build.mul(build.add(A, 1), 64), build.mul(A, 64)) == 64
    assert build.difference(A, B) is None


def test_a_cast_is_looked_through_only_where_nothing_overflows() -> None:
    narrow = build.add(J, 4)
    assert build.difference(build.cast(narrow, int64), build.cast(J, int64)) == 4
    unknown = build.add(N, 4)
    assert build.difference(build.cast(unknown, int64), build.cast(N, int64)) is None


def test_a_cast_that_undoes_another_disappears() -> None:
    assert build.cast(build.cast(LANE, int64), int32) == LANE
    wide = build.add(build.mul(build.cast(LANE, int64), 8), 3)
    assert build.cast(wide, int32) == build.add(build.mul(LANE, 8), 3)
    half = Var("h", float16)
    assert build.cast(build.cast(half, float32), float16) == half
    assert build.cast(build.cast(Var("x", float32), float16), float32) != Var("x", float32)


def test_division_takes_out_what_divides() -> None:
    assert build.floordiv(build.add(build.mul(A, 8), 5), 8) == A
    assert build.mod(build.add(build.mul(A, 8), 5), 8) == Const(5, int64)
    assert build.floordiv(LANE, 32) == Const(0, int32)
    assert build.mod(LANE, 32) == LANE
    assert build.floordiv(build.mul(N, 8), 8) != N
    assert build.mod(build.mul(N, 8), 8) == Const(0, int32)
    assert build.floordiv(build.floordiv(A, 4), 8) == Op("floordiv", (A, Const(32, int64)), int64)


def test_facts_decide_comparisons_and_extremes() -> None:
    assert build.less(LANE, 32) == TRUE
    assert build.less(build.add(A, 1), A) == FALSE
    assert build.less(build.add(N, 1), N) != FALSE
    assert build.minimum(LANE, 31) == LANE
    assert build.maximum(B, 0) == B
    assert build.where(build.less(LANE, 32), N, J) == N
    assert build.logical_and(build.less(LANE, 32), build.less(N, J)) == build.less(N, J)


def test_floats_are_folded_only_where_every_machine_agrees() -> None:
    half = Const(0.5, float32)
    assert build.op("add", half, half) == Const(1.0, float32)
    assert isinstance(build.op("exp", half), Op)
    x = Var("x", float32)
    assert build.add(x, 0.0) == Op("add", (x, Const(0.0, float32)), float32)
    assert build.sub(x, x) == Op("sub", (x, x), float32)
    assert isinstance(build.where(Var("p", bool_), Const(0.0, float32), Const(-0.0, float32)), Op)
    assert build.logical_not(build.less(x, 1.0)) == Op("logical_not", (build.less(x, 1.0),), bool_)


def test_halves_compute_in_float32_and_round_once() -> None:
    h, b = Var("h", float16), Var("b", bfloat16)
    total = build.op("add", h, h)
    assert total == Cast(Op("add", (Cast(h, float32), Cast(h, float32)), float32), float16)
    assert build.op("mul", h, b).dtype == float32
    assert build.op("maximum", h, h) == Op("maximum", (h, h), float16)


@pytest.mark.parametrize("dtype", [float8_e4m3fn])
def test_fp8_must_be_cast_first(dtype: DType) -> None:
    with pytest.raises(KernelTypeError, match="cast it first"):
        build.op("add", Var("x", dtype), Var("y", dtype))


def test_a_float_that_no_integer_holds_stays_a_cast() -> None:
    assert build.cast(Const(2.75, float64), int32) == Const(2, int32)
    assert isinstance(build.cast(Const(math.inf, float32), int32), Cast)
    assert isinstance(build.cast(Const(3e9, float32), int32), Cast)
    assert build.cast(Const(math.nan, float32), bool_) == TRUE


def test_a_plain_number_takes_the_other_sides_type() -> None:
    assert build.add(LANE, 1).dtype == int32
    assert build.add(B, 1).dtype == int64
    assert build.add(LANE, B).dtype == int64
    assert build.add(Var("p", bool_), 1).dtype == int32
    with pytest.raises(TypeError, match="cast one"):
        build.add(LANE, 1.5)


def depth(expr: Expr) -> int:
    """Return the number of operations on the longest path from an expression to a leaf."""
    return 1 + max(map(depth, expr.args)) if isinstance(expr, Op) else 0


@pytest.mark.parametrize("count", [64, 65, 256, 1024])
@pytest.mark.parametrize("factor", [1, -1, 3])
def test_long_sums_are_shallow(count: int, factor: int) -> None:
    """Walks over expressions recurse, so a sum's depth must not grow with the number of its terms."""
    terms = [build.op("bitwise_xor", build.mul(N, N), build.const(k, int32)) for k in range(count)]
    total: Expr = build.const(7, int32)
    meant, values = 7, {"i": 12345}
    for k, term in enumerate(terms):
        scale = factor if k % 2 else 1
        total = build.add(total, build.mul(term, scale))
        meant += scale * int(evaluate(term, values))
    assert depth(total) < 80
    assert int(evaluate(total, values)) == int(np.int64(meant).astype(np.int32))
    assert build.sub(total, total) == build.const(0, int32)
    assert expr_text(total)
    bounds(total)
    multiple_of(total)


@pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64])
def test_signed_zeros_are_two_constants_and_nan_is_one(dtype: DType) -> None:
    zero, negative = Const(0.0, dtype), Const(-0.0, dtype)
    assert zero == Const(0.0, dtype) and negative == Const(-0.0, dtype)
    assert zero != negative and len({zero, negative, build.const(-0.0, dtype)}) == 2
    assert Op("neg", (zero,), dtype) != Op("neg", (negative,), dtype)
    assert Const(math.nan, dtype) == Const(-math.nan, dtype)
