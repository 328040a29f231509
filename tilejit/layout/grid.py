"""Grids, which distribute the threads of a scope over axes, and their projections to tiles.

An axis is split into digits, over registers (blocks r and vectors v) and over threads (warps w and lanes l):

    index  = ((r * warps + w) * lanes + l) * vector + v          period = warps * lanes * vector
    thread = sum of l * (running product of lanes) + lanes per warp * sum of w * (running product of warps)

A tile's layout is the grid's *projection* to the tile's axes: it has all digits of these axes, and is replicated over
all other thread digits. So in tiles with the same axes, elements with equal indices have the same owners. Any shape
works with any number of threads: an axis has enough blocks to cover its extent, and indices past it are padding.

    axes (rows, columns), a tile of 32 x 48, lanes 4 x 8, warps 2 x 1, vectors of 8 columns
    the tile      S[(4, 64, 8) : (8, 1 @ tx, 1)] in slots [32, 64]
    a row of 48   S[(8, 8) : (1 @ tx, 1)] + R[8 : 8 @ tx] in slots [64]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from ..dataclass import dataclass, replace
from ..scopes import SCOPES
from ..target import WARP
from .axes import Axis, m
from .iters import Iter, groups_to, merged, refined
from .tile_layout import TileLayout

#: the maximum size of a thread's vector and the size of a cache line, in bytes
WIDEST_BYTES, LINE_BYTES = 16, 128


class Spread(NamedTuple):
    """The split of one axis: the numbers of lanes and warps along it, and the length of a thread's vectors."""

    lanes: int
    warps: int
    vector: int

    @property
    def period(self) -> int:
        """The number of elements in a block."""
        return self.lanes * self.warps * self.vector

    def blocks(self, extent: int) -> int:
        return -(-extent // self.period)

    def registers(self, extent: int) -> int:
        return self.blocks(extent) * self.vector


@dataclass(frozen=True, slots=True)
class Projection:
    """The layout of a tile.

    slots: its padded extents, one per dimension or one for all elements in row-major order; () without padding.
    """

    layout: TileLayout
    slots: tuple[int, ...] = ()

    def padded(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self.slots or tuple(shape)

    def along(self, shape: Sequence[int], dims: Sequence[int | None]) -> Projection:
        """Return the layout of a tile with this tile's dimension `dims[k]` as dimension k, or extent 1 for None."""
        slots = self.slots or tuple(shape)
        made = projected(self.layout, slots, tuple(dims))
        return Projection(made, tuple([1 if d is None else slots[d] for d in dims]))

    def concise(self, shape: Sequence[int]) -> Projection:
        """Return the projection without slots if a tile of this shape has no padding, else the projection itself."""
        return Projection(self.layout) if self.slots == tuple(shape) else self


@dataclass(frozen=True, slots=True)
class GridAxis:
    """An axis for which a search chooses a `Spread`.

    column: axes of the same column share thread digits, so no tile may have two of them.
    vectors: the vector widths to try, largest first; the last is 1.
    """

    extent: int
    column: int
    vectors: tuple[int, ...] = (1,)


@dataclass(frozen=True, slots=True)
class Grid:
    """A distribution of a scope's threads over axes."""

    scope: str
    #: the number of threads per warp, and the number of warps; see `units`
    lanes: int
    warps: int
    spreads: tuple[Spread, ...]
    #: the column of each axis; axes of one column share thread digits
    columns: tuple[int, ...]
    #: the index of the axis along which the lanes are consecutive threads
    fast: int

    @property
    def by_column(self) -> dict[int, Spread]:
        """Column -> the spread of its first axis; the fast axis's column comes first, then the others, descending."""
        first = self.columns[self.fast] if self.columns else 0
        order = sorted(set(self.columns), key=lambda column: (column != first, -column))
        return {column: self.spreads[self.columns.index(column)] for column in order}

    def strides(self) -> dict[int, tuple[int, int]]:
        """Return column -> the thread strides of its lane and warp digits."""
        steps: dict[int, tuple[int, int]] = {}
        lane, warp = 1, self.lanes
        for column, spread in self.by_column.items():
            steps[column] = lane, warp
            lane, warp = lane * spread.lanes, warp * spread.warps
        return steps

    def project(self, axes: Sequence[int | None], shape: Sequence[int]) -> Projection:
        """Return the layout of a tile. axes: the axis of each dimension; None for an extent of 1."""
        name = SCOPES[self.scope].axis
        if name is None:
            return Projection(TileLayout.row_major(shape or (1,)))
        thread = Axis(name)
        threads = self.strides()
        registers = self._register_strides(axes, shape)
        shard: list[Iter] = []
        for axis, extent in zip(axes, shape, strict=True):
            if axis is None:
                continue
            spread, (lane, warp) = self.spreads[axis], threads[self.columns[axis]]
            vector, block_ = registers[axis]
            shard += [
                Iter(spread.blocks(extent), block_, m),
                Iter(spread.warps, warp, thread),
                Iter(spread.lanes, lane, thread),
                Iter(spread.vector, vector, m),
            ]
        covered = {self.columns[axis] for axis in axes if axis is not None}
        replica: list[Iter] = []
        for column, spread in self.by_column.items():
            if column not in covered:
                lane, warp = threads[column]
                replica += [Iter(spread.warps, warp, thread), Iter(spread.lanes, lane, thread)]
        layout = TileLayout(shard or (Iter(1, 1, thread),), _joined(replica)).canonical(fuse=False)
        slots = tuple(
            n if axis is None else self.spreads[axis].blocks(n) * self.spreads[axis].period
            for axis, n in zip(axes, shape, strict=True)
        )
        return Projection(layout, slots).concise(shape)

    def _register_strides(self, axes: Sequence[int | None], shape: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Return axis -> strides of its vector and its blocks. Vectors are innermost; the fast column comes first."""
        extents = {axis: n for axis, n in zip(axes, shape, strict=True) if axis is not None}
        first = self.columns[self.fast] if self.columns else 0
        order = sorted(extents, key=lambda axis: (self.columns[axis] != first, -axis))
        at, vectors, strides = 1, {}, {}
        for axis in order:
            vectors[axis], at = at, at * self.spreads[axis].vector
        for axis in order:
            strides[axis] = vectors[axis], at
            at *= self.spreads[axis].blocks(extents[axis])
        return strides

    def registers(self, axes: Sequence[int | None], shape: Sequence[int]) -> int:
        return math.prod(self.spreads[a].registers(n) for a, n in zip(axes, shape, strict=True) if a is not None)


def _joined(replica: Sequence[Iter]) -> tuple[Iter, ...]:
    kept = sorted((it for it in replica if it.extent > 1), key=lambda it: -it.stride)
    return merged(kept)


def same_owners(one: TileLayout, one_shape: Sequence[int], other: TileLayout, other_shape: Sequence[int]) -> bool:
    """True if both layouts provably give each element to the same threads. Shapes are padded, without extents of 1."""
    return _owners(one, tuple(one_shape)) == _owners(other, tuple(other_shape))


@lru_cache(maxsize=1024)
def _owners(layout: TileLayout, shape: tuple[int, ...]) -> object:
    fused = layout.canonical()
    if not groups_to(fused.shard, shape):
        return fused
    digits = []
    for group in refined(fused.shard, shape):
        run: list[tuple[int, int, str]] = []
        for it in merged(group):
            if not it.axis.is_thread:
                # register strides may differ
                inner = run.pop()[0] if run and run[-1][2] == "m" else 1
                run.append((inner * it.extent, 0, "m"))
            else:
                run.append((it.extent, it.stride, it.axis.name))
        digits.append(tuple(run))
    return tuple(digits), _joined(fused.replica), fused.offset


@lru_cache(maxsize=1024)
def projected(layout: TileLayout, shape: tuple[int, ...], dims: tuple[int | None, ...]) -> TileLayout:
    """Return the layout of a tile whose dimension k is dimension `dims[k]` of another tile, or has extent 1 for None.

    layout, shape: the layout and the padded extents of the other tile. Threads along dropped dimensions hold replicas.
    raises: LayoutError if the layout doesn't split into the dimensions of `shape`.
    """
    groups = refined(layout.shard, shape)
    kept = [it for d in dims if d is not None for it in groups[d]]
    dropped = [it for d, group in enumerate(groups) if d not in dims for it in group]
    has_gaps = any(not it.axis.is_thread and it.extent > 1 for it in dropped)
    shard = packed(kept) if has_gaps else kept
    replica = (*layout.replica, *(it for it in dropped if it.axis.is_thread and it.extent > 1))
    offset = tuple((axis, value) for axis, value in layout.offset if axis.is_thread)
    axis = next((it.axis for it in (*replica, *dropped, *kept) if it.axis.is_thread), m)
    return TileLayout(shard or (Iter(1, 1, axis),), replica, offset).canonical(fuse=False)


def packed(iters: Sequence[Iter]) -> list[Iter]:
    """Return the iterators, in the same order, with register strides compacted; thread strides don't change."""
    strides, at = {}, 1
    moving = [it for it in iters if not it.axis.is_thread and it.extent > 1]
    for it in sorted(moving, key=lambda it: it.stride):
        strides[it], at = at, at * it.extent
    return [replace(it, stride=strides[it]) if it in strides else it for it in iters]


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def units(threads: int) -> tuple[int, int]:
    """Return (lanes, warps): warps of 32 if possible, one warp for a power of two below 32, else warps of one lane."""
    if threads % WARP == 0:
        return WARP, threads // WARP
    return (threads, 1) if threads < WARP and threads & (threads - 1) == 0 else (1, threads)


def starts(scope: str, threads: int, axes: Sequence[GridAxis], fasts: Sequence[int]) -> Iterator[Grid]:
    """Yield the initial grids of a search, with all warps along one column. fasts: the values of `fast` to try."""
    columns = tuple(axis.column for axis in axes)
    lanes, warps = units(threads)
    extents = [max(axis.extent for axis in axes if axis.column == column) for column in set(columns)]
    most = 1 << (math.prod(extents) - 1).bit_length()
    for fast in fasts:
        ends = sorted(set(columns), key=lambda column: (column == columns[fast], column)) if warps > 1 else columns[:1]
        for vectors in _vectors(axes, fast):
            block = math.prod(dict(sorted(zip(columns, vectors, strict=True))).values())
            # one vector per thread, along all columns, would exceed the tile's size, rounded up to a power of two
            if block > 1 and block * threads > most:
                continue
            for by_column in _lanes(axes, fast, vectors[fast], lanes):
                for end in ends:
                    pairs = zip(columns, vectors, strict=True)
                    spreads = [Spread(by_column[c], warps if c == end else 1, v) for c, v in pairs]
                    yield Grid(scope, lanes, warps, tuple(spreads), columns, fast)


def _vectors(axes: Sequence[GridAxis], fast: int) -> Iterator[tuple[int, ...]]:
    """Yield vector widths of all axes: above 1 only on the fast axis, axes of its column, and at most one more axis."""
    others = [a for a, axis in enumerate(axes) if axis.column != axes[fast].column and len(axis.vectors) > 1]
    for width in axes[fast].vectors:
        chosen = [
            next(v for v in axis.vectors if v <= width) if axis.column == axes[fast].column else 1 for axis in axes
        ]
        chosen[fast] = width
        yield tuple(chosen)
        # with vectors on another axis only, that axis should be the fast one
        for other in others if width > 1 else ():
            for second in axes[other].vectors[:-1]:
                yield (*chosen[:other], second, *chosen[other + 1 :])


def _lanes(axes: Sequence[GridAxis], fast: int, vector: int, lanes: int) -> Iterator[dict[int, int]]:
    """Yield column -> lanes: the splits of `lanes` over the fast column and up to two others; the rest get one lane."""
    first = axes[fast].column
    extent = max(axis.extent for axis in axes if axis.column == first)
    others = sorted({axis.column for axis in axes} - {first}, reverse=True)
    if not others:
        yield {first: lanes}
        return
    for count in _divisors(lanes):
        # at least half of the lanes would hold only padding
        if count > 1 and count >= 2 * -(-extent // vector):
            continue
        left = lanes // count
        for second in [left] if len(others) == 1 else _divisors(left):
            split = dict.fromkeys(others, 1) | {first: count, others[0]: second}
            if len(others) > 1:
                split[others[1]] = left // second
            yield split


def varied(grid: Grid) -> Iterator[Grid]:
    """Yield the grid with its warps distributed over the columns in every possible way."""
    by_column = tuple(grid.by_column)
    for counts in _splits(grid.warps, len(by_column)):
        split = dict(zip(by_column, counts, strict=True))
        spreads = tuple(s._replace(warps=split[c]) for s, c in zip(grid.spreads, grid.columns, strict=True))
        yield replace(grid, spreads=spreads)


def _splits(number: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (number,)
        return
    for first in _divisors(number):
        for others in _splits(number // first, parts - 1):
            yield (first, *others)


def alone(shape: Sequence[int], scope: str, threads: int, bits: int) -> Projection:
    """Return the layout of a tile that no operation constrains.

    Threads are in row-major order of the elements if there is one dimension, or if this order needs no padding and
    splits into the dimensions. Otherwise the layout is, of those tried, the one with the fewest registers, then the
    longest runs per warp (up to a cache line), then the widest vectors, then the fewest iterators.
    threads: the number of the scope's threads. bits: the width of an element.
    """
    if SCOPES[scope].axis is None:
        return Projection(TileLayout.row_major(shape or (1,)))
    kept = [d for d, n in enumerate(shape) if n != 1]
    if not kept:
        return everywhere(scope, threads).project((None,) * len(shape), shape)
    widest, last = max(1, 8 * WIDEST_BYTES // bits), shape[kept[-1]]
    widths = [width for width in (32, 16, 8, 4, 2, 1) if width <= widest and last % width == 0]
    flat = _in_order(shape, scope, threads, widths)
    if flat is not None:
        return flat
    axes = [GridAxis(shape[d], k) for k, d in enumerate(kept)]
    axes[-1] = GridAxis(last, len(kept) - 1, tuple(widths))
    pool = [grid for start in starts(scope, threads, axes, [len(kept) - 1]) for grid in (start, *varied(start))]
    every, extents = range(len(kept)), [shape[d] for d in kept]

    def key(grid: Grid) -> tuple[int, ...]:
        spread, made = grid.spreads[-1], grid.project(every, extents).layout
        run = spread.period if grid.lanes == 1 else spread.lanes * spread.vector
        return grid.registers(every, extents), -min(run * bits, 8 * LINE_BYTES), -spread.vector, len(made.shard)

    return min(pool, key=key).project([kept.index(d) if d in kept else None for d in range(len(shape))], shape)


def everywhere(scope: str, threads: int) -> Grid:
    """Return the grid of tiles without axes, which every thread holds completely."""
    lanes, warps = units(threads)
    return Grid(scope, lanes, warps, (Spread(lanes, warps, 1),), (0,), 0)


def _in_order(shape: Sequence[int], scope: str, threads: int, widths: Sequence[int]) -> Projection | None:
    count = math.prod(shape)
    vector = min(widths, key=lambda width: -(-count // (threads * width)) * width)
    lanes, warps = units(threads)
    made = Grid(scope, lanes, warps, (Spread(lanes, warps, vector),), (0,), 0).project((0,), (count,))
    if len(shape) == 1:
        return made
    return None if made.slots or not groups_to(made.layout.shard, shape) else made
