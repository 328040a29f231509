"""Cost of a grid, summed over warps and iterations of loops, by `lower.weights`.

    a warp's access to global memory   its issue, 32-byte sectors and 128-byte lines
    ... to shared memory               its issue and wavefronts
    ... with a mask                    in addition, a test of a vector's ends or of an element's bit
    an elementwise operation           the issue weight of its record per register, padding included
    a reduction                        registers and shuffles; across warps, barriers and partial results in memory
    a part without whole periods       its conversion through shared memory
    too many live registers            a spill of each
"""

from __future__ import annotations

import math
from functools import lru_cache
from math import gcd
from typing import Any

from ...dataclass import dataclass, field
from ...layout.grid import WIDEST_BYTES, Grid
from ...target import LINE_BYTES, MAX_REGISTERS, SECTOR_BYTES, WARP
from ..moves.wavefronts import LaneDigit, wavefronts
from ..weights import ACCESS, BARRIER, ELEMENT, FREE_REGISTERS, LINE, PARTIAL, SECTOR, SHUFFLE, SPILL, WAVEFRONT

#: cost of testing a vector's mask: comparisons of its two ends, and a branch
_VECTOR_TEST = 4 * ELEMENT

#: (axis, extent) of each of a tile's dimensions, without those of extent 1
Extents = tuple[tuple[int, int], ...]

#: (lanes, vector) of each of an access's axes; and (lanes, index of the access's axis) of each column, in lane order
Cuts = tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int | None], ...]]


