"""The choice of a component's grid: the cheapest of a few candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from ...dataclass import dataclass
from ...layout.grid import Grid, GridAxis, starts, varied
from ...remember import LIMIT
from .axes import Component
from .cost import Counts, Demand, Prices

#: number of the cheapest grids for which other distributions of warps are tried
_VARIED = 4


@dataclass(frozen=True, slots=True)
class Chosen:
    """A component's grid, its cost, and the cost of the runner-up (None if it was the only candidate)."""

    grid: Grid
    cost: int
    next_cost: int | None


def order_axes(component: Component) -> tuple[list[int], list[int]]:
    """Return the component's axes, those of the largest tile first, and the grid column of each.

    Two axes may share threads, and therefore a column, if no tile has both.
    """
    tiles = sorted(component.tiles, key=lambda tile: -math.prod(tile.shape))
    shapes = list(dict.fromkeys([tuple([a for a in tile.axes if a is not None]) for tile in tiles]))
    axes: list[int] = []
    columns: dict[int, int] = {}
    for shape in shapes:
        for at, axis in enumerate(shape):
            if axis in columns:
                continue
            conflicting = {columns[other] for each in shapes if axis in each for other in each if other in columns}
            free = [c for c in sorted(set(columns.values())) if c not in conflicting]
            # prefer the last column for a last dimension
            wanted = -1 if at == len(shape) - 1 else 0
            columns[axis] = free[wanted] if free else len(set(columns.values()))
            axes.append(axis)
    return axes, [columns[axis] for axis in axes]


def candidates(
    scope: str, threads: int, extents: Sequence[int], columns: Sequence[int], prices: Prices
) -> dict[Grid, int]:
    """Return the candidate grids with their costs. threads: of the scope. extents, columns: of the axes."""
    axes, fasts = _grid_axes(extents, columns, prices.demand), _fast_axes(prices.demand, len(extents))
    pool = {grid: prices.cost(grid) for grid in starts(scope, threads, axes, fasts)}
    for grid in sorted(pool, key=pool.__getitem__)[:_VARIED]:
        pool |= {other: prices.cost(other) for other in varied(grid) if other not in pool}
    return pool


def choose(scope: str, threads: int, extents: Sequence[int], columns: Sequence[int], demand: Demand) -> Chosen:
    """Return the cheapest grid. threads: of the scope. extents, columns: of the component's axes."""
    return _chosen(scope, threads, tuple(extents), tuple(columns), demand.counts, demand.limit)


@lru_cache(LIMIT)
def _chosen(
    scope: str, threads: int, extents: tuple[int, ...], columns: tuple[int, ...], counts: Counts, limit: int
) -> Chosen:
    """Like `choose`. Cached, since kernels with different arithmetic can have equal demands."""
    prices = Prices(Demand.of(counts, limit))
    pool = candidates(scope, threads, extents, columns, prices)
    least = min(pool.values())
    best = _first([grid for grid, total in pool.items() if total == least], prices)
    others = [total for grid, total in pool.items() if grid is not best]
    return Chosen(best, least, min(others, default=None))


def _first(grids: Sequence[Grid], prices: Prices) -> Grid:
    """Break a tie between grids of equal cost: fewest registers, then `_tie`."""
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
    """Return up to two axes along which most bytes are contiguous, or else the last axis."""
    bytes_along: dict[int, int] = {}
    for access, times in demand.accesses.items():
        if access.unit is not None:
            size = times * access.bytes * math.prod(extent for _, extent in access.tile)
            bytes_along[access.unit] = bytes_along.get(access.unit, 0) + size
    most = sorted(bytes_along, key=lambda axis: (-bytes_along[axis], -axis))
    return most[:2] or [count - 1]
