"""The pass: a kernel's open tiles get their layouts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir.nodes import Kernel, Open
from ...layout.grid import Grid, Projection, Spread, units
from ...scopes import SCOPES
from .anchors import Fragments, anchored
from .axes import Survey, Tile, survey
from .choose import choose, order_axes
from .demand import demands
from .repair import Spot, rewritten

__all__ = ["LaidOut", "LayoutChoice", "lay_out"]


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """What became of tiles that hang together.

    tiles: their names, in the order of the text. axes: extents. grid: how threads are spread over them.
    cost, next_cost: in quarter cycles of a multiprocessor, of the grid and of the next best; None where there is none.
    """

    tiles: tuple[str, ...]
    axes: tuple[int, ...]
    grid: Grid
    cost: int
    next_cost: int | None


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A kernel at tile level, and how its layouts were chosen."""

    kernel: Kernel
    choices: tuple[LayoutChoice, ...] = ()


def lay_out(kernel: Kernel) -> LaidOut:
    """The kernel with layouts for its open tiles; itself where it has none."""
    made = survey(kernel)
    if made is None:
        return LaidOut(kernel)
    fragments = Fragments(made, kernel.threads)
    fixed = anchored(made, fragments)
    spots = {tile: Spot(layout) for tile, layout in fixed.items()}
    free = [tile for tile in made.tiles.values() if tile.is_open and tile not in fixed]
    choices = _choose(made, free, spots, kernel.threads)
    for tile in free:
        if tile not in spots:
            spots[tile] = _single(tile, kernel.threads)
    return LaidOut(rewritten(kernel, made, spots, fragments), tuple(choices))


def _choose(made: Survey, free: list[Tile], spots: dict[Tile, Spot], threads: int) -> list[LayoutChoice]:
    """Chooses a grid for each component of the tiles, and projects it on them."""
    components = made.components(free)
    columns: list[list[int]] = []
    for component in components:
        component.axes, by_axis = order_axes(made, component)
        columns.append(by_axis)
    of_tile = {tile: k for k, component in enumerate(components) for tile in component.tiles}
    choices: list[LayoutChoice] = []
    for component, by_axis, demand in zip(components, columns, demands(made, components, of_tile), strict=True):
        chosen = choose(component, by_axis, demand, SCOPES[component.scope].threads(threads), made)
        numbers = {axis: k for k, axis in enumerate(component.axes)}
        projections: dict[tuple[tuple[int | None, ...], tuple[int, ...]], Projection] = {}
        extents = [1] * len(numbers)
        for tile in component.tiles:
            axes = tuple([None if axis is None else numbers[axis] for axis in made.axes(tile)])
            for axis, extent in zip(axes, tile.shape, strict=True):
                if axis is not None:
                    extents[axis] = max(extents[axis], extent)
            key = axes, tile.shape
            if key not in projections:
                projections[key] = chosen.grid.project(axes, tile.shape)
            spots[tile] = Spot(projections[key], chosen.grid, axes)
        names = tuple(tile.buffer.name for tile in component.tiles)
        choices.append(LayoutChoice(names, tuple(extents), chosen.grid, chosen.cost, chosen.next_cost))
    return choices


def _single(tile: Tile, threads: int) -> Spot:
    """A tile of one element, which every thread has."""
    layout = tile.buffer.layout
    assert isinstance(layout, Open)
    lanes, warps = units(SCOPES[layout.scope].threads(threads))
    grid = Grid(layout.scope, lanes, warps, (Spread(lanes, warps, 1),), (0,), 0)
    made = grid.project((None,) * len(tile.shape), tile.shape)
    return Spot(replace(made, slots=()), grid)
