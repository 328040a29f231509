"""Fixed layouts, which tiles already have or which products require, and their propagation to other tiles.

A fixed layout propagates along operations whose tiles should have equal layouts, to tiles without further axes. The
first layout in program order takes precedence; where two conflict, one tile is converted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod

from ...errors import LayoutError
from ...ir.nodes import Open
from ...layout import TileLayout
from ...layout.grid import Projection, packed
from ...ops import axes
from ...remember import LIMIT
from ...scopes import SCOPES
from .axes import AxisJoin, Survey, TileUse, Use
from .products import ProductLayouts


def anchored(survey: Survey, products: ProductLayouts | None = None) -> dict[TileUse, Projection]:
    """Return the fixed layouts and those propagated from them; without `products`, only the user's layouts count."""
    if products is None and not [tile for tile in survey.tiles.values() if not isinstance(tile.buffer.layout, Open)]:
        return {}
    uses = [(step, use) for step in survey.steps for use in step.uses.values()]
    anchors = [(s, u.tile, layout) for s, u in uses if (layout := _fixed(s, u, products)) is not None]
    if not anchors:
        return {}
    fixed: dict[TileUse, Projection] = {}
    steps_of: dict[TileUse, list[AxisJoin]] = {}
    for step, use in uses:
        if step.op.record.relation.share_layouts:
            steps_of.setdefault(use.tile, []).append(step)
    for step, tile, layout in anchors:
        if tile not in fixed:
            fixed[tile] = layout
            if _covers_scope(layout.layout, SCOPES[step.op.scope].threads(survey.threads)):
                _spread(tile, fixed, steps_of)
    return fixed


def _covers_scope(layout: TileLayout, threads: int) -> bool:
    """True if every thread of a scope has elements, or each thread has all. Only then can the layout propagate."""
    owners = [it.extent for it in (*layout.shard, *layout.replica) if it.axis.is_thread]
    return not owners or prod(owners) == threads


def _fixed(step: AxisJoin, use: Use, products: ProductLayouts | None) -> Projection | None:
    """Return the user's layout of a tile, or the one in which a product needs it; None if there is neither."""
    layout = use.tile.buffer.layout
    if isinstance(layout, TileLayout):
        return Projection(layout)
    if products is None or step.op.record.relation is not axes.PRODUCT:
        return None
    return products.of_tile(step, use)


def _spread(first: TileUse, fixed: dict[TileUse, Projection], steps_of: Mapping[TileUse, Sequence[AxisJoin]]) -> None:
    waiting = [first]
    while waiting:
        tile = waiting.pop()
        for step in steps_of.get(tile, ()):
            source = next(use for use in step.uses.values() if use.tile is tile)
            for use in step.uses.values():
                if use.tile in fixed or not use.tile.is_open:
                    continue
                layout = _reached(source, use, fixed[tile])
                if layout is not None:
                    fixed[use.tile] = layout
                    waiting.append(use.tile)


def _reached(source: Use, use: Use, layout: Projection) -> Projection | None:
    """Return the layout that propagates from `source`, which has `layout`, to the tile of `use`; None if none does."""
    part = None if use.cuts else part_of(layout, source)
    if part is None:
        return None
    wanted = use.tile.buffer.layout
    if isinstance(wanted, Open) and any(
        axis.is_thread and axis.name not in SCOPES[wanted.scope].steps for axis in layout.layout.axes()
    ):
        return None
    axes = source.tile.axes
    dims: list[int | None] = []
    for axis, label in zip(use.tile.axes, use.labels, strict=True):
        if axis is None:
            dims.append(None)
        elif label is None or axis not in axes or label not in source.labels:
            return None
        else:
            dims.append(source.labels.index(label))
            if axes[source.labels.index(label)] != axis:
                return None
    try:
        return part.along(source.extents, dims).concise(use.tile.shape)
    except LayoutError:
        return None


def part_of(layout: Projection, use: Use) -> Projection | None:
    """Return the layout of the part of a tile that an operand uses.

    None if a cut starts at a run-time value, the part has no layout, or some threads own none of its elements.
    """
    if not use.cuts:
        return layout
    extents, whole = use.extents, layout.padded(use.tile.shape)
    starts = {dim: start for dim, start, _ in use.cuts}
    if None in starts.values():
        return None
    box = tuple([
        (start := starts.get(d) or 0, slots - start if start + extents[d] == n else extents[d])
        for d, (n, slots) in enumerate(zip(use.tile.shape, whole, strict=True))
    ])
    made = _sliced(layout.layout, whole, box)
    if made is None:
        return None
    begins_later = any(axis.is_thread and value for axis, value in made.offset)
    if begins_later or _spread_over(made) != _spread_over(layout.layout):
        return None
    slots = tuple(extent for _, extent in box)
    return Projection(TileLayout(packed(made.shard), made.replica), slots).concise(extents)


@lru_cache(LIMIT)
def _sliced(layout: TileLayout, shape: tuple[int, ...], box: tuple[tuple[int, int], ...]) -> TileLayout | None:
    """Return the layout of a box of a tile, or None if it has none. Cached, since many operations cut equal boxes."""
    try:
        return layout.slice(shape, box)
    except LayoutError:
        return None


def _spread_over(layout: TileLayout) -> int:
    return prod(it.extent for it in layout.shard if it.axis.is_thread)