@dataclass(frozen=True, slots=True)
class AccessCost:
    """A tile that is loaded from memory or stored to it.

    strides: in bytes, along each axis of the tile; None if unknown. unit: the axis with contiguous elements, or None.
    width: the longest vector along `unit` to consider, of one or two accesses. masked: True if a mask selects elements.
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
    """A part of a tile as an operand. A part of whole periods costs nothing; any other is converted."""

    tile: Extents
    axis: int
    start: int
    extent: int


#: for each kind of use, the uses with their counts
Counts = tuple[tuple[tuple[Any, int], ...], ...]


@dataclass(slots=True)
class Demand:
    """All uses of a component's tiles, with their counts.

    elementwise: issue weight of the operations, by the extents of their tile. live: number of tiles live at the peak,
    by extents and bits of an element. limit: registers of a thread.
    """

    accesses: dict[AccessCost, int] = field(default_factory=dict)
    elementwise: dict[Extents, int] = field(default_factory=dict)
    reductions: dict[Reduced, int] = field(default_factory=dict)
    parts: dict[TilePart, int] = field(default_factory=dict)
    live: dict[tuple[Extents, int], int] = field(default_factory=dict)
    limit: int = MAX_REGISTERS

    @property
    def counts(self) -> Counts:
        every: tuple[dict[Any, int], ...] = (
            self.accesses, self.elementwise, self.reductions, self.parts, self.live,
        )
        return tuple([tuple(each.items()) for each in every])

    @staticmethod
    def of(counts: Counts, limit: int) -> Demand:
        accesses, elementwise, reductions, parts, live = map(dict, counts)
        return Demand(accesses, elementwise, reductions, parts, live, limit)


class Prices:
    """Computes the cost of a demand on grids. Costs of accesses are cached: they depend only on lanes and vectors."""

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self._accesses: list[tuple[AccessCost, int, dict[Cuts, int]]] = [
            (access, times, {}) for access, times in demand.accesses.items()
        ]

    def cost(self, grid: Grid) -> int:
        demand, warps = self.demand, _real(grid.warps, grid)
        elements = _ElementCounts(grid)
        total = sum(times * _access(access, grid, once) for access, times, once in self._accesses)
        each = sum(ELEMENT * weight * elements[tile] for tile, weight in demand.elementwise.items())
        for reduced, times in demand.reductions.items():
            each += times * _reduction(reduced, grid, elements)
        for part, times in demand.parts.items():
            if gcd(part.start, part.extent) % grid.spreads[part.axis].period:
                each += times * (2 * BARRIER + 2 * ACCESS * elements[part.tile])
        return total + warps * (each + SPILL * max(0, _words(demand, elements) + FREE_REGISTERS - demand.limit))

    def live_words(self, grid: Grid) -> int:
        return _words(self.demand, _ElementCounts(grid))


class _ElementCounts(dict[Extents, int]):
    """Maps a tile to the number of its elements that each thread has, on one grid."""

    def __init__(self, grid: Grid) -> None:
        self._spreads = grid.spreads

    def __missing__(self, tile: Extents) -> int:
        count = 1
        for axis, extent in tile:
            count *= self._spreads[axis].registers(extent)
        self[tile] = count
        return count


def _words(demand: Demand, elements: _ElementCounts) -> int:
    return sum(times * -(-elements[tile] * bits // 32) for (tile, bits), times in demand.live.items())


def _real(warps: int, grid: Grid) -> int:
    """Return the number of hardware warps. If the grid has one lane, each of its warps is a single thread."""
    return warps if grid.lanes > 1 else -(-warps // WARP)


def _reduction(reduced: Reduced, grid: Grid, elements: _ElementCounts) -> int:
    """Return the cost per warp: a tree over registers, then over lanes by halving, then over warps in shared memory."""
    kept = tuple(pair for pair in reduced.tile if pair[0] not in reduced.axes)
    registers, results = elements[reduced.tile], elements[kept]
    lanes = math.prod(grid.spreads[axis].lanes for axis in reduced.axes)
    warps = math.prod(grid.spreads[axis].warps for axis in reduced.axes)
    total = ELEMENT * (registers - results) + SHUFFLE * shuffles(results, lanes)
    if grid.lanes == 1 and warps > 1:
        # these warps are single threads: 32 of them combine by shuffles
        warps = -(-warps // WARP)
        total += SHUFFLE * shuffles(results, WARP)
    if warps > 1:
        total += results * (PARTIAL + PARTIAL * -(-warps // 4) + ELEMENT * warps) + 2 * BARRIER
    return total


def shuffles(results: int, lanes: int) -> int:
    """Return the number of shuffles that combine `results` values over `lanes` lanes."""
    steps = (lanes - 1).bit_length()
    halvings = min(steps, (results & -results).bit_length() - 1)
    left = results >> halvings
    return min(results * steps, 2 * (results - left) + (steps - halvings) * left)


def _access(access: AccessCost, grid: Grid, once: dict[Cuts, int]) -> int:
    """Return the cost for all warps. All owners load, but only one stores. once: caches a replica's cost, by cuts."""
    pairs: list[tuple[int, int]] = []
    repeats = grid.warps
    for axis, _ in access.tile:
        spread = grid.spreads[axis]
        # threads that don't form whole warps count as lanes of one
        pairs.append((spread.lanes if grid.lanes > 1 else spread.warps, spread.vector))
        repeats //= spread.warps
    cuts = tuple(pairs), _lane_order(access, grid) if access.space == "shared" else ()
    cost = once.get(cuts)
    if cost is None:
        cost = once[cuts] = _once(access, cuts)
    return cost if access.is_store else cost * _real(repeats, grid)


def _lane_order(access: AccessCost, grid: Grid) -> tuple[tuple[int, int | None], ...]:
    """Return the lanes of each column, fastest first, with the index of the access's axis along it."""
    along = {grid.columns[axis]: k for k, (axis, _) in enumerate(access.tile)}
    return tuple([
        (spread.lanes if grid.lanes > 1 else spread.warps, along.get(column))
        for column, spread in grid.by_column.items()
    ])


def _once(access: AccessCost, cuts: Cuts) -> int:
    """Return the cost for one replica of the tile: all registers and warps along its own axes."""
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
    """Return the cost of a warp's access to global memory. run, lanes: as for `lines`."""
    return ACCESS * issued + SECTOR * lines(run, lanes, SECTOR_BYTES) + LINE * lines(run, lanes, LINE_BYTES)


@lru_cache(maxsize=4096)
def lines(run: int, lanes: tuple[tuple[int, int | None], ...], size: int) -> int:
    """Return the number of aligned lines of `size` bytes that a warp touches.

    run: bytes that each lane moves. lanes: (count, stride in bytes) along each axis; the stride None means far apart.
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
