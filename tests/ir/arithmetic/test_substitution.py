"""Expressions with other expressions for their variables have the values that those give, and are built by `build`."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.ir.arithmetic.expressions import VARIABLES, Environment, any_integers, conditions, environments
from tests.ir.arithmetic.expressions import overflows_int64 as overflows
from tests.reference.expressions import evaluate
from tilejit.dtypes import bool_, float32, int32, int64
from tilejit.ir.arithmetic import build
from tilejit.ir.arithmetic.substitution import Substitution
from tilejit.ir.nodes import FALSE, TRUE, Buffer, Cast, Const, Expr, Load, Op, Var, Vector
from tilejit.layout import TileLayout

TURN, PART = Var("turn", int32, bounds=(0, 7)), Var("part", int32, bounds=(0, 3))
FIRST, OTHER = Var("first", int32, 8, (0, 1000)), Var("other", int32, 8, (0, 1000))
STRIDE = Var("stride", int64, 1, (0, 2**40))


def turn(number: int) -> Substitution:
    values = Substitution()
    values.changing(FIRST)
    for name, value in (("turn", number), ("part", 0)):
        values.index(name)
        values.numbers[name] = value
    return values


@given(
    st.one_of(any_integers(), conditions(3)), st.sets(st.sampled_from(sorted(VARIABLES))),
    st.lists(environments(), min_size=1, max_size=3), st.booleans(),
)
def test_each_iteration_has_the_value_for_its_variables(
    expr: Expr, names: set[str], turns: list[Environment], renamed: bool
) -> None:
    integers = {name for name in names if not renamed}
    values = Substitution()
    for name in names:
        if name not in integers:
            values.changing(VARIABLES[name])
        else:
            values.index(name)
    for environment in turns:
        assume(not overflows(expr, environment))
        for name in names:
            if name in integers:
                values.numbers[name] = environment[name]
            else:
                var = VARIABLES[name]
                values.value(name, Var(f"{name}.new", var.dtype, var.multiple_of, var.bounds))
        made = values.expr(expr)
        wanted = evaluate(expr, environment)
        assume(not overflows(made, {**environment, **{f"{n}.new": environment[n] for n in names}}))
        assert evaluate(made, {**environment, **{f"{n}.new": environment[n] for n in names}}) == wanted


def test_what_names_no_such_variable_is_the_same_object() -> None:
    expr = build.add(build.mul(OTHER, 3), 1)
    assert turn(3).expr(expr) is expr


def test_what_integers_make_is_a_constant() -> None:
    place = build.add(build.mul(build.floordiv(TURN, 2), 16), build.mod(TURN, 2))
    assert turn(5).expr(place) == Const(33, int32)
    values = Substitution()
    values.index("turn")
    for number in (1, 3, 5, 7):
        values.numbers["turn"] = number
        assert values.expr(place) == Const(number // 2 * 16 + 1, int32)
        assert values.expr(build.add(place, build.cast(build.mul(TURN, 9), int32))) == Const(
            number // 2 * 16 + 1 + 9 * number, int32
        )
    assert turn(5).expr(build.add(build.mul(TURN, 32), build.mul(PART, 4))) == Const(160, int32)


def test_a_division_has_the_wrapped_dividend() -> None:
    turns = Var("turn", int32)
    values = Substitution()
    values.index("turn")
    values.numbers["turn"] = 2**30
    assert values.expr(Op("floordiv", (build.mul(turns, 4), Const(3, int32)), int32)) == Const(0, int32)


def test_of_a_sum_only_the_constant_changes() -> None:
    expr, values = build.add(build.mul(TURN, 512), build.mul(OTHER, 3)), turn(0)
    first = values.expr(expr)
    assert first == build.mul(OTHER, 3)
    values.numbers["turn"] = 2
    assert values.expr(expr) == build.add(build.mul(OTHER, 3), 1024)
    made = values.expr(expr)
    assert isinstance(made, Op) and made.args[0] is first, "turns share what stays"


def test_a_product_gets_another_factor() -> None:
    start = Var("start", int64, 8)
    expr = build.add(build.add(start, build.mul(build.mul(build.cast(TURN, int64), 64), STRIDE)), 3)
    assert turn(0).expr(expr) == build.add(start, 3)
    assert turn(2).expr(expr) == build.add(build.add(start, build.mul(STRIDE, 128)), 3)


def test_a_comparison_decided_by_the_iteration_is_a_constant() -> None:
    expr = build.less(build.add(build.mul(TURN, 200), FIRST), 1300)
    assert turn(1).expr(expr) == TRUE
    assert turn(7).expr(expr) == FALSE
    undecided = turn(3).expr(build.less(build.add(build.mul(TURN, 200), OTHER), 1300))
    assert undecided == build.less(build.add(OTHER, 600), 1300)
    assert turn(1).expr(build.logical_and(expr, build.less(OTHER, 5))) == build.less(OTHER, 5)


def test_sums_of_one_iteration_share_the_parts_without_constants() -> None:
    values, made = turn(1), Var("first.1", int32, 8, (0, 1000))
    values.value("first", made)
    one, other = (values.expr(build.add(build.sub(build.mul(FIRST, 2), OTHER), number)) for number in (1, 2))
    assert isinstance(one, Op) and isinstance(other, Op) and one.args[0] is other.args[0]
    assert one == build.add(build.sub(build.mul(made, 2), OTHER), 1)


def test_what_a_load_brings_is_not_folded() -> None:
    layout = TileLayout.row_major((16,))
    registers = Buffer("r", "local", float32, (16,), layout, 4)
    load = Load(Vector(registers, build.mul(TURN, 2)))
    made = turn(3).expr(Op("add", (load, Const(0.5, float32)), float32))
    assert made == Op("add", (Load(Vector(registers, Const(6, int32))), Const(0.5, float32)), float32)
    chosen = Op("where", (build.less(TURN, 2), load, Const(0.0, float32)), float32)
    assert turn(1).expr(chosen) == Load(Vector(registers, Const(2, int32)))
    assert turn(2).expr(chosen) == Const(0.0, float32)
    assert turn(2).expr(Cast(TURN, float32)) == Const(2.0, float32)
    assert turn(2).expr(Op("bitwise_xor", (OTHER, build.mul(TURN, 8)), int32)) == build.bitwise_xor(OTHER, 16)
    assert turn(0).expr(Op("bitwise_xor", (OTHER, build.mul(TURN, 8)), int32)) is OTHER
    assert turn(0).expr(Op("logical_not", (build.less(TURN, 2),), bool_)) == FALSE
