"""Hypothesis strategies: operands of tile operations as data, and local tiles made from others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from tests.reference.layouts import plain, storage_size
from tests.reference.tiles import SCOPE_THREADS
from tilejit.dtypes import DType
from tilejit.testing import regions_of, register_layouts

Data = dict[str, Any]

#: scope -> CTA sizes to try; a CTA need not be whole warps where no warp works alone
LAUNCHES: dict[str, tuple[int, ...]] = {
    "thread": (1, 3, 32, 48),
    "warp": (32, 64, 96),
    "warpgroup": (128, 256),
    "cta": (1, 32, 48, 96, 100, 128, 160, 256),
}

#: scope -> the name of the instance's number in a region's start
INSTANCE = {"thread": "t", "warp": "w", "warpgroup": "g"}


@dataclass(frozen=True)
class Place:
    """Who carries an operation out. apart: every instance works on a region of its own, `instances` in all."""

    scope: str
    threads: int
    apart: bool = False

    @property
    def instances(self) -> int:
        return self.threads // SCOPE_THREADS.get(self.scope, self.threads)


@st.composite
def places(draw: st.DrawFn) -> tuple[str, int]:
    """(scope, threads of the CTA)."""
    scope = draw(st.sampled_from(list(LAUNCHES)))
    return scope, draw(st.sampled_from(LAUNCHES[scope]))


@st.composite
def extents(draw: st.DrawFn, most: int = 1024) -> tuple[int, ...]:
    """The extents of a region of at most `most` elements."""
    found: list[int] = []
    for _ in range(draw(st.integers(1, 3))):
        room = most // math.prod(found)
        found.append(draw(st.sampled_from([n for n in (1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 64, 100) if n <= room])))
    return tuple(found)


@st.composite
def memory(
    draw: st.DrawFn,
    name: str,
    space: str,
    dtype: DType,
    shape: Sequence[int],
    place: Place,
    *,
    written: bool,
    same_rank: bool = False,
) -> tuple[Data, dict[str, int]]:
    """A buffer in memory with a region of this shape, and the values of the run-time names in its starts.

    written: no two elements share a place. same_rank: else dimensions of one element come and go.
    """
    strided = space == "global" and draw(st.booleans())
    region: list[tuple[int | dict[str, str], int | None]] = []
    sizes: list[int] = []
    symbols: dict[str, int] = {}
    wanted = list(shape)
    if not same_rank and draw(st.integers(0, 3)) == 0:
        wanted.insert(draw(st.integers(0, len(wanted))), 1)
    for d, extent in enumerate(wanted):
        moved = place.apart and d == _spread_dim(wanted)
        start, low, size = draw(_window(f"{name}{d}", extent, place if moved else None, edges=strided))
        if isinstance(start, dict) and f"{name}{d}" in start["sym"]:
            symbols[f"{name}{d}"] = low
        dropped = extent == 1 and not same_rank and draw(st.booleans())
        region.append((start, None if dropped else extent))
        sizes.append(size)
    data: Data = {"scope": space, "dtype": dtype.name, "shape": sizes, "region": region}
    # the oracle goes element by element, and shared memory is small
    assume(math.prod(sizes) <= 4096)
    if strided:
        data |= draw(_strided(dtype, sizes, written))
        return data, symbols
    data["layout"] = draw(_tile_layout(sizes, written))
    if space == "global":
        data["align"] = draw(st.sampled_from([n for n in (1, 2, 4, 8, 16) if n >= dtype.bytes] or [16]))
    assume(storage_size(data["layout"]) * dtype.bytes <= 40_000)
    return data, symbols


def _spread_dim(shape: Sequence[int]) -> int:
    """The dimension along which instances are side by side."""
    return max(range(len(shape)), key=lambda d: (shape[d], -d))


@st.composite
def _window(
    draw: st.DrawFn, name: str, extent: int, place: Place | None, *, edges: bool
) -> tuple[int | dict[str, str], int, int]:
    """Where a dimension's region starts, the value of `name` where it is in there, and the dimension's size."""
    grain = draw(st.sampled_from((1, 1, 2, 4, 8)))
    steps = draw(st.integers(-1 if edges else 0, 2))
    kind = draw(st.sampled_from(("static", "static", "run-time", "sum")))
    first = steps * grain
    start: int | dict[str, str] = first
    if kind != "static":
        start = {"sym": f"{grain}*{name}"}
    if kind == "sum":
        extra = draw(st.integers(0, 3))
        first += extra
        start = {"sym": f"{grain}*{name} + {extra}"}
    reach = first + extent
    if place is not None:
        start = {"sym": f"{extent}*{INSTANCE[place.scope]} + {start['sym'] if isinstance(start, dict) else start}"}
        if isinstance(first, int) and kind == "static" and first < 0:
            # a sum of products has no minus
            start = {"sym": f"{extent}*{INSTANCE[place.scope]}"}
            reach = extent
        reach += extent * (place.instances - 1)
    after = draw(st.sampled_from((0, 0, 1, 3, 4, 8)))
    if edges and draw(st.booleans()):
        after = -draw(st.integers(0, extent))
    return start, steps, max(reach + after, 1)


@st.composite
def _strided(draw: st.DrawFn, dtype: DType, sizes: Sequence[int], written: bool) -> Data:
    """Strides known only at launch: any order, padded, negative or 0, each a multiple of what is promised."""
    align = draw(st.sampled_from([n for n in (1, 2, 4, 8, 16) if n >= dtype.bytes]))
    multiple = align // dtype.bytes
    order = draw(st.sampled_from((list(range(len(sizes)))[::-1], *_orders(draw, len(sizes)))))
    unit = order[0] if draw(st.integers(0, 4)) else None
    strides, step = [0] * len(sizes), 1
    for d in order:
        if d != unit and not written and draw(st.integers(0, 7)) == 0:
            continue
        stride = 1 if d == unit else -(-step * draw(st.sampled_from((1, 1, 2))) // multiple) * multiple
        strides[d] = stride * (1 if d == unit else draw(st.sampled_from((1, 1, 1, -1))))
        step = stride * sizes[d]
    reach = [(n - 1) * s for n, s in zip(sizes, strides, strict=True)]
    low = -sum(r for r in reach if r < 0)
    origin = (-(-low // multiple) + draw(st.integers(0, 3))) * multiple
    whole = math.gcd(16, sizes[unit] * dtype.bytes) if unit is not None else 1
    return {
        "strides": strides,
        "unit_dim": unit,
        "align": align,
        "extent_align": draw(st.sampled_from([n for n in (1, 2, 4, 8, 16) if n <= whole])),
        "origin": origin,
        "storage": origin + sum(r for r in reach if r > 0) + 1 + draw(st.integers(0, 5)),
    }


def _orders(draw: st.DrawFn, rank: int) -> list[list[int]]:
    return [list(draw(st.permutations(range(rank))))]


@st.composite
def _tile_layout(draw: st.DrawFn, sizes: Sequence[int], written: bool) -> Data:
    """A layout of memory: dimensions cut into digits in any order, gaps between them, an offset, a swizzle."""
    digits: list[int] = []
    for size in sizes:
        cut = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0])) if draw(st.booleans()) else size
        digits += [size // cut, cut] if cut not in (1, size) else [size]
    order = list(range(len(digits)))[::-1] if draw(st.booleans()) else draw(st.permutations(range(len(digits))))
    strides, step = [0] * len(digits), 1
    for k in order:
        if not written and draw(st.integers(0, 11)) == 0:
            continue
        strides[k] = step
        step = step * digits[k] + draw(st.sampled_from((0, 0, 0, 0, 1, 4, 8)))
    layout: Data = {"shard": [(e, s, "m") for e, s in zip(digits, strides, strict=True)]}
    if draw(st.integers(0, 3)) == 0:
        layout["offset"] = {"m": draw(st.sampled_from((1, 2, 4, 8, 16)))}
    if draw(st.booleans()):
        bits = draw(st.integers(0, 3))
        shift = draw(st.integers(bits, 3))
        layout["swizzle"] = {
            "per_element": draw(st.integers(0, 4)),
            "swizzle_len": bits,
            "atom_len": shift,
            "inner": draw(st.integers(0, 4)) != 0,
        }
    return layout


@st.composite
def registers(
    draw: st.DrawFn, dtype: DType, scope: str, threads: int, *, replicas: bool = True, windowed: bool = False
) -> Data:
    """A local tile that exactly the threads of a scope own. windowed: the region may be a part of it."""
    most = 16 if scope == "thread" else 8
    rank = draw(st.integers(1, 3))
    layout, shape = draw(
        register_layouts(scope, threads=threads, max_registers=most, rank=rank, replicas=replicas)
    )
    region = draw(regions_of(shape)) if windowed else tuple((0, n) for n in shape)
    return {
        "scope": "local", "dtype": dtype.name, "shape": list(shape), "region": list(region), "layout": plain(layout),
    }


def region_shape(data: Data) -> tuple[int, ...]:
    """The region's extents, dimensions of one element left out."""
    return tuple(e for _, e in data["region"] if e not in (1, None))


