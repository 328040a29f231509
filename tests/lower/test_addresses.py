"""Index arithmetic against the integers themselves."""

from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from tilejit.dtypes import int32
from tilejit.ir import build
from tilejit.ir.nodes import Const, Expr, Var
from tilejit.layout.iters import digits
from tilejit.lower.schedule.addresses import adds_up
from tilejit.lower.schedule.evaluate import evaluate
from tilejit.lower.schedule.schedule import Atom


def _atoms(extents: list[int]) -> tuple[Atom, ...]:
    """Digits of which no two chain: their strides are far apart."""
    return tuple(Atom(e, (1000**k,), None, 1) for k, e in reversed(list(enumerate(extents, 1))))


@given(st.lists(st.integers(2, 6), min_size=1, max_size=4), st.integers(1, 12), st.integers(1, 6))
def test_digits_that_add_up_never_carry(extents: list[int], step: int, rounds: int) -> None:
    own = [a.extent for a in _atoms(extents)]
    rounds = min(rounds, -(-prod(own) // step))
    carries = any(
        [x + y for x, y in zip(digits(first, own), digits(rest, own), strict=True)] != list(digits(first + rest, own))
        for first in range(0, rounds * step, step)
        for rest in range(step)
    )
    if adds_up(0, _atoms(extents), step, rounds * step):
        assert not carries


def test_whole_rows_of_threads_add_up_and_rows_cut_by_a_round_do_not() -> None:
    rows = _atoms([4, 64])[::-1]
    assert adds_up(0, rows, 32, 256)
    assert adds_up(0, rows, 128, 256)
    assert not adds_up(0, rows, 96, 288)


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
