"""Facts hold of every value that an expression takes."""

from __future__ import annotations

from hypothesis import assume, given

from tests.ir.arithmetic.expressions import Environment, any_integers, environments, overflows_int64
from tests.reference.expressions import evaluate
from tilejit.dtypes import int32, int64, uint8
from tilejit.ir.arithmetic.facts import bounds, multiple_of
from tilejit.ir.nodes import Cast, Const, Expr, Op, Special, Var

N = Var("i", int32)
J = Var("j", int32, 4, (0, 124))
B = Var("b", int64, 8, (0, 2**40))


@given(any_integers(), environments())
def test_every_value_is_a_multiple_and_in_bounds(expr: Expr, values: Environment) -> None:
    assume(not overflows_int64(expr, values))
    value = int(evaluate(expr, values))
    low, high = bounds(expr)
    assert low is None or low <= value
    assert high is None or value <= high
    number = multiple_of(expr)
    assert value == 0 if number == 0 else value % number == 0


def test_sums_and_products_carry_divisors() -> None:
    tile = Op("mul", (B, Const(16, int64)), int64)
    assert multiple_of(tile) == 128
    assert multiple_of(Op("add", (tile, Const(64, int64)), int64)) == 64
    assert multiple_of(Op("add", (tile, Const(0, int64)), int64)) == 128
    assert multiple_of(Const(0, int64)) == 0


def test_a_product_that_may_wrap_around_keeps_only_its_power_of_two() -> None:
    assert multiple_of(Op("mul", (N, Const(12, int32)), int32)) == 4
    assert multiple_of(Op("mul", (J, Const(3, int32)), int32)) == 12
    assert bounds(Op("mul", (N, Const(12, int32)), int32)) == (-(2**31), 2**31 - 1)


def test_ids_have_their_ranges() -> None:
    assert bounds(Special("lane_id")) == (0, 31)
    assert bounds(Special("num_ctas.0")) == (1, 2**31 - 1)
    assert bounds(Op("floordiv", (Special("thread_id"), Const(32, int32)), int32)) == (0, 31)
    assert bounds(Op("mod", (Special("thread_id"), Const(32, int32)), int32)) == (0, 31)


def test_a_narrowing_cast_forgets_what_may_be_lost() -> None:
    assert bounds(Cast(B, int32)) == (-(2**31), 2**31 - 1)
    assert multiple_of(Cast(Op("mul", (B, Const(3, int64)), int64), int32)) == 8
    assert bounds(Cast(J, uint8)) == (0, 124)


def test_what_is_divided_by_perhaps_zero_stays_between_zero_and_the_number() -> None:
    number, divisor = Var("n", int64, bounds=(0, 100)), Var("d", int64, bounds=(0, 8))
    assert bounds(Op("floordiv", (number, divisor), int64)) == (0, 100)
    assert bounds(Op("mod", (number, divisor), int64)) == (0, 7)
