"""Copies as lane IR, carried out thread by thread: random shapes, layouts, swizzles, windows, scopes and types."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.threads import Threads
from tests.support.proving import prove_verdict
from tilejit.dtypes import DTYPES, DType, int32
from tilejit.ir.nodes import (
    Alloc,
    Const,
    Expr,
    Instruction,
    Kernel,
    Region,
    Strided,
    TileOp,
    Var,
)
from tilejit.ir.params import (
    Param,
    PointerParam,
    ScalarParam,
    StrideParam,
)
from tilejit.ir.verify import verify
from tilejit.layout import Swizzle, TileLayout
from tilejit.lower import lower
from tilejit.lower.ask import OperandSpec, operand
from tilejit.lower.engine import Verdict
from tilejit.lower.plans import launch_values
from tilejit.lower.proof import addresses, owners_of
from tilejit.target import target

FINISH = (Instruction("cp.async.commit"), Instruction("cp.async.wait", (), (Const(0, int32),)))
COUNT = {"thread": 1, "warp": 32, "warpgroup": 128}
TYPES = [DTYPES[n] for n in ("float32", "float16", "uint8", "float64", "bool_")]


def outcome(op: TileOp, threads: int, asked: TileOp | None = None) -> Verdict:
    """Lowers and carries out one copy, and compares all of memory and all registers with what it means.

    asked: the same copy with starts that are known only at run time, to be lowered in its place.
    """
    dst, src = (o for o in op.operands[:2] if isinstance(o, Region))
    allocs = tuple(Alloc(r.buffer) for r in (dst, src) if r.buffer.space != "global")
    starts = {} if asked is None else starts_of(op, asked)
    params = (*parameters(dst, src), *(ScalarParam(v.name, v) for v in starts))
    finish = FINISH if op.name == "copy_async" else ()
    made = lower(Kernel("case", params, threads, "sm_90a", (*allocs, asked or op, *finish)), target("sm_90a"))
    assert verify(made.kernel, "lane") == []
    (verdict,) = made.verdicts
    prove_verdict(verdict, asked or op)
    scalars = launch_values((dst, src)) | {v.name: value for v, value in starts.items()}
    machine = _Loaded(made.kernel, (dst, src), scalars)
    expected = {name: values.copy() for name, values in machine.before.items()}
    _copy(expected, dst, src, op.scope, threads)
    for name, values in expected.items():
        found = machine.after[name]
        assert np.array_equal(found.view(np.uint8), values.view(np.uint8)), f"{name} differs"
    return verdict


def starts_of(op: TileOp, asked: TileOp) -> dict[Var, int]:
    """The value of each start that `asked` leaves open, from the constants of `op`."""
    found: dict[Var, int] = {}
    for fixed, loose in zip(op.operands, asked.operands, strict=True):
        assert isinstance(fixed, Region) and isinstance(loose, Region)
        for value, start in zip(fixed.starts, loose.starts, strict=True):
            if isinstance(start, Var):
                assert isinstance(value, Const)
                found[start] = int(value.value)
    return found


def parameters(*regions: Region) -> tuple[Param, ...]:
    """Pointers to the global buffers, and the strides known only at launch."""
    found: list[Param] = []
    for b in (r.buffer for r in regions if r.buffer.space == "global"):
        found.append(PointerParam(b.name, b, written=True))
        strides = b.layout.strides if isinstance(b.layout, Strided) else ()
        found += [StrideParam(b.name, v, d) for d, v in enumerate(strides) if isinstance(v, Var)]
    return tuple(found)


class _Loaded:
    """Storage of both sides filled with numbers of their own before the kernel, and after it."""

    def __init__(self, kernel: Kernel, regions: tuple[Region, Region], strides: dict[str, int]) -> None:
        random = np.random.default_rng(1)
        self.before: dict[str, np.ndarray] = {}
        for r in regions:
            shape: tuple[int, ...] = (span(r),) if r.buffer.space != "local" else (kernel.threads, span(r))
            self.before[r.buffer.name] = _bits(random, r.buffer.dtype, shape)
        memory = {r.buffer.name: self.before[r.buffer.name].copy() for r in regions if r.buffer.space != "local"}
        own = {r.buffer.name: self.before[r.buffer.name].copy() for r in regions if r.buffer.space == "local"}
        machine = Threads(kernel, memory, strides, own)
        self.after = {**machine.memory, **machine.registers}


def _bits(random: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    if dtype.kind == "bool":
        return random.integers(0, 2, shape).astype(np.bool_)
    return random.integers(0, 100, shape).astype(dtype.numpy)


def span(region: Region) -> int:
    layout = region.buffer.layout
    if isinstance(layout, TileLayout):
        return layout.storage().footprint()
    known = launch_values((region,))
    strides = [s if isinstance(s, int) else known[s.name] for s in layout.strides]
    reach = [n if isinstance(n, int) else 64 for n in region.buffer.shape]
    return 1 + sum((n - 1) * s for n, s in zip(reach, strides, strict=True))


def _copy(store: dict[str, np.ndarray], dst: Region, src: Region, scope: str, threads: int) -> None:
    step = COUNT.get(scope, threads)
    inside_src, inside_dst = inside(src), inside(dst)
    for first in range(0, threads, step):
        values = np.where(inside_src, _read(store[src.buffer.name], src, scope, first, inside_src), 0)
        _write(store[dst.buffer.name], dst, scope, first, values, inside_dst)


def inside(region: Region) -> np.ndarray:
    """Which elements of the region lie inside its buffer, flat."""
    spans = [
        (np.arange(e or 1) + int(s.value) >= 0) & (np.arange(e or 1) + int(s.value) < n)
        for s, e, n in zip(region.starts, region.extents, region.buffer.shape, strict=True)
        if isinstance(s, Const) and isinstance(n, int)
    ]
    return np.asarray(reduce(np.logical_and, np.meshgrid(*spans, indexing="ij"))).ravel()


def _read(array: np.ndarray, region: Region, scope: str, first: int, inside: np.ndarray) -> np.ndarray:
    if region.buffer.space != "local":
        return array[np.where(inside, addresses(region), 0)]
    owners, registers = owners_of(region, scope)
    lowest = owners.argmin(axis=0)[None]
    at = np.take_along_axis(owners, lowest, 0)[0], np.take_along_axis(registers, lowest, 0)[0]
    return array[first + at[0], at[1]]


def _write(
    array: np.ndarray, region: Region, scope: str, first: int, values: np.ndarray, inside: np.ndarray
) -> None:
    if region.buffer.space != "local":
        array[addresses(region)[inside]] = values[inside]
        return
    owners, registers = owners_of(region, scope)
    for owner, register in zip(owners, registers, strict=True):
        array[first + owner, register] = values


@st.composite
def memory_layouts(draw: st.DrawFn, shape: tuple[int, ...], dtype: DType, swizzles: bool) -> TileLayout:
    """Strides in any order of the dimensions, dimensions split in two, rows padded, a swizzle now and then."""
    pieces: list[tuple[int, int]] = []
    for dim, extent in enumerate(shape):
        inner = draw(st.sampled_from([d for d in (1, 2, 4, 8, 16) if extent % d == 0]))
        pieces += [(dim, extent // inner), (dim, inner)]
    order = draw(st.permutations(range(len(pieces)))) if draw(st.booleans()) else list(range(len(pieces)))
    strides, size = {}, 1
    for k in reversed(order):
        strides[k] = size
        size *= pieces[k][1]
        size += draw(st.sampled_from([0, 0, 0, 1, 4, 8]))
    shard = [(e, strides[k], "m") for k, (_, e) in enumerate(pieces)]
    swizzle = None
    if swizzles and draw(st.booleans()):
        base, bits = draw(st.integers(0, 4)), draw(st.integers(1, 3))
        swizzle = Swizzle(bits, base, draw(st.integers(bits, 4)), inner=draw(st.booleans()))
    return TileLayout.from_iters(shard, (), {"m": draw(st.sampled_from([0, 0, 4, 3]))}, swizzle)


@st.composite
def windows(draw: st.DrawFn, extents: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """A shape, and the region with `extents` somewhere in it."""
    starts = tuple(draw(st.sampled_from([0, 0, e, 2 * e, 1])) for e in extents)
    rests = tuple(draw(st.sampled_from([0, 0, e, 3])) for e in extents)
    shape = tuple(s + e + r for s, e, r in zip(starts, extents, rests, strict=True))
    return shape, tuple(zip(starts, extents, strict=True))


@st.composite
def memory(draw: st.DrawFn, space: str, extents: tuple[int, ...], dtype: DType) -> OperandSpec:
    shape, region = draw(windows(extents))
    if space == "global" and draw(st.booleans()):
        align = draw(st.sampled_from([16, 8, dtype.bytes]))
        if draw(st.booleans()):
            # the tensor ends inside the region, on either side
            shape = tuple(max(1, n - draw(st.sampled_from([0, 1, e]))) for n, e in zip(shape, extents, strict=True))
            region = tuple((s - draw(st.sampled_from([0, 0, 1])), e) for s, e in region)
        return operand(space, shape, dtype, region=region, strides="runtime", align=max(align, dtype.bytes))
    layout = draw(memory_layouts(shape, dtype, space == "shared"))
    return operand(space, shape, dtype, layout, region=region)


EXTENTS = st.lists(st.sampled_from([1, 2, 3, 4, 5, 7, 8, 16, 24]), min_size=1, max_size=3).map(tuple)


@given(st.data())
def test_a_copy_from_memory_to_memory_moves_each_element_once_and_nothing_else(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(TYPES))
    extents = data.draw(EXTENTS.filter(lambda e: prod(e) <= 1024))
    scope, threads = data.draw(st.sampled_from([("thread", 1), ("warp", 32), ("cta", 32), ("cta", 48), ("cta", 96)]))
    spaces = data.draw(st.sampled_from([("shared", "global"), ("global", "shared"), ("global", "global")]))
    sides = [data.draw(memory(s, extents, dtype)) for s in spaces]
    op = TileOp("copy", scope, (sides[0].named("dst"), sides[1].named("src")))
    verdict = outcome(op, threads)
    assert verdict.variant == ("fallback" if spaces == ("global", "global") else verdict.variant)


@st.composite
def tiles(draw: st.DrawFn, threads: int, axis: str) -> tuple[tuple[int, ...], TileLayout]:
    """A shape, and a layout over it that spreads it over all threads; two dimensions."""
    across = draw(st.sampled_from([(threads,), (threads // 4, 4), (4, threads // 4)]))
    strides = (1,) if len(across) == 1 else draw(st.sampled_from([(across[1], 1), (1, across[0])]))
    lanes = [(e, s, axis) for e, s in zip(across, strides, strict=True)]
    counts = [draw(st.sampled_from([1, 2, 3, 4, 8])) for _ in range(2)]
    inner = draw(st.sampled_from([1, 2]))
    gap = draw(st.sampled_from([0, 0, 1, 4]))
    own = [(counts[0], counts[1] + gap, "m"), (counts[1], 1, "m")]
    if inner == 2:
        own = [(counts[0], 1, "m"), (counts[1], counts[0] + gap, "m")]
    if len(lanes) == 1:
        return (threads * counts[0], counts[1]), TileLayout.from_iters([lanes[0], *own])
    return (across[0] * counts[0], across[1] * counts[1]), TileLayout.from_iters([lanes[0], own[0], lanes[1], own[1]])


@given(st.data())
def test_a_copy_between_memory_and_registers_moves_each_element_once_and_nothing_else(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(TYPES))
    scopes = [("warp", 32, "laneid"), ("cta", 64, "tx"), ("warp", 64, "laneid")]
    scope, threads, axis = data.draw(st.sampled_from(scopes))
    shape, layout = data.draw(tiles(COUNT.get(scope, threads), axis))
    tile = operand("local", shape, dtype, layout)
    place = data.draw(memory(data.draw(st.sampled_from(["shared", "global"])), shape, dtype))
    loads = data.draw(st.booleans())
    pair = (tile, place) if loads else (place, tile)
    op = TileOp("copy", scope, (pair[0].named("dst"), pair[1].named("src")))
    outcome(op, threads)
    forced = replace(op, attrs=(("variant", "fallback"),))
    outcome(forced, threads)


def loosened(data: st.DataObject, region: Region) -> Region:
    """The region with starts known only at run time, of each of which some divisor is known."""
    starts: list[Expr] = []
    for d, start in enumerate(region.starts):
        assert isinstance(start, Const)
        value = int(start.value)
        known = data.draw(st.sampled_from([k for k in (1, 2, 3, 4, 8, 16) if value % k == 0]))
        bounds = (0, 128) if 0 <= value <= 128 and data.draw(st.booleans()) else None
        starts.append(Var(f"{region.buffer.name}.start.{d}", start.dtype, known, bounds))
    return replace(region, starts=tuple(starts))


@given(st.data())
def test_starts_known_only_at_run_time_move_the_same_elements(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(TYPES))
    extents = data.draw(EXTENTS.filter(lambda e: prod(e) <= 512))
    scope, threads = data.draw(st.sampled_from([("thread", 1), ("warp", 32), ("cta", 48)]))
    spaces = data.draw(st.sampled_from([("shared", "global"), ("global", "shared"), ("shared", "shared")]))
    dst, src = (data.draw(memory(s, extents, dtype)).named(n) for s, n in zip(spaces, ("dst", "src"), strict=True))
    asked = TileOp("copy", scope, (loosened(data, dst), loosened(data, src)))
    outcome(TileOp("copy", scope, (dst, src)), threads, asked)


@given(st.data())
def test_a_threads_own_tile_may_start_at_a_register_known_only_at_run_time(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(TYPES))
    extents = data.draw(EXTENTS.filter(lambda e: prod(e) <= 32))
    shape, region = data.draw(windows(extents))
    tile = operand("local", shape, dtype, region=region)
    place = data.draw(memory(data.draw(st.sampled_from(["shared", "global"])), extents, dtype))
    pair = (tile, place) if data.draw(st.booleans()) else (place, tile)
    dst, src = pair[0].named("dst"), pair[1].named("src")
    asked = TileOp("copy", "thread", (loosened(data, dst), loosened(data, src)))
    outcome(TileOp("copy", "thread", (dst, src)), 1, asked)


@pytest.mark.parametrize("loads", [True, False])
def test_a_vectors_registers_that_lie_apart_stay_inside_the_tile(loads: bool) -> None:
    # a column, whose vector of 2 in memory has registers 0 and 2, or 1 and 3: one that began at 2 would lead outside
    tile = operand("local", (2, 2), DTYPES["float32"], region=((0, 2), (1, 1)))
    memory = operand("shared", (2, 1), DTYPES["float32"], region=((0, 2), (0, 1)))
    known = {"local": (1, 1), "shared": (2, 1)}
    pair = (tile.named("dst"), memory.named("src")) if loads else (memory.named("dst"), tile.named("src"))
    asked = []
    for region in pair:
        places = zip(region.starts, known[region.buffer.space], strict=True)
        names = [Var(f"{region.buffer.name}.{d}", start.dtype, divisor) for d, (start, divisor) in enumerate(places)]
        asked.append(replace(region, starts=tuple(names)))
    verdict = outcome(TileOp("copy", "thread", pair), 1, TileOp("copy", "thread", tuple(asked)))
    assert verdict.plan.facts().width == "2 elements"


def test_a_strided_region_of_a_row_major_tile_is_left_alone_outside() -> None:
    dst = operand("shared", (8, 20), DTYPES["float16"], region=((2, 4), (3, 7)))
    src = operand("global", (6, 9), DTYPES["float16"], region=((1, 4), (2, 7)))
    outcome(TileOp("copy", "warp", (dst.named("dst"), src.named("src"))), 32)


def test_run_time_strides_are_strided() -> None:
    made = operand("global", (4, 4), DTYPES["float16"], strides="runtime", align=8).named("a")
    assert isinstance(made.buffer.layout, Strided)
