"""Masks against the integers: which coordinates of a region lie inside its tensor, of any size, from any start."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilejit.dtypes import DType, float32, int32, int64
from tilejit.ir.arithmetic import build
from tilejit.ir.arithmetic.evaluate import evaluate
from tilejit.ir.nodes import FALSE, Buffer, Const, Expr, Let, Region, Strided, Var
from tilejit.lower.builder import Builder
from tilejit.lower.schedule.placement import place
from tilejit.lower.schedule.views import Schedule
from tilejit.lower.schedule.windows import Edges, Mask

EXTENT = 8

#: sizes of tensors with 64 bits, and starts about their edges and far from them
SIZES = (0, 1, 5, 8, 100, 2**31 - 1, 2**31, 2**31 + 3, 2**32, 2**32 + 5, 2**40)
FAR = (-(2**62), -(2**40), -(2**32) - 1, -(2**32), -(2**31) - 1, -(2**31), 2**31, 2**32, 2**32 + 2, 2**40, 2**62)
NEAR = range(-EXTENT - 1, EXTENT + 2)

STARTS = st.one_of(st.sampled_from(FAR), st.sampled_from(NEAR))
#: tests of a thread: few, and many, for which windows are clamped
COUNTS = pytest.mark.parametrize("tests", [1, 1000])


def mask_of(start: Expr, tests: int, width: int = 1) -> tuple[Mask, list[Let]]:
    """The mask of x[start : start + EXTENT] for a tensor of run-time size, and what it needs before."""
    size = Var("size", int64, bounds=(0, 2**40))
    buffer = Buffer("x", "global", float32, (size,), Strided((1,), 16), 16)
    view = Schedule.alike({"x": place(Region(buffer, (start,), (EXTENT,)), "thread")})["x"]
    edges = Edges.of(view, width)
    assert edges.dims == (0,)
    b = Builder()
    mask = edges.mask(b, tests)
    lets = [stmt for stmt in b.take() if isinstance(stmt, Let)]
    assert bool(lets) == (tests > 1)
    return mask, lets


def value(expr: Expr, lets: list[Let], names: dict[str, int]) -> int:
    names = dict(names)
    with np.errstate(over="ignore"):
        for let in lets:
            names[let.var.name] = int(evaluate(let.value, names))
        return int(evaluate(expr, names))


def at(coordinate: int) -> object:
    return lambda dim, dtype: build.const(coordinate, dtype)


@COUNTS
@given(STARTS, st.sampled_from(SIZES), st.booleans())
def test_a_coordinate_is_inside_where_it_is_one_of_the_tensor(tests: int, start: int, size: int, last: bool) -> None:
    start += size if last else 0
    mask, lets = mask_of(Var("start", int64), tests)
    for c in range(EXTENT):
        cond = mask.inside(at(c))
        assert bool(value(cond, lets, {"start": start, "size": size})) == (0 <= start + c < size)


@COUNTS
@given(st.sampled_from((0, 1, 2**31, 2**40)), st.sampled_from(SIZES))
def test_of_starts_that_are_not_negative_only_the_end_is_tested(tests: int, start: int, size: int) -> None:
    var = Var("start", int64, bounds=(0, 2**41))
    mask, lets = mask_of(var, tests)
    for c in range(EXTENT):
        cond = mask.inside(at(c))
        assert bool(value(cond, lets, {"start": start, "size": size})) == (start + c < size)


@COUNTS
def test_a_constant_coordinate_before_the_tensor_takes_no_test(tests: int) -> None:
    mask, _ = mask_of(Const(-3, int64), tests)
    if tests == 1:
        assert mask.inside(at(2)) == FALSE
    assert mask.inside(at(3)) != FALSE


@COUNTS
@given(st.integers(0, EXTENT), st.sampled_from(SIZES), st.sampled_from((0, 1, 2**31 - 4, 2**32 - 4)))
def test_what_of_a_vector_lies_before_the_edge_is_counted(tests: int, c: int, size: int, start: int) -> None:
    mask, lets = mask_of(Var("start", int64), tests, width=4)
    counted = mask.count_ahead(at(0), c, 4)
    assert counted.dtype == int32
    left = min(max(min(size - start, EXTENT) - c, 0), 4) if tests > 1 else min(max(size - start - c, 0), 4)
    assert value(counted, lets, {"start": start, "size": size}) == left


def test_a_coordinate_is_given_in_the_type_of_the_test() -> None:
    asked: list[DType] = []

    def coordinate(dim: int, dtype: DType) -> Expr:
        asked.append(dtype)
        return build.const(0, dtype)

    for tests in (1, 1000):
        mask_of(Var("start", int64), tests)[0].inside(coordinate)
    assert asked == [int64, int32]
