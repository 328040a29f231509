"""Regions past every edge of tensors whose extents are constants: what lies inside moves, the rest is 0 or stays."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.lower import test_elementwise_memory as elementwise
from tests.lower.test_emitted_copies import COUNT, loosened, outcome, tiles
from tilejit import laneid
from tilejit.dtypes import DTYPES, DType, float32, int64
from tilejit.errors import DispatchError
from tilejit.ir.nodes import Const, Region, TileOp, Var
from tilejit.layout import S, TileLayout
from tilejit.lower.ask import OperandSpec, operand

TYPES = st.sampled_from([DTYPES[n] for n in ("float32", "float16", "uint8")])
SCOPES = st.sampled_from([("thread", 1), ("warp", 32), ("cta", 48)])
#: rows of few elements, of whole vectors, and of vectors and a part
EXTENTS = st.sampled_from([(8,), (32,), (64,), (21,), (4, 32), (3, 16), (8, 24), (5, 1), (1, 32), (2, 3, 16)])


@st.composite
def windows(draw: st.DrawFn, extents: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """A tensor's shape, and a region of it that begins or ends anywhere: before, inside, at or past the edges."""
    shape, region = [], []
    for extent in extents:
        step = draw(st.sampled_from([1, 2, 4, 8, 16, 32]))
        size = max(1, draw(st.integers(0, 3)) * step + draw(st.sampled_from([0, 0, 1, -1, 5])) + extent // 2)
        start = step * draw(st.integers(-extent // step - 1, size // step + 1))
        shape.append(size)
        region.append((start, extent))
    return tuple(shape), tuple(region)


@st.composite
def tensors(draw: st.DrawFn, extents: tuple[int, ...], dtype: DType, *, written: bool = False) -> OperandSpec:
    """A region of a tensor with strides known at launch or before, in any order, 0 among them where it's read.

    What a kernel makes of a pinned parameter is a layout, with one iterator a dimension.
    """
    shape, region = draw(windows(extents))
    align = max(draw(st.sampled_from([16, 8, 4])), dtype.bytes)
    if draw(st.booleans()):
        return operand("global", shape, dtype, region=region, strides="runtime", align=align)
    strides, size = [0] * len(shape), 1
    for d in draw(st.permutations(range(len(shape)))):
        strides[d] = size
        size = -(-size * shape[d] // 16) * 16 if draw(st.booleans()) else size * shape[d]
    if not written:
        strides = [0 if draw(st.sampled_from([False, False, False, True])) else s for s in strides]
    if draw(st.booleans()):
        layout = TileLayout.from_iters([(n, s, "m") for n, s in zip(shape, strides, strict=True)])
        return operand("global", shape, dtype, layout, region=region, align=16)
    return operand("global", shape, dtype, region=region, strides=strides, align=16)


@st.composite
def blocked(draw: st.DrawFn, dtype: DType) -> tuple[OperandSpec, OperandSpec]:
    """Shared memory and a 1-D global tensor whose digits are permuted in the same way."""
    inner, outer = draw(st.sampled_from([2, 4, 8, 16])), draw(st.integers(2, 9))
    count = draw(st.sampled_from([1, 2, 4, 8]))
    start = inner * draw(st.integers(-count - 1, outer + 1))
    pitch = -(-outer // 8) * 8 if draw(st.booleans()) else outer
    source = S[(outer, inner) : (1, pitch)] if draw(st.booleans()) else S[(outer, inner) : (inner, 1)]
    layout = S[(count, inner) : (1, count)] if draw(st.booleans()) else S[(count, inner) : (inner, 1)]
    extent = count * inner
    return (
        operand("shared", (extent,), dtype, layout),
        operand("global", (outer * inner,), dtype, source, region=((start, extent),), align=16),
    )


def check(data: st.DataObject, op: TileOp, threads: int) -> None:
    """Carries out a copy, its starts constants or known only at run time; every variant that can."""
    dst, src = (o for o in op.operands[:2] if isinstance(o, Region))
    asked = op
    if data.draw(st.booleans()):
        asked = replace(op, operands=tuple(loosened(data, r) if r.buffer.space != "local" else r for r in (dst, src)))
    for forced in ((), (("variant", "fallback"),)) if op.name == "copy" else ((),):
        try:
            outcome(op, threads, replace(asked, attrs=forced))
        except DispatchError as refused:
            assert op.name == "copy_async" or "split" in str(refused), refused  # noqa: PT017


@given(st.data())
def test_a_copy_between_a_tensor_and_shared_memory(data: st.DataObject) -> None:
    dtype, extents = data.draw(TYPES), data.draw(EXTENTS)
    scope, threads = data.draw(SCOPES)
    name = data.draw(st.sampled_from(["load", "load", "store", "async", "between"]))
    padded = tuple(-(-n // 16) * 16 for n in extents)
    shared = operand("shared", padded, dtype, region=[(0, n) for n in extents])
    if name == "store":
        pair = data.draw(tensors(extents, dtype, written=True)), shared
    elif name == "between":
        pair = data.draw(tensors(extents, dtype, written=True)), data.draw(tensors(extents, dtype))
    else:
        pair = shared, data.draw(tensors(extents, dtype))
    op = TileOp("copy_async" if name == "async" else "copy", scope, (pair[0].named("dst"), pair[1].named("src")))
    check(data, op, threads)


@given(st.data())
def test_a_copy_of_a_tensor_whose_digits_lie_in_another_order(data: st.DataObject) -> None:
    shared, tensor = data.draw(blocked(data.draw(TYPES)))
    scope, threads = data.draw(SCOPES)
    name = data.draw(st.sampled_from(["copy", "copy_async"]))
    pair = (tensor, shared) if name == "copy" and data.draw(st.booleans()) else (shared, tensor)
    check(data, TileOp(name, scope, (pair[0].named("dst"), pair[1].named("src"))), threads)


@given(st.data())
def test_a_copy_between_a_tensor_and_registers(data: st.DataObject) -> None:
    dtype = data.draw(TYPES)
    scopes = [("warp", 32, "laneid"), ("cta", 64, "tx"), ("warp", 64, "laneid")]
    scope, threads, axis = data.draw(st.sampled_from(scopes))
    shape, layout = data.draw(tiles(COUNT.get(scope, threads), axis))
    loads = data.draw(st.booleans())
    tile, tensor = operand("local", shape, dtype, layout), data.draw(tensors(shape, dtype, written=not loads))
    pair = (tile, tensor) if loads else (tensor, tile)
    check(data, TileOp("copy", scope, (pair[0].named("dst"), pair[1].named("src"))), threads)


def test_a_copy_of_what_lies_outside_by_any_start_reads_nothing() -> None:
    """Column 1 of a tensor of one column: of vectors of two rows none lies inside its 33 elements."""
    tile = operand("local", (64, 2), float32, TileLayout(S[(32, 2, 2) : (1 @ laneid, 1, 2)]))
    columns = TileLayout.from_iters([(33, 1, "m"), (1, 48, "m")])
    tensor = operand("global", (33, 1), float32, columns, region=((0, 64), (1, 2)), align=16)
    outcome(TileOp("copy", "warp", (tile.named("dst"), tensor.named("src"))), 32)


@given(st.data())
def test_an_elementwise_operation_on_tensors(data: st.DataObject) -> None:
    extents = data.draw(EXTENTS)
    scope, threads = data.draw(SCOPES)

    def tile(name: str, *, written: bool = False) -> Region:
        shape = extents
        if not written:
            shape = tuple(1 if data.draw(st.sampled_from([False, False, False, True])) else n for n in extents)
            shape = shape[data.draw(st.integers(0, len(shape) - 1)) :]
        if data.draw(st.sampled_from([False, False, True])):
            return operand("shared", shape, float32).named(name)
        return data.draw(tensors(shape, float32, written=written)).named(name)

    inputs = data.draw(st.sampled_from([("fill", 0), ("cast", 1), ("add", 2)]))
    operands = [tile(n) for n in ("a", "b")[: inputs[1]]] or [Const(1.5, float32)]
    elementwise.outcome(TileOp(inputs[0], scope, (tile("dst", written=True), *operands)), threads)


def test_a_vector_whose_elements_are_several_indices_apart_is_cut() -> None:
    # elements 48 and 56 lie together, and the tensor ends between them
    dst = operand("shared", (16,), float32, S[(2, 8) : (1, 2)]).named("dst")
    src = operand("global", (56,), float32, S[(7, 8) : (1, 8)], region=((48, 16),)).named("src")
    moving = replace(src, starts=(Var("start", int64, multiple_of=16),))
    for name in ("copy", "copy_async"):
        asked = TileOp(name, "warp", (dst, moving))
        assert outcome(TileOp(name, "warp", (dst, src)), 32, asked).plan.vector_width == 2


def test_one_element_that_serves_a_vector_is_cut_where_the_tensor_ends() -> None:
    dst = operand("shared", (8, 32), float32).named("dst")
    for columns, width in ((3, 1), (8, 4)):
        src = operand("global", (9, columns), float32, strides=(1, 0), region=((0, 8), (0, 32))).named("src")
        assert elementwise.outcome(TileOp("cast", "warp", (dst, src)), 32).plan.vector_width == width
