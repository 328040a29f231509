"""Regions of one buffer and its views: the same, apart, or neither, as the places of their elements say."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.profiles import times
from tilejit.dtypes import DType, float16, float32, int32, int64
from tilejit.ir import nodes as ir
from tilejit.ir.analyses.overlap import same_or_apart
from tilejit.ir.nodes import FALSE, TRUE
from tilejit.layout import Swizzle, TileLayout
from tilejit.layout.iters import Iter, m

SHAPES: dict[DType, tuple[tuple[int, ...], ...]] = {
    float32: ((4, 8), (8, 4), (32,), (2, 2, 8), (4, 2, 4)),
    float16: ((4, 16), (8, 8), (64,)),
}
SWIZZLES = (None, Swizzle(1, 1, 2), Swizzle(2, 0, 3))


def buffer(name: str, dtype: DType, layout: TileLayout, shape: tuple[int, ...], base: ir.Buffer | None) -> ir.Buffer:
    return ir.Buffer(name, "shared", dtype, shape, layout, 128, base)


@st.composite
def buffers(draw: st.DrawFn) -> tuple[ir.Buffer, ir.Buffer]:
    """A buffer, and itself or a view of it: of another shape, order of dimensions or width of elements."""
    swizzle = draw(st.sampled_from(SWIZZLES))
    root = buffer("s", float32, TileLayout.row_major((4, 8), swizzle), (4, 8), None)
    if draw(st.booleans()):
        return root, root
    dtype = draw(st.sampled_from([float32, float32, float16])) if swizzle is None else float32
    shape = draw(st.sampled_from(SHAPES[dtype]))
    iters = TileLayout.row_major(shape, swizzle).shard
    order = draw(st.permutations(range(len(shape))))
    layout = TileLayout(tuple(iters[d] for d in order), swizzle=swizzle)
    return root, buffer("v", dtype, layout, tuple(shape[d] for d in order), root)


@st.composite
def boxes(draw: st.DrawFn, of: ir.Buffer) -> ir.Region:
    starts, extents = [], []
    for size in of.shape:
        assert isinstance(size, int)
        extent = draw(st.integers(1, size))
        starts.append(ir.Const(draw(st.integers(0, size - extent)), int32))
        extents.append(extent)
    return ir.Region(of, tuple(starts), tuple(extents))


def places(region: ir.Region) -> Iterator[frozenset[int]]:
    """The bytes of each element, in order."""
    layout, width = region.buffer.layout, region.dtype.bytes
    assert isinstance(layout, TileLayout)
    shape = tuple(n for n in region.buffer.shape if isinstance(n, int))
    ranges = [
        range(int(s.value), int(s.value) + (e or 1))
        for s, e in zip(region.starts, region.extents, strict=True)
        if isinstance(s, ir.Const)
    ]
    for index in itertools.product(*ranges):
        place = layout.apply(*index, shape=shape)
        assert isinstance(place, dict)
        yield frozenset(range(place["m"] * width, (place["m"] + 1) * width))


def is_fine(a: ir.Region, b: ir.Region) -> bool:
    first, second = list(places(a)), list(places(b))
    return first == second or frozenset().union(*first).isdisjoint(frozenset().union(*second))


@given(st.data())
@settings(max_examples=times(13), deadline=None)
def test_constants_are_decided_as_their_elements_say(data: st.DataObject) -> None:
    first, second = data.draw(buffers())
    a, b = data.draw(boxes(first)), data.draw(boxes(second))
    expected = TRUE if is_fine(a, b) else FALSE
    assert same_or_apart(a, b) == expected
    assert same_or_apart(b, a) == expected


def value(expr: ir.Expr, at: dict[str, int]) -> int:
    """What an expression of integers and conditions comes to."""
    match expr:
        case ir.Const():
            return int(expr.value)
        case ir.Var():
            return at[expr.name]
        case ir.Cast():
            return value(expr.x, at)
        case ir.Op():
            return _OPERATIONS[expr.name](*(value(arg, at) for arg in expr.args))
        case _:
            raise AssertionError(expr)


_OPERATIONS = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "equal": lambda x, y: int(x == y), "not_equal": lambda x, y: int(x != y),
    "less": lambda x, y: int(x < y), "less_equal": lambda x, y: int(x <= y),
    "greater": lambda x, y: int(x > y), "greater_equal": lambda x, y: int(x >= y),
    "logical_and": lambda x, y: x & y, "logical_or": lambda x, y: x | y, "logical_not": lambda x: 1 - x,
}


@given(st.data())
@settings(max_examples=times(7), deadline=None)
def test_starts_known_at_run_time_give_a_condition_that_says_the_same(data: st.DataObject) -> None:
    first, second = data.draw(buffers())
    a, b = data.draw(boxes(first)), data.draw(boxes(second))
    at: dict[str, int] = {}

    def loosened(region: ir.Region, name: str) -> ir.Region:
        starts: list[ir.Expr] = []
        for d, start in enumerate(region.starts):
            assert isinstance(start, ir.Const)
            if data.draw(st.booleans()):
                at[f"{name}{d}"] = int(start.value)
                starts.append(ir.Var(f"{name}{d}", int32))
            else:
                starts.append(start)
        return ir.Region(region.buffer, tuple(starts), region.extents)

    cond = same_or_apart(loosened(a, "i"), loosened(b, "j"))
    # a view of other dimensions may have too many possible starts to say
    assert cond is not None or second is not first
    if cond is not None:
        assert value(cond, at) == is_fine(a, b)


def strided(name: str) -> ir.Buffer:
    sizes = tuple(ir.Var(f"{name}.shape.{d}", int64, bounds=(0, 2**40)) for d in range(2))
    return ir.Buffer(name, "global", float32, sizes, ir.Strided((ir.Var(f"{name}.stride.0", int64), 1), 16), 16)


def test_tensors_of_strides_known_at_launch_are_disjoint_if_their_boxes_are() -> None:
    tensor = strided("A")
    assert isinstance(tensor.layout, ir.Strided)
    layout = ir.Strided(tensor.layout.strides[::-1], 16)
    turned = ir.Buffer("A.T", "global", float32, tensor.shape[::-1], layout, 16, tensor)
    i = ir.Var("i", int64)

    def region(of: ir.Buffer, *starts: int | ir.Expr) -> ir.Region:
        return ir.Region(of, tuple(ir.Const(s, int64) if isinstance(s, int) else s for s in starts), (4, 4))

    assert same_or_apart(region(tensor, 0, 0), region(tensor, 4, 0)) == TRUE
    assert same_or_apart(region(tensor, 0, 0), region(tensor, 3, 0)) == FALSE
    assert same_or_apart(region(tensor, i, 0), region(tensor, i, 0)) == TRUE
    assert same_or_apart(region(tensor, 0, 0), region(turned, 0, 0)) == FALSE
    assert same_or_apart(region(tensor, 0, 8), region(turned, 0, 0)) == TRUE
    assert same_or_apart(region(tensor, 0, 0), region(strided("B"), 0, 0)) == TRUE
    assert same_or_apart(region(tensor, i, 0), region(tensor, 0, 0)) not in (TRUE, FALSE, None)


def test_dimensions_of_one_do_not_count() -> None:
    s = buffer("s", float32, TileLayout.row_major((4, 8)), (4, 8), None)
    zero = ir.Const(0, int32)
    assert same_or_apart(ir.Region(s, (zero, zero), (None, 8)), ir.Region(s, (zero, zero), (1, 8))) == TRUE


def test_a_padded_layout_is_followed() -> None:
    padded = TileLayout((Iter(4, 9, m), Iter(8, 1, m)))
    s = buffer("s", float32, padded, (4, 8), None)
    flat = buffer("v", float32, TileLayout.row_major((36,)), (36,), s)
    column = ir.Region(s, (ir.Const(0, int32), ir.Const(0, int32)), (4, 8))
    for k in (8, 17, 26, 35):
        assert same_or_apart(column, ir.Region(flat, (ir.Const(k, int32),), (1,))) == TRUE
        assert same_or_apart(column, ir.Region(flat, (ir.Const(k - 1, int32),), (1,))) == FALSE
