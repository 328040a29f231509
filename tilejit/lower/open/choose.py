"""The choice of a grid for a component (tiles that share axes): the cheapest of a few candidates for its demand.

A demand consists of the operations' memory accesses, arithmetic, reductions and parts of tiles, and of live registers.
Their costs, by `lower.weights`, are summed over warps, and except for live registers also over iterations of loops:

    a warp's access to global memory   its issue, 32-byte sectors and 128-byte lines
    ... to shared memory               its issue and wavefronts
    ... with a mask                    in addition, a test of a vector's ends or of an element's bit
    an elementwise operation           the issue weight of its record per register, padding included
    a reduction                        combining registers, shuffles; across warps, barriers and partials in memory
    a part that isn't whole periods    its conversion through shared memory
    too many live registers            a spill of each in excess
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import gcd

from ...dataclass import dataclass, field, replace
from ...errors import LayoutError
from ...ir.nodes import Region, Strided
from ...layout.grid import WIDEST_BYTES, Grid, GridAxis, starts, varied
from ...layout.iters import merged, refined
from ...ops import axes as relations
from ...ops.atomic import ATOMIC
from ...ops.copies import MASK
from ...ops.reduce import axes_of
from ...remember import LIMIT
from ...target import LINE_BYTES, MAX_REGISTERS, SECTOR_BYTES, WARP, target
from ..moves.vectors import update_forms
from ..moves.wavefronts import LaneDigit, wavefronts
from ..schedule.access import misaligned
from ..schedule.placement import place
from ..weights import (
    ACCESS,
    BARRIER,
    ELEMENT,
    FREE_REGISTERS,
    LINE,
    PARTIAL,
    SECTOR,
    SHUFFLE,
    SPILL,
    WAVEFRONT,
)
from .axes import AxisJoin, Component, Survey, TileUse, Use

#: cost of testing a vector's mask: comparisons of its two ends, and a branch
_VECTOR_TEST = 4 * ELEMENT

#: (axis, extent) of each dimension of a tile that has an axis
Extents = tuple[tuple[int, int], ...]

#: the properties of a grid that determine the cost of an access: (lanes, vector) along each axis of the access; and for
#: shared memory, for each column of the grid in lane order, (lanes, index of the access's axis in it, or None)
Cuts = tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int | None], ...]]


@dataclass(frozen=True, slots=True)
class AccessCost:
    """The properties of a load or store of a tile that determine its cost on a grid.

    strides: in bytes, along each axis of the tile; None if unknown. unit: the axis with contiguous elements, or None.
    width: the longest vector along `unit` to consider, in elements; it is moved by one or two accesses. bytes: size of
    an element. masked: True if a mask selects elements.
    """

    tile: Extents
    strides: tuple[int | None, ...]
    unit: int | None
    width: int
    bytes: int
    is_store: bool
    space: str = "global"
    masked: bool = False


@dataclass(frozen=True, slots=True)
class Reduced:
    """A tile that is reduced along some of its axes."""

    tile: Extents
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TilePart:
    """A part of a tile along one axis, as an operand. It must be converted unless it consists of whole grid periods.

    tile: the extents of the part. start, extent: those of the part along `axis`.
    """

    tile: Extents
    axis: int
    start: int
    extent: int


@dataclass(slots=True, eq=False)
class Demand:
    """The uses of a component's tiles, with their counts; constant once a grid is chosen for it.

    elementwise: total issue weight of the operations, by the extents of their tile. live: number of tiles live at the
    peak, by extents and bits of an element. limit: maximum number of registers per thread.
    """

    accesses: dict[AccessCost, int] = field(default_factory=Counter)
    elementwise: dict[Extents, int] = field(default_factory=Counter)
    reductions: dict[Reduced, int] = field(default_factory=Counter)
    parts: dict[TilePart, int] = field(default_factory=Counter)
    live: dict[tuple[Extents, int], int] = field(default_factory=Counter)
    limit: int = MAX_REGISTERS

    def _items(self) -> tuple[object, ...]:
        """Return all counts and the limit, in order: the order of live tiles may decide between grids of equal cost."""
        counts = self.accesses, self.elementwise, self.reductions, self.parts, self.live
        return *[tuple(each.items()) for each in counts], self.limit

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Demand) and self._items() == other._items()

    def __hash__(self) -> int:
        return hash(self._items())


class Prices:
    """Computes the costs of a demand on grids. An access's cost for one replica of its tile is cached by `Cuts`."""

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self._accesses: list[tuple[AccessCost, int, dict[Cuts, int]]] = [
            (access, times, {}) for access, times in demand.accesses.items()
        ]

    def cost(self, grid: Grid) -> int:
        demand, warps = self.demand, _real(grid.warps, grid)
        total = sum(times * _access(access, grid, once) for access, times, once in self._accesses)
        each = sum(ELEMENT * weight * _elements(grid, tile) for tile, weight in demand.elementwise.items())
        for reduced, times in demand.reductions.items():
            each += times * _reduction(reduced, grid)
        for part, times in demand.parts.items():
            if gcd(part.start, part.extent) % grid.spreads[part.axis].period:
                each += times * (2 * BARRIER + 2 * ACCESS * _elements(grid, part.tile))
        excess = self.live_words(grid) + FREE_REGISTERS - demand.limit
        return total + warps * (each + SPILL * max(0, excess))

    def live_words(self, grid: Grid) -> int:
        live = self.demand.live.items()
        return sum([times * -(-_elements(grid, tile) * bits // 32) for (tile, bits), times in live])


def _elements(grid: Grid, tile: Extents) -> int:
    """Return the number of registers that hold a tile's elements in each thread, padding included."""
    count = 1
    for axis, extent in tile:
        count *= grid.spreads[axis].registers(extent)
    return count


def _real(warps: int, grid: Grid) -> int:
    """Return the number of hardware warps. If the grid has one lane, each of its warps is a single thread."""
    return warps if grid.lanes > 1 else -(-warps // WARP)


def _reduction(reduced: Reduced, grid: Grid) -> int:
    """Return the cost per warp: a tree over registers, then shuffles over lanes, then shared memory over warps."""
    kept = tuple(pair for pair in reduced.tile if pair[0] not in reduced.axes)
    registers, results = _elements(grid, reduced.tile), _elements(grid, kept)
    lanes = math.prod(grid.spreads[axis].lanes for axis in reduced.axes)
    warps = math.prod(grid.spreads[axis].warps for axis in reduced.axes)
    total = ELEMENT * (registers - results) + SHUFFLE * shuffles(results, lanes)
    if grid.lanes == 1 and warps > 1:
        # these warps are single threads: 32 of them combine by shuffles
        warps = -(-warps // WARP)
        total += SHUFFLE * shuffles(results, WARP)
    if warps > 1:
        total += (
            results * (PARTIAL + PARTIAL * -(-warps // 4) + ELEMENT * warps)
            + 2 * BARRIER
        )
    return total


def shuffles(results: int, lanes: int) -> int:
    """Return the least number of shuffles to combine `results` values over `lanes` lanes; `Shuffles` may take more."""
    steps = (lanes - 1).bit_length()
    halvings = min(steps, (results & -results).bit_length() - 1)
    left = results >> halvings
    return min(results * steps, 2 * (results - left) + (steps - halvings) * left)


def _access(access: AccessCost, grid: Grid, once: dict[Cuts, int]) -> int:
    """Return the cost for all warps; replicas are loaded, too, but not stored. once: costs for one replica, by cuts."""
    pairs: list[tuple[int, int]] = []
    repeats = grid.warps
    for axis, _ in access.tile:
        spread = grid.spreads[axis]
        # in a grid of one lane, warps are single threads, which count as lanes here
        pairs.append((spread.lanes if grid.lanes > 1 else spread.warps, spread.vector))
        repeats //= spread.warps
    cuts = tuple(pairs), _lane_order(access, grid) if access.space == "shared" else ()
    cost = once.get(cuts)
    if cost is None:
        cost = once[cuts] = _once(access, cuts)
    return cost if access.is_store else cost * _real(repeats, grid)


def _lane_order(access: AccessCost, grid: Grid) -> tuple[tuple[int, int | None], ...]:
    """Return (lanes, index of the access's axis or None) of each column of the grid, fastest first."""
    along = {grid.columns[axis]: k for k, (axis, _) in enumerate(access.tile)}
    return tuple([
        (spread.lanes if grid.lanes > 1 else spread.warps, along.get(column))
        for column, spread in grid.by_column.items()
    ])


def _once(access: AccessCost, cuts: Cuts) -> int:
    """Return the cost of accessing one replica of the tile: by all registers and warps along the tile's own axes."""
    run, times = access.bytes, 1
    cut, elsewhere, test = 0, 1, ELEMENT
    #: (repetitions, (active lanes, stride in bytes) along each axis)
    cases: list[tuple[int, tuple[tuple[int, int | None], ...]]] = [(1, ())]
    for (axis, extent), stride, (lanes, vector) in zip(access.tile, access.strides, cuts[0], strict=True):
        if axis == access.unit:
            width = min(vector, access.width, max(1, WIDEST_BYTES // access.bytes))
            run, times = run * width, times * (vector // width)
            cut = width if extent % width else 0
            test = _VECTOR_TEST if width > 1 else ELEMENT
        else:
            times *= vector
            elsewhere *= vector * -(-extent // (lanes * vector))
        whole, rest = divmod(extent, lanes * vector)
        step = None if stride is None else stride * vector
        active = [(count, n) for count, n in ((lanes, whole), (-(-rest // vector), 1 if rest else 0)) if n]
        cases = [(often * n, (*counts, (count, step))) for often, counts in cases for count, n in active]
    total = 0
    for often, counts in cases:
        issued = -(-math.prod(count for count, _ in counts) // WARP)
        total += often * test if access.masked else 0
        if access.space == "shared":
            digits = [LaneDigit(n, 1, 0) if k is None else LaneDigit(n, *counts[k]) for n, k in cuts[1]]
            total += often * (ACCESS * issued + WAVEFRONT * wavefronts(run, tuple(digits)))
        else:
            total += often * touched(run, counts, issued)
    # the vector that crosses the tile's edge is moved element by element, by one lane per step along the other axes
    return times * total + elsewhere * cut * (ACCESS + SECTOR + LINE)


def touched(run: int, lanes: tuple[tuple[int, int | None], ...], issued: int = 1) -> int:
    """Return the cost of an access to global memory by `issued` instructions of a warp. run, lanes: see `lines`."""
    return (
        ACCESS * issued
        + SECTOR * lines(run, lanes, SECTOR_BYTES)
        + LINE * lines(run, lanes, LINE_BYTES)
    )


def lines(run: int, lanes: tuple[tuple[int, int | None], ...], size: int) -> int:
    """Return the number of aligned lines of `size` bytes that a warp touches.

    run: bytes that each lane moves. lanes: (count, stride in bytes) along each axis; a stride of None exceeds any line.
    """
    times = 1
    for count, stride in sorted(lanes, key=lambda digit: (digit[1] is None, digit[1] or 0)):
        if count == 1 or stride == 0:
            continue
        # a lane that continues the run lengthens it, and strides shorter than a line skip no line
        if stride is not None and times == 1 and (stride <= run or stride < size):
            run += (count - 1) * stride
        else:
            times *= count
    return times * -(-run // size)


class _Counter:
    """Collects the demand of one component. axes: tile -> the axis of each dimension, or None (see `Component`)."""

    def __init__(self, survey: Survey, component: Component, limit: int) -> None:
        self.target = target(survey.target)
        self.axes = component.axes
        self.demand = Demand(limit=limit)

    def labelled(self, use: Use) -> list[tuple[int, int, int]]:
        """Return (label, axis, extent) of each dimension of an operand that has both a label and an axis."""
        dims = zip(use.labels, self.axes[use.tile], use.extents, strict=True)
        return [(label, axis, extent) for label, axis, extent in dims if label is not None and axis is not None]

    def extents(self, use: Use) -> Extents:
        return tuple([(axis, extent) for _, axis, extent in self.labelled(use)])

    def whole(self, tile: TileUse) -> Extents:
        return tuple([(axis, n) for axis, n in zip(self.axes[tile], tile.shape, strict=True) if axis is not None])

    def step(self, step: AxisJoin, use: Use) -> None:
        """Add the demand of an operation. use: the tile whose layout the operation's other tiles follow."""
        op, demand, tile = step.op, self.demand, self.extents(use)
        if op.record.relation is relations.REDUCTION:
            kept = {label for label in step.labels["dst"] if label is not None}
            axes = zip(self.axes[use.tile], use.labels, strict=True)
            reduced = tuple([axis for axis, label in axes if axis is not None and label not in kept])
            demand.reductions[Reduced(tile, reduced)] += step.iterations * len(op.written)
        elif op.record.relation is relations.SCAN:
            (dim,) = axes_of(dict(op.attrs), len(use.labels))
            axis = self.axes[use.tile][dim]
            demand.reductions[Reduced(tile, () if axis is None else (axis,))] += step.iterations * len(op.written)
            demand.elementwise[tile] += step.iterations * len(op.written)
        elif op.record.elementwise is not None:
            demand.elementwise[tile] += step.iterations * op.record.elementwise.issue
        elif op.record.relation in (relations.GENERATED, relations.ELEMENTWISE):
            demand.elementwise[tile or self.whole(use.tile)] += step.iterations
        for name, region in op.tiles.items():
            if name not in step.uses and region.buffer.space in ("global", "shared"):
                self.access(step, use, name, region)

    def access(self, step: AxisJoin, use: Use, name: str, region: Region) -> None:
        """Add the access to a region in memory by an operation whose tiles follow the layout of `use`."""
        of_label = {label: axis for label, axis, _ in self.labelled(use)}
        axes = [None if label is None else of_label.get(label) for label in step.labels.get(name, ())]
        is_store = step.op.record.operands[step.op.record.position(name)].written
        made = access(region, axes, step.op.scope, is_store)
        if made is None:
            return
        if step.op.name == ATOMIC.name:
            most = max([form.bits for form in update_forms(step.op, self.target)], default=0) // region.dtype.bits
            made = replace(made, width=max(1, min(made.width, most)))
        made = replace(made, masked=MASK.name in step.op.options and name != MASK.name)
        self.demand.accesses[made] += step.iterations

    def cuts(self, step: AxisJoin, use: Use) -> None:
        for dim, start, extent in use.cuts:
            axis = self.axes[use.tile][dim]
            if axis is not None and start is not None and use.labels[dim] is not None:
                self.demand.parts[TilePart(self.extents(use), axis, start, extent)] += step.iterations

    def live(self) -> None:
        """Add the tiles that are live at the step where live tiles have the most bits."""
        starts = sorted(self.axes, key=lambda tile: tile.first)
        ends = sorted(self.axes, key=lambda tile: tile.last)
        most = held = at = gone = 0
        for tile in starts:
            while ends[gone].last < tile.first:
                held -= _bits(ends[gone])
                gone += 1
            held += _bits(tile)
            if held > most:
                most, at = held, tile.first
        for tile in self.axes:
            if tile.first <= at <= tile.last:
                self.demand.live[self.whole(tile), tile.buffer.dtype.bits] += 1


def _bits(tile: TileUse) -> int:
    return tile.buffer.dtype.bits * math.prod(tile.shape)


def demands(survey: Survey, components: Sequence[Component], limit: int) -> list[Demand]:
    """Return the demand of each component. limit: maximum number of registers per thread."""
    counters = [_Counter(survey, component, limit) for component in components]
    of_tile = {tile: counter for counter in counters for tile in counter.axes}
    for step in survey.steps:
        home = step.home
        if home is None:
            continue
        if home.tile in of_tile:
            of_tile[home.tile].step(step, home)
        for use in step.uses.values():
            if use.cuts and use.tile in of_tile:
                of_tile[use.tile].cuts(step, use)
    for counter in counters:
        counter.live()
    return [counter.demand for counter in counters]


def access(region: Region, axes: Sequence[int | None], scope: str, is_store: bool) -> AccessCost | None:
    """Return the access that moves a region of memory, or None if the region has no placement.

    axes: the tile's axis for each dimension of the region's shape; None, or missing at the end, if there is none.
    """
    try:
        placement = place(region, scope)
    except LayoutError:
        return None
    size = region.dtype.bytes
    steps = _steps(region)
    # the strides of gathered dimensions are unknown
    dims: list[tuple[int, int | None]] = [(n, None) for n in region.index_shape]
    dims += [(n, steps[d]) for d, n in enumerate(region.extents) if n is not None]
    pairs = [(axis, n, step) for axis, (n, step) in zip(axes, dims, strict=False) if axis is not None]
    unit = next((axis for axis, _, stride in reversed(pairs) if stride == 1), None)
    width = 1
    if unit is not None:
        # the longest vector to consider: aligned, within the extent, and moved by up to two accesses
        extent = next(extent for axis, extent, _ in pairs if axis == unit)
        strides = [step.stride for dim in placement.dims for step in dim if step.stride != 1]
        width = max(1, 2 * WIDEST_BYTES // size)
        while width > 1 and (width > extent or misaligned(placement, strides, min(width, WIDEST_BYTES // size))):
            width //= 2
    return AccessCost(
        tuple([(axis, extent) for axis, extent, _ in pairs]),
        tuple([None if stride is None else abs(stride) * size for _, _, stride in pairs]),
        unit,
        width,
        size,
        is_store,
        region.buffer.space,
    )


def _steps(region: Region) -> list[int | None]:
    """Return each dimension's (innermost) stride in elements; None if it is known only at launch."""
    buffer = region.buffer
    if isinstance(buffer.layout, Strided):
        return [stride if isinstance(stride, int) else None for stride in buffer.layout.strides]
    shape = [n for n in buffer.shape if isinstance(n, int)]
    groups = refined(buffer.tile_layout.shard, shape)
    return [(merged(group) or group)[-1].stride for group in groups]


#: number of the cheapest grids for which other distributions of their warps are tried
_VARIED = 4


@dataclass(frozen=True, slots=True)
class Chosen:
    """A component's grid, its cost, and the cost of the runner-up (None if it was the only candidate)."""

    grid: Grid
    cost: int
    next_cost: int | None


def candidates(
    scope: str, threads: int, extents: Sequence[int], columns: Sequence[int], prices: Prices
) -> dict[Grid, int]:
    """Return candidate grids with their costs. threads: number in the scope. extents, columns: by axis."""
    axes, fasts = _grid_axes(extents, columns, prices.demand), _fast_axes(prices.demand, len(extents))
    pool = {grid: prices.cost(grid) for grid in starts(scope, threads, axes, fasts)}
    for grid in sorted(pool, key=pool.__getitem__)[:_VARIED]:
        pool |= {other: prices.cost(other) for other in varied(grid) if other not in pool}
    return pool


@lru_cache(LIMIT)
def choose(scope: str, threads: int, extents: Sequence[int], columns: Sequence[int], demand: Demand) -> Chosen:
    """Return the cheapest grid. threads: number in the scope. extents, columns: by axis of the component, hashable.

    Cached, since kernels with different arithmetic can have equal demands.
    """
    prices = Prices(demand)
    pool = candidates(scope, threads, extents, columns, prices)
    least = min(pool.values())
    best = _first([grid for grid, total in pool.items() if total == least], prices)
    others = [total for grid, total in pool.items() if grid is not best]
    return Chosen(best, least, min(others, default=None))


def _first(grids: Sequence[Grid], prices: Prices) -> Grid:
    """Break a tie between grids of equal cost: fewest live registers, then `_tie`."""
    words = [prices.live_words(grid) for grid in grids]
    fewest = [grid for grid, count in zip(grids, words, strict=True) if count == min(words)]
    return fewest[0] if len(fewest) == 1 else min(fewest, key=lambda grid: _tie(grid, prices))


def _tie(grid: Grid, prices: Prices) -> tuple[int, ...]:
    """Return a sort key: fewest iterators, then largest vectors, then most warps along the first axis."""
    widest = max(prices.demand.live, default=((), 0), key=lambda key: len(key[0]))[0]
    layout = grid.project([axis for axis, _ in widest], [extent for _, extent in widest]).layout
    iterators = len(layout.shard) + len(layout.replica)
    vectors = math.prod(spread.vector for spread in grid.spreads)
    return iterators, -vectors, -grid.spreads[0].warps


def _grid_axes(extents: Sequence[int], columns: Sequence[int], demand: Demand) -> list[GridAxis]:
    widths: dict[int, int] = {}
    for access in demand.accesses:
        if access.unit is not None:
            widths[access.unit] = max(widths.get(access.unit, 1), access.width)
    return [
        GridAxis(extent, column, tuple(1 << bit for bit in reversed(range(widths.get(k, 1).bit_length()))))
        for k, (extent, column) in enumerate(zip(extents, columns, strict=True))
    ]


def _fast_axes(demand: Demand, count: int) -> list[int]:
    """Return up to two axes along which accesses are contiguous, most bytes first; the last axis if there are none."""
    bytes_along: dict[int, int] = {}
    for access, times in demand.accesses.items():
        if access.unit is not None:
            size = times * access.bytes * math.prod(extent for _, extent in access.tile)
            bytes_along[access.unit] = bytes_along.get(access.unit, 0) + size
    most = sorted(bytes_along, key=lambda axis: (-bytes_along[axis], -axis))
    return most[:2] or [count - 1]
