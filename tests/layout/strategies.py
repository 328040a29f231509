"""Hypothesis strategies for layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import assume
from hypothesis import strategies as st

from tilejit.layout import Axis, Iter, Swizzle, TileLayout, m

#: Sets of axes that may meet in one layout.
AXIS_FAMILIES: tuple[tuple[str, ...], ...] = (
    ("m",),
    ("m", "laneid"),
    ("m", "laneid", "warpid"),
    ("m", "laneid", "wid_in_wg"),
    ("m", "laneid", "wid_in_wg", "wgid"),
    ("m", "tid_in_wg", "wgid"),
    ("m", "wid_in_wg", "wgid"),
    ("m", "tx"),
    ("TLane", "TCol"),
)

_EXTENTS = st.sampled_from((1, 2, 2, 3, 4, 4, 5, 6, 8))


@st.composite
def swizzles(draw: st.DrawFn) -> Swizzle:
    """Any swizzle of at most a few thousand elements a period."""
    bits = draw(st.integers(0, 3))
    return Swizzle(bits, draw(st.integers(0, 4)), draw(st.integers(bits, bits + 2)), draw(st.booleans()))


@st.composite
def iters(
    draw: st.DrawFn, axes: Sequence[str], *, least: int = 1, most: int = 5, max_size: int = 256, stride: int = 40
) -> tuple[Iter, ...]:
    """Iterators with any strides, negative ones and 0 among them."""
    run: list[Iter] = []
    room = max_size
    for _ in range(draw(st.integers(least, most))):
        extent = min(draw(_EXTENTS), room)
        room //= extent
        run.append(Iter(extent, draw(st.integers(-stride // 4, stride)), Axis(draw(st.sampled_from(axes)))))
    return tuple(run)


@st.composite
def layouts(
    draw: st.DrawFn, *, swizzled: bool = True, replicated: bool = True, max_size: int = 256
) -> TileLayout:
    """Any layout whose thread axes nest: several axes, replicas, offsets, a swizzle."""
    axes = draw(st.sampled_from(AXIS_FAMILIES))
    shard = draw(iters(axes, max_size=max_size))
    replica = draw(iters(axes, least=0, most=2, max_size=8)) if replicated else ()
    offset = draw(st.dictionaries(st.sampled_from(axes), st.integers(-5, 70), max_size=len(axes)))
    swizzle = draw(st.none() | swizzles()) if swizzled and "m" in axes else None
    layout = TileLayout(shard, replica, tuple((Axis(a), v) for a, v in offset.items()), swizzle)
    used = {a.name for a in layout.axes()}
    # laneid and wgid alone leave a gap.
    assume("wid_in_wg" in used or not {"laneid", "wgid"} <= used)
    return layout


@st.composite
def dense_layouts(draw: st.DrawFn, *, thread_bits: int = 5, most_register_bits: int = 3) -> TileLayout:
    """One element for each lane and register of a warp, in any order of power-of-two digits."""
    register_bits = draw(st.integers(0, most_register_bits))
    places = [(1 << k, "laneid") for k in range(thread_bits)] + [(1 << k, "m") for k in range(register_bits)]
    return TileLayout.from_iters([(2, stride, axis) for stride, axis in draw(st.permutations(places))])


@st.composite
def memory_layouts(draw: st.DrawFn, *, rank: int = 2, max_extent: int = 16) -> tuple[TileLayout, tuple[int, ...]]:
    """A dense memory layout whose dimensions are cut into digits that lie in any order, and its shape."""
    digits: list[int] = []
    shape: list[int] = []
    for _ in range(rank):
        own = draw(st.lists(st.sampled_from((1, 2, 2, 3, 4, 8)), min_size=1, max_size=3))
        while math.prod(own) > max_extent:
            own.pop()
        digits += own or [1]
        shape.append(math.prod(own))
    order = draw(st.permutations(range(len(digits))))
    strides, step = [0] * len(digits), 1
    for k in order:
        strides[k], step = step, step * digits[k]
    run = tuple(Iter(extent, stride, m) for extent, stride in zip(digits, strides, strict=True))
    return TileLayout(run), tuple(shape)


@st.composite
def shapes_of(draw: st.DrawFn, layout: TileLayout) -> tuple[int, ...]:
    """A shape that `layout` groups to: its extents split, and neighbours joined."""
    factors: list[int] = []
    for extent in layout.shape:
        by = draw(st.sampled_from([d for d in range(1, extent + 1) if extent % d == 0]))
        factors += [extent // by, by]
    shape = [1]
    for n in factors:
        if draw(st.booleans()):
            shape.append(n)
        else:
            shape[-1] *= n
    return tuple(shape)


@st.composite
def regions_of(draw: st.DrawFn, shape: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """A window inside `shape`: (start, extent) a dimension."""
    region = []
    for full in shape:
        extent = draw(st.integers(1, full))
        region.append((draw(st.integers(0, full - extent)), extent))
    return tuple(region)