def is_static(data: Data) -> bool:
    """Whether a plan can be replayed on it: no names in starts, nothing outside."""
    return all(
        isinstance(start, int) and start >= 0 and start + (extent or 1) <= size
        for (start, extent), size in zip(data["region"], data["shape"], strict=True)
    )


@st.composite
def rearranged(draw: st.DrawFn, tile: Data) -> Data:
    """The same tile in the same threads, the registers in another order."""
    shard = tile["layout"]["shard"]
    own = draw(st.permutations([k for k, (_, _, axis) in enumerate(shard) if axis == "m"]))
    return {**tile, "layout": {**tile["layout"], "shard": _packed(shard, own)}}


@st.composite
def broadcast(draw: st.DrawFn, tile: Data) -> Data:
    """A tile that broadcasts to `tile`: some dimensions have one element, the first ones may be missing.

    Threads that held different elements along these hold the same now.
    """
    groups = _groups(tile)
    single = [draw(st.booleans()) for _ in groups]
    replica = list(tile["layout"].get("replica") or [])
    shape, shard = [], []
    for group, extent, is_single in zip(groups, tile["shape"], single, strict=True):
        if is_single:
            replica += [place for place in group if place[2] != "m"]
        else:
            shard += group
        shape.append(1 if is_single else extent)
    while shape and single[0] and draw(st.booleans()):
        shape, single = shape[1:], single[1:]
    shard = _packed(shard, [k for k, (_, _, axis) in enumerate(shard) if axis == "m"]) or [(1, 1, "m")]
    return {
        **tile,
        "shape": shape or [1],
        "region": [(0, n) for n in shape or [1]],
        "layout": {"shard": shard, "replica": replica},
    }


def _groups(tile: Data) -> list[list[tuple[int, int, str]]]:
    """The digits of each dimension of a tile whose dimensions are whole digits."""
    left = list(tile["layout"]["shard"])
    found = []
    for extent in tile["shape"]:
        group, size = [], 1
        while size < extent:
            group.append(left.pop(0))
            size *= group[-1][0]
        found.append(group)
    return found


def _packed(shard: list[tuple[int, int, str]], order: list[int]) -> list[tuple[int, int, str]]:
    """The digits with new strides for those in `order`, the nearest first."""
    strides, step = {}, 1
    for k in order:
        strides[k], step = step, step * shard[k][0]
    return [(e, strides.get(k, s), axis) for k, (e, s, axis) in enumerate(shard)]
