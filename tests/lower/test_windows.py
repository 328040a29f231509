"""Masks against the integers: which coordinates of a region lie inside its tensor, of any size, from any start."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj
from tilejit.dtypes import DType, float32, int32, int64
from tilejit.ir.arithmetic import build
from tilejit.ir.arithmetic.evaluate import evaluate
from tilejit.ir.nodes import FALSE, Buffer, Const, Expr, Let, Region, Strided, Var
from tilejit.lower.builder import Builder
from tilejit.lower.schedule.access import Edges
from tilejit.lower.schedule.placement import place
from tilejit.lower.schedule.views import DigitSchedule

EXTENT = 8

#: sizes of tensors with 64 bits, and starts about their edges and far from them
SIZES = (0, 1, 5, 8, 100, 2**31 - 1, 2**31, 2**31 + 3, 2**32, 2**32 + 5, 2**40)
FAR = (-(2**62), -(2**40), -(2**32) - 1, -(2**32), -(2**31) - 1, -(2**31), 2**31, 2**32, 2**32 + 2, 2**40, 2**62)
NEAR = range(-EXTENT - 1, EXTENT + 2)

STARTS = st.one_of(st.sampled_from(FAR), st.sampled_from(NEAR))
#: tests of a thread: few, and many, for which windows are clamped
COUNTS = pytest.mark.parametrize("tests", [1, 1000])


def edges_of(start: Expr, width: int = 1) -> Edges:
    """Those of x[start : start + EXTENT] for a tensor of run-time size."""
    size = Var("size", int64, bounds=(0, 2**40))
    buffer = Buffer("x", "global", float32, (size,), Strided((1,), 16), 16)
    view = DigitSchedule.of_same_shape({"x": place(Region(buffer, (start,), (EXTENT,)), "thread")})["x"]
    edges = Edges.of(view, width)
    assert edges.dims == (0,)
    return edges


def mask_of(start: Expr, tests: int, width: int = 1) -> tuple[Edges, list[Let]]:
    """Their mask, and what it needs before."""
    b, edges = Builder(), edges_of(start, width)
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


@given(st.sampled_from((0, 1, 5, 2**31, 2**32 + 2)), st.sampled_from(SIZES), st.booleans())
def test_where_a_region_passes_the_end_its_extent_is_no_limit(start: int, size: int, varies: bool) -> None:
    edges = edges_of(Var("start", int64, bounds=(0, 2**41)) if varies else build.const(start, int64))
    b = Builder()
    mask = edges.mask(b, 1000, refuted=edges.all_inside)
    (end,) = [stmt for stmt in b.take() if isinstance(stmt, Let)]
    assert "minimum" not in str(end.value) and end.var.bounds == (0, EXTENT - 1)
    if start + EXTENT <= size:
        return
    for c in range(EXTENT):
        cond = mask.inside(at(c))
        assert bool(value(cond, [end], {"start": start, "size": size})) == (start + c < size)


def test_the_extent_is_a_limit_where_the_start_may_be_what_isnt_inside() -> None:
    edges, b = edges_of(Var("start", int64)), Builder()
    edges.mask(b, 1000, refuted=edges.all_inside)
    end, *_ = b.take()
    assert isinstance(end, Let) and "minimum" in str(end.value) and end.var.bounds == (0, EXTENT)


@tj.kernel(threads=32)
def row(A: tj.Tensor, B: tj.Tensor):
    tj.cta.copy(B[0:3004], tj.cta.load(A[0:3004]))


@tj.kernel(threads=32)
def rows(A: tj.Tensor, B: tj.Tensor):
    tj.cta.copy(B[0:40, 0:80], tj.cta.load(A[0:40, 0:80]))


def test_which_of_two_dimensions_passes_the_end_is_not_known() -> None:
    limits = [
        re.findall(r"let end\S* .* = (.*)", str(kernel.compile(array, array, target="sm_90a").lane_ir))
        for kernel, array in ((row, tj.spec(5000, tj.float32)), (rows, tj.spec((50, 100), tj.float32)))
    ]
    assert limits[0] == ["int32(A.shape.0)", "int32(B.shape.0)"]
    assert len(limits[1]) == 4 and all("minimum" in limit for limit in limits[1])


@pytest.mark.parametrize("size", [1, 2900, 2999, 3000, 3003, 3004, 3005, 3072, 5000])
def test_of_a_padded_row_what_the_tensor_has_is_moved(size: int) -> None:
    a, b = np.arange(1, size + 1, dtype=np.float32), np.zeros(size, np.float32)
    tj.simulate(row, 1, a, b, target="sm_90a")
    assert (b[:3004] == a[:3004]).all() and not b[3004:].any()
