"""Expressions with numbers for their variables."""

from __future__ import annotations

import pytest

from tilejit.dtypes import int32
from tilejit.ir.arithmetic import build
from tilejit.ir.arithmetic.evaluate import evaluate
from tilejit.ir.nodes import Var


@pytest.mark.parametrize(
    ("multiple", "bounds", "value"),
    [
        (1, None, 0), (16, (0, 64), 0), (16, (-5, 64), 0), (1, (3, 9), 3), (16, (64, 112), 64), (16, (50, 112), 64),
        (1, (-9, -3), -3), (4, (-9, -3), -4), (0, (0, 0), 0),
    ],
)
def test_a_variable_without_a_value_is_as_near_to_0_as_it_may_be(
    multiple: int, bounds: tuple[int, int] | None, value: int
) -> None:
    var = Var("i", int32, multiple, bounds)
    assert evaluate(build.add(build.mul(var, 2), 1), {}) == 2 * value + 1
    assert evaluate(var, {"i": 80}) == 80
