"""What a grid costs, summed over warps and turns of loops, by `lower.weights`.

    a warp's access to global memory   its issue, 32-byte sectors and 128-byte lines
    ... to shared memory               its issue and wavefronts
    ... with a mask                    a test of a vector's ends, or of an element's bit, besides
    an elementwise operation           the issue weight of its record a register, padding included
    a reduction                        registers and shuffles; across warps barriers, and partials through memory
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

__all__ = [
    "AccessCost", "Counts", "Demand", "Extents", "Prices", "Reduced", "TilePart", "lines", "shuffles", "touched",
]


#: a mask's test of a vector: its ends are compared, and a branch taken
_VECTOR_TEST = 4 * ELEMENT

#: the axes of a tile's dimensions without those of extent 1, with their extents
Extents = tuple[tuple[int, int], ...]

#: lanes and vector of each of an access's axes; and in the order of the lanes, how many, and along which of these axes
Cuts = tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int | None], ...]]


@dataclass(frozen=True, slots=True)
class AccessCost:
    """A tile that is loaded from memory, or stored to it.

    tile: its axes. strides: bytes that a step along each of them leads in memory; None where that isn't known.
    unit: of the axes the one along which elements are neighbours, or None. width: how many of them one access may move.
    masked: whether a mask says which elements are moved.
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
    """A part of a tile that is an operand: free where it takes whole rounds, else converted."""

    tile: Extents
    axis: int
    start: int
    extent: int


#: what is used, each with how often, by kind
Counts = tuple[tuple[tuple[Any, int], ...], ...]


@dataclass(slots=True)
class Demand:
    """All that a component's tiles are used for, each with how often.

    elementwise: issue weight of the operations on tiles of these axes. live: of the tiles that live where most are
    live, by axes and bits of an element, how many. limit: registers of a thread.
    """

    accesses: dict[AccessCost, int] = field(default_factory=dict)
    elementwise: dict[Extents, int] = field(default_factory=dict)
    reductions: dict[Reduced, int] = field(default_factory=dict)
    parts: dict[TilePart, int] = field(default_factory=dict)
    live: dict[tuple[Extents, int], int] = field(default_factory=dict)
    limit: int = MAX_REGISTERS

    @property
    def counts(self) -> Counts:
        """The same but for the limit, unchangeable."""
        every: tuple[dict[Any, int], ...] = (
            self.accesses, self.elementwise, self.reductions, self.parts, self.live,
        )
        return tuple([tuple(each.items()) for each in every])

    @staticmethod
    def of(counts: Counts, limit: int) -> Demand:
        accesses, elementwise, reductions, parts, live = map(dict, counts)
        return Demand(accesses, elementwise, reductions, parts, live, limit)


class Prices:
    """What a demand costs on grids. What accesses cost is remembered: it goes by lanes and vectors only."""

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self._accesses: list[tuple[AccessCost, int, dict[Cuts, int]]] = [
            (access, times, {}) for access, times in demand.accesses.items()
        ]

    def cost(self, grid: Grid) -> int:
        """Of all warps."""
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
        """32-bit registers of a thread where most tiles are live."""
        return _words(self.demand, _ElementCounts(grid))


class _ElementCounts(dict[Extents, int]):
    """How many elements a thread has of tiles on a grid."""

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
    """Warps of the hardware, where each thread counts as one."""
    return warps if grid.lanes > 1 else -(-warps // WARP)


def _reduction(reduced: Reduced, grid: Grid, elements: _ElementCounts) -> int:
    """Of one warp: its registers in a tree, then lanes by halving and gathering, then warps through shared memory."""
    kept = tuple(pair for pair in reduced.tile if pair[0] not in reduced.axes)
    registers, results = elements[reduced.tile], elements[kept]
    lanes = math.prod(grid.spreads[axis].lanes for axis in reduced.axes)
    warps = math.prod(grid.spreads[axis].warps for axis in reduced.axes)
    total = ELEMENT * (registers - results) + SHUFFLE * shuffles(results, lanes)
    if grid.lanes == 1 and warps > 1:
        # threads that make no whole warps meet in shared memory
        warps = -(-warps // WARP)
        total += SHUFFLE * shuffles(results, WARP)
    if warps > 1:
        total += results * (PARTIAL + PARTIAL * -(-warps // 4) + ELEMENT * warps) + 2 * BARRIER
    return total


def shuffles(results: int, lanes: int) -> int:
    """How many shuffles combine `results` values over `lanes` lanes."""
    steps = (lanes - 1).bit_length()
    halvings = min(steps, (results & -results).bit_length() - 1)
    left = results >> halvings
    return min(results * steps, 2 * (results - left) + (steps - halvings) * left)


def _access(access: AccessCost, grid: Grid, once: dict[Cuts, int]) -> int:
    """Of all warps. All that hold the same values load them; one stores them. once: what one warp's cost already."""
    pairs: list[tuple[int, int]] = []
    repeats = grid.warps
    for axis, _ in access.tile:
        spread = grid.spreads[axis]
        # threads that make no whole warps are counted as lanes of one
        pairs.append((spread.lanes if grid.lanes > 1 else spread.warps, spread.vector))
        repeats //= spread.warps
    cuts = tuple(pairs), _lane_order(access, grid) if access.space == "shared" else ()
    cost = once.get(cuts)
    if cost is None:
        cost = once[cuts] = _once(access, cuts)
    return cost if access.is_store else cost * _real(repeats, grid)


def _lane_order(access: AccessCost, grid: Grid) -> tuple[tuple[int, int | None], ...]:
    """Of each column the lanes, neighbouring ones first, and which of the access's axes goes along it."""
    along = {grid.columns[axis]: k for k, (axis, _) in enumerate(access.tile)}
    return tuple([
        (spread.lanes if grid.lanes > 1 else spread.warps, along.get(column))
        for column, spread in grid.by_column.items()
    ])


def _once(access: AccessCost, cuts: Cuts) -> int:
    """Of one warp for all rounds and warps along the tile's own axes."""
    run, times = access.bytes, 1
    cut, elsewhere, test = 0, 1, ELEMENT
    #: how often so many lanes along each axis have an element
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
    # the vector across the tile's edge goes element by element, one lane's in each step along the other axes
    return times * total + elsewhere * cut * (ACCESS + SECTOR + LINE)


def touched(run: int, lanes: tuple[tuple[int, int | None], ...], issued: int = 1) -> int:
    """What an access to global memory costs a warp. run, lanes: as of `lines`."""
    return ACCESS * issued + SECTOR * lines(run, lanes, SECTOR_BYTES) + LINE * lines(run, lanes, LINE_BYTES)


@lru_cache(maxsize=4096)
def lines(run: int, lanes: tuple[tuple[int, int | None], ...], size: int) -> int:
    """How many aligned lines of `size` bytes a warp touches.

    run: bytes that each lane moves. lanes: (how many, bytes apart) along each axis; None is far apart.
    """
    times = 1
    for count, stride in sorted(lanes, key=lambda digit: (digit[1] is None, digit[1] or 0)):
        if count == 1 or stride == 0:
            continue
        # what continues the run lengthens it, and smaller steps than a line leave none out
        if stride is not None and times == 1 and (stride <= run or stride < size):
            run += (count - 1) * stride
        else:
            times *= count
    return times * -(-run // size)
