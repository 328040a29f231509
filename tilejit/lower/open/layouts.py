"""The pass that lays out a kernel's open tiles."""

from __future__ import annotations

from ...dataclass import dataclass, replace
from ...ir.analyses.register_pool import most_of_a_thread
from ...ir.nodes import Kernel, Open
from ...layout.grid import Grid, everywhere
from ...scopes import SCOPES
from .anchors import anchored
from .axes import Survey, TileUse, survey
from .choose import choose, order_axes
from .demand import demands
from .flat import flattened
from .products import ProductLayouts, has_products
from .reload import reload_operands
from .repair import LayoutSource, Rewriter
from .same_threads import on_one_scope
from .staging import staged


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """The grid chosen for a component of tiles."""

    #: names of the tiles, in program order
    tiles: tuple[str, ...]
    axes: tuple[int, ...]
    #: the distribution of threads over the axes
    grid: Grid
    #: cost in quarter cycles of a multiprocessor
    cost: int
    #: cost of the runner-up, if any
    next_cost: int | None
    #: shape of the tiles before they were flattened to one axis; () if they weren't
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        spreads = self.grid.spreads
        digits = (
            ("lanes", tuple(spread.lanes for spread in spreads)),
            ("warps", tuple(spread.warps for spread in spreads)),
            ("vectors", tuple(spread.vector for spread in spreads)),
        )
        listed = ", ".join(f"{name} {values}" for name, values in digits)
        others = "" if self.next_cost is None else f", the next {self.next_cost:,}"
        extents = f"{self.shape} as {self.axes}" if self.shape else f"{self.axes}"
        return f"{', '.join(self.tiles)} over {extents}: {listed}; cost {self.cost:,}{others}"


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A kernel at tile level with all layouts, and the choices made for its open tiles."""

    kernel: Kernel
    choices: tuple[LayoutChoice, ...] = ()


def lay_out(kernel: Kernel) -> LaidOut:
    """Return `kernel` with layouts for its open tiles, and the choices made."""
    kernel, flat = flattened(on_one_scope(kernel))
    made = survey(kernel)
    if made is None:
        return LaidOut(kernel)
    reloaded = reload_operands(kernel, made)
    if reloaded is not kernel:
        kernel, made = reloaded, survey(reloaded) or made
    multiplies = has_products(made)
    products = ProductLayouts(kernel, made, anchored(made) if multiplies else {})
    fixed = anchored(made, products if multiplies else None)
    sources = {tile: LayoutSource(layout) for tile, layout in fixed.items()}
    free = [tile for tile in made.tiles.values() if tile.is_open and tile not in fixed]
    choices = _choose(made, free, sources, kernel)
    choices = [replace(choice, shape=flat.get(choice.tiles[0], ())) for choice in choices]
    for tile in free:
        if tile not in sources:
            sources[tile] = _single(tile, kernel.threads)
    stages = staged(made, fixed, kernel.threads)
    return LaidOut(Rewriter(kernel, made, sources, products, stages).rewritten(), tuple(choices))


def _choose(
    made: Survey, free: list[TileUse], sources: dict[TileUse, LayoutSource], kernel: Kernel
) -> list[LayoutChoice]:
    components = made.components(free)
    columns: list[list[int]] = []
    for component in components:
        component.axes, by_axis = order_axes(component)
        columns.append(by_axis)
    of_tile = {tile: k for k, component in enumerate(components) for tile in component.tiles}
    choices: list[LayoutChoice] = []
    asked = demands(made, components, of_tile, most_of_a_thread(kernel))
    for component, by_axis, demand in zip(components, columns, asked, strict=True):
        numbers = {axis: k for k, axis in enumerate(component.axes)}
        of_tiles = [
            tuple([None if axis is None else numbers[axis] for axis in tile.axes]) for tile in component.tiles
        ]
        extents = [1] * len(numbers)
        for tile, axes in zip(component.tiles, of_tiles, strict=True):
            for axis, extent in zip(axes, tile.shape, strict=True):
                if axis is not None:
                    extents[axis] = max(extents[axis], extent)
        chosen = choose(component.scope, SCOPES[component.scope].threads(kernel.threads), extents, by_axis, demand)
        of_shape: dict[tuple[tuple[int | None, ...], tuple[int, ...]], LayoutSource] = {}
        for tile, axes in zip(component.tiles, of_tiles, strict=True):
            key = axes, tile.shape
            if key not in of_shape:
                of_shape[key] = LayoutSource(chosen.grid.project(axes, tile.shape), chosen.grid, axes)
            sources[tile] = of_shape[key]
        names = tuple([tile.buffer.name for tile in component.tiles])
        choices.append(LayoutChoice(names, tuple(extents), chosen.grid, chosen.cost, chosen.next_cost))
    return choices


def _single(tile: TileUse, threads: int) -> LayoutSource:
    layout = tile.buffer.layout
    assert isinstance(layout, Open)
    grid = everywhere(layout.scope, SCOPES[layout.scope].threads(threads))
    made = grid.project((None,) * len(tile.shape), tile.shape)
    return LayoutSource(replace(made, slots=()), grid)
