"""Hypothesis strategies for layouts, shapes and regions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import assume
from hypothesis import strategies as st

from ..layout import Axis, Iter, Swizzle, TileLayout, m
from ..scopes import SCOPES

#: sets of axes that can be combined in a layout
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
    """Draw a swizzle with a period of at most 4096 elements."""
    bits = draw(st.integers(0, 3))
    return Swizzle(bits, draw(st.integers(0, 4)), draw(st.integers(bits, bits + 2)), draw(st.booleans()))


@st.composite
def iters(
    draw: st.DrawFn, axes: Sequence[str], *, least: int = 1, most: int = 5, max_size: int = 256, stride: int = 40
) -> tuple[Iter, ...]:
    """Draw `least` to `most` iterators over at most `max_size` elements; strides are from -`stride` / 4 to `stride`."""
    run: list[Iter] = []
    room = max_size
    for _ in range(draw(st.integers(least, most))):
        extent = min(draw(_EXTENTS), room)
        room //= extent
        run.append(Iter(extent, draw(st.integers(-stride // 4, stride)), Axis(draw(st.sampled_from(axes)))))
    return tuple(run)


@st.composite
def layouts(draw: st.DrawFn, *, swizzled: bool = True, replicated: bool = True, max_size: int = 256) -> TileLayout:
    """Draw a layout over axes of one of `AXIS_FAMILIES`, possibly with offsets, replicas and a swizzle."""
    axes = draw(st.sampled_from(AXIS_FAMILIES))
    shard = draw(iters(axes, max_size=max_size))
    replica = draw(iters(axes, least=0, most=2, max_size=8)) if replicated else ()
    offset = draw(st.dictionaries(st.sampled_from(axes), st.integers(-5, 70), max_size=len(axes)))
    swizzle = draw(st.none() | swizzles()) if swizzled and "m" in axes else None
    layout = TileLayout(shard, replica, tuple((Axis(a), v) for a, v in offset.items()), swizzle)
    used = {a.name for a in layout.axes()}
    # Without wid_in_wg, laneid and wgid number only the threads of each warpgroup's first warp.
    assume("wid_in_wg" in used or not {"laneid", "wgid"} <= used)
    return layout


@st.composite
def dense_layouts(draw: st.DrawFn, *, thread_bits: int = 5, most_register_bits: int = 3) -> TileLayout:
    """Draw a layout with one element per lane and register, from iterators of extent 2 in any order."""
    register_bits = draw(st.integers(0, most_register_bits))
    places = [(1 << k, "laneid") for k in range(thread_bits)] + [(1 << k, "m") for k in range(register_bits)]
    return TileLayout.from_iters([(2, stride, axis) for stride, axis in draw(st.permutations(places))])


@st.composite
def memory_layouts(
    draw: st.DrawFn, *, rank: int = 2, max_extent: int = 16
) -> tuple[TileLayout, tuple[int, ...]]:
    """Draw a dense memory layout, in which factors of all dimensions are nested in any order, and its shape."""
    digits: list[int] = []
    shape: list[int] = []
    for _ in range(rank):
        dim_digits = draw(st.lists(st.sampled_from((1, 2, 2, 3, 4, 8)), min_size=1, max_size=3))
        while math.prod(dim_digits) > max_extent:
            dim_digits.pop()
        digits += dim_digits or [1]
        shape.append(math.prod(dim_digits))
    order = draw(st.permutations(range(len(digits))))
    strides, step = [0] * len(digits), 1
    for k in order:
        strides[k], step = step, step * digits[k]
    run = tuple(Iter(extent, stride, m) for extent, stride in zip(digits, strides, strict=True))
    return TileLayout(run), tuple(shape)


#: scope -> alternative lists of (axis, extent) that number its threads, fastest first; None: the remaining extent
_CHAINS: dict[str, tuple[tuple[tuple[str, int | None], ...], ...]] = {
    "thread": ((),),
    "warp": ((("laneid", 32),),),
    "warpgroup": ((("tid_in_wg", 128),), (("laneid", 32), ("wid_in_wg", 4))),
    "cta": (
        (("tx", None),),
        (("laneid", 32), ("warpid", None)),
        (("tid_in_wg", 128), ("wgid", None)),
        (("laneid", 32), ("wid_in_wg", 4), ("wgid", None)),
    ),
}


@st.composite
def register_layouts(
    draw: st.DrawFn,
    scope: str,
    *,
    threads: int = 128,
    max_registers: int = 16,
    rank: int = 2,
    replicas: bool = True,
    gaps: bool = True,
) -> tuple[TileLayout, tuple[int, ...]]:
    """Draw the layout of a local tile that is distributed evenly over all threads of a scope, and its shape.

    threads: threads per CTA, for scope "cta".
    replicas: several threads may hold the same elements.
    gaps: a thread's registers may have gaps between them.
    """
    among: list[tuple[int, int, str]] = []
    for axis, extent in draw(st.sampled_from(_chains(scope, threads))):
        among += [(e, s, axis) for e, s in _steps(draw(_factors(extent)), 1)]
    count = draw(st.sampled_from([n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) if n <= max_registers]))
    # If the smallest register stride exceeds 1, no two registers are adjacent.
    spread = draw(st.sampled_from((1, 1, 1, 2, 3))) if gaps else 1
    registers = _steps(draw(st.permutations(draw(_factors(count)))), spread, draw(st.booleans()) if gaps else False)
    shared = set(draw(st.lists(st.integers(0, len(among) - 1), max_size=2))) if replicas and among else set()
    replica = [among[k] for k in sorted(shared)]
    shard = [place for k, place in enumerate(among) if k not in shared] + [(e, s, "m") for e, s in registers]
    shard = draw(st.permutations(shard)) or [(1, 1, "m")]
    layout = TileLayout.from_iters(shard, replica)
    return layout, _joined(draw, [e for e, _, _ in shard], rank)


def _chains(scope: str, threads: int) -> list[list[tuple[str, int]]]:
    total = SCOPES[scope].threads(threads)
    chains = []
    for chain in _CHAINS[scope]:
        fixed = math.prod(n for _, n in chain if n is not None)
        if total % fixed == 0:
            chains.append([(axis, total // fixed if n is None else n) for axis, n in chain])
    return chains


@st.composite
def _factors(draw: st.DrawFn, number: int) -> list[int]:
    factors = []
    while number > 1:
        divisors = [d for d in range(2, number + 1) if number % d == 0]
        factors.append(draw(st.sampled_from(divisors)))
        number //= factors[-1]
    return factors


def _steps(extents: Sequence[int], first: int, widened: bool = False) -> list[tuple[int, int]]:
    """Return nested (extent, stride) pairs, fastest first. first: the least stride. widened: leave gaps."""
    digits, step = [], first
    for extent in extents:
        digits.append((extent, step))
        step *= extent
        step += first if widened else 0
    return digits


def _joined(draw: st.DrawFn, extents: Sequence[int], rank: int) -> tuple[int, ...]:
    """Draw a shape of `rank` dimensions, each the product of zero or more consecutive `extents`."""
    cuts = sorted(draw(st.lists(st.integers(0, len(extents)), min_size=rank - 1, max_size=rank - 1)))
    ends = [0, *cuts, len(extents)]
    return tuple(math.prod(extents[a:b]) for a, b in zip(ends, ends[1:], strict=False))


@st.composite
def shapes_of(draw: st.DrawFn, layout: TileLayout) -> tuple[int, ...]:
    """Draw a shape to which `layout` can be grouped: split each extent in two, and merge adjacent factors."""
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
    """Draw a region inside `shape`: (start, extent) per dimension."""
    region = []
    for full in shape:
        extent = draw(st.integers(1, full))
        region.append((draw(st.integers(0, full - extent)), extent))
    return tuple(region)
