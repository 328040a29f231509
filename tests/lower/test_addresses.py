"""Index arithmetic against the integers themselves."""

from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from tilejit.dtypes import float32, int32
from tilejit.ir.arithmetic import build
from tilejit.ir.arithmetic.evaluate import evaluate
from tilejit.ir.nodes import Const, Expr, Var
from tilejit.layout.iters import digits
from tilejit.lower.ask import operand
from tilejit.lower.schedule.placement import place
from tilejit.lower.schedule.views import Digit, DigitSchedule, View


def _view(extents: list[int]) -> View:
    """Digits of which no two chain: their strides are far apart."""
    digits = tuple(Digit(e, None, 1, {"x": 1000**k}) for k, e in reversed(list(enumerate(extents, 1))))
    schedule = DigitSchedule.of_same_shape({"x": place(operand("shared", (8,), float32).named("x"), "thread")})
    return schedule.over(digits)["x"]


@given(st.lists(st.integers(2, 6), min_size=1, max_size=4), st.integers(1, 12), st.integers(1, 6))
def test_digits_that_add_up_never_carry(extents: list[int], step: int, rounds: int) -> None:
    view = _view(extents)
    every = [d.extent for d in view.schedule.digits]
    rounds = min(rounds, -(-prod(every) // step))
    carries = any(
        [x + y for x, y in zip(digits(first, every), digits(low, every), strict=True)]
        != list(digits(first + low, every))
        for first in range(0, rounds * step, step)
        for low in range(step)
    )
    if view.adds_up(step, rounds * step):
        assert not carries


def test_whole_rows_of_threads_add_up_and_rows_cut_by_a_round_do_not() -> None:
    rows = _view([64, 4])
    assert [d.extent for d in rows.schedule.digits] == [4, 64]
    assert rows.adds_up(32, 256)
    assert rows.adds_up(128, 256)
    assert not rows.adds_up(96, 288)


@given(st.lists(st.integers(-40, 40), min_size=3, max_size=3), st.integers(-99, 99), st.sampled_from((2, 8, 12, 16)))
def test_what_is_set_apart_is_a_multiple_and_the_rest_makes_up_the_sum(
    factors: list[int], constant: int, divisor: int
) -> None:
    terms: list[Expr] = [Var("x", int32, 4), Var("y", int32), Var("z", int32, 16)]
    known = {"x": 12, "y": 7, "z": 48}
    whole = build.add(build.weighted_sum(zip(terms, factors, strict=True), int32), constant)
    far, near = build.apart(whole, divisor)
    assert evaluate(far, known) % divisor == 0
    assert evaluate(far, known) + evaluate(near, known) == evaluate(whole, known)
    assert not isinstance(near, Const) or 0 <= near.value < divisor
