"""Layouts that are fixed: those that tiles came with, and the fragments of products; and the tiles that they reach.

A fixed layout spreads along operations whose tiles should be laid out alike, to tiles that have no further axes. Which
stands first in the text goes first; where two meet and differ, one tile is converted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...errors import LayoutError
from ...ir.nodes import Open
from ...layout import TileLayout, layout_a, layout_b, layout_c
from ...layout.grid import Projection, projected
from ...ops import relation
from ...scopes import SCOPES
from ...target import WARP
from .axes import Meeting, Survey, Tile, Use

__all__ = ["WarpSplit", "anchored", "padded"]

_FRAGMENTS = {"acc": layout_c, "a": layout_a, "b": layout_b}

#: (M, N, K) of the smallest product; K as of 16-bit factors, and fewer never fit
_ROWS, _COLUMNS = 16, 8


class WarpSplit:
    """How the warps of a scope share the products of a kernel: (warps along M, warps along N) for each scope."""

    def __init__(self, survey: Survey, threads: int) -> None:
        self.threads = threads
        self.warps: dict[str, tuple[int, int]] = {}
        products = [step for step in survey.steps if step.op.record.relation is relation.PRODUCT]
        lefts = {survey.axes(step.uses["a"].tile) for step in products if "a" in step.uses}
        for scope in dict.fromkeys(step.op.scope for step in products):
            self._share(survey, [step for step in products if step.op.scope == scope], scope, lefts)

    def _share(
        self, survey: Survey, products: Sequence[Meeting], scope: str, lefts: set[tuple[int | None, ...]]
    ) -> None:
        """Least traffic of factors; an accumulator that becomes the left factor of another product has whole rows."""
        warps, rest = divmod(SCOPES[scope].threads(self.threads), WARP)
        if rest:
            return
        feeds = any("acc" in step.uses and survey.axes(step.uses["acc"].tile) in lefts for step in products)
        extents = [_extents(step) for step in products]
        splits = [(warps // wn, wn) for wn in range(1, warps + 1) if warps % wn == 0 and (wn == 1 or not feeds)]
        fitting = [
            (wm, wn)
            for wm, wn in splits
            if all(m % (_ROWS * wm) == 0 and n % (_COLUMNS * wn) == 0 for m, n, _ in extents)
        ]
        if fitting:
            self.warps[scope] = min(
                fitting, key=lambda split: (sum(m * k * split[1] + k * n * split[0] for m, n, k in extents), -split[0])
            )

    def layout(self, step: Meeting, name: str) -> TileLayout | None:
        """The layout of an operand over its own dimensions; None where no fragment fits."""
        warps = self.warps.get(step.op.scope)
        if warps is None:
            return None
        region = step.op.region(name)
        scope = "warpgroup" if step.op.scope == "warpgroup" else "cta"
        try:
            return _FRAGMENTS[name](region.shape, region.dtype, warps, scope)
        except LayoutError:
            return None


def _extents(step: Meeting) -> tuple[int, int, int]:
    (rows, columns), depth = step.op.region("acc").shape, step.op.region("a").shape[1]
    return rows, columns, depth


def anchored(survey: Survey, fragments: WarpSplit) -> dict[Tile, Projection]:
    """The fixed layouts, and those of the tiles that they reach."""
    fixed: dict[Tile, Projection] = {}
    meeting: dict[Tile, list[Meeting]] = {}
    for step in survey.steps:
        if step.op.record.relation.are_alike:
            for use in step.uses.values():
                meeting.setdefault(use.tile, []).append(step)
    for step in survey.steps:
        for use in step.uses.values():
            layout = _fixed(step, use, fragments)
            if use.tile not in fixed and layout is not None:
                fixed[use.tile] = layout
                _spread(survey, use.tile, fixed, meeting)
    return fixed


def _fixed(step: Meeting, use: Use, fragments: WarpSplit) -> Projection | None:
    """The layout with which a tile came, or in which a product wants it."""
    layout = use.tile.buffer.layout
    if isinstance(layout, TileLayout):
        return Projection(layout)
    if step.op.record.relation is not relation.PRODUCT or use.cuts:
        return None
    wanted, labels = fragments.layout(step, use.name), step.labels[use.name]
    if wanted is None or any(label not in labels for label in use.labels):
        return None
    return Projection(projected(wanted, step.op.region(use.name).shape, [labels.index(label) for label in use.labels]))


def _spread(
    survey: Survey, first: Tile, fixed: dict[Tile, Projection], meeting: Mapping[Tile, Sequence[Meeting]]
) -> None:
    waiting = [first]
    while waiting:
        tile = waiting.pop()
        for step in meeting.get(tile, ()):
            source = next(use for use in step.uses.values() if use.tile is tile)
            for use in step.uses.values():
                if use.tile in fixed:
                    continue
                layout = _reached(survey, source, use, fixed[tile])
                if layout is not None:
                    fixed[use.tile] = layout
                    waiting.append(use.tile)


def _reached(survey: Survey, source: Use, use: Use, layout: Projection) -> Projection | None:
    """The layout of another operand's tile, from that of `source`; None where it has a further axis."""
    if source.cuts or use.cuts:
        return None
    scope = use.tile.buffer.layout
    if isinstance(scope, Open) and any(
        axis.is_thread and axis.name not in SCOPES[scope.scope].steps for axis in layout.layout.axes()
    ):
        return None
    axes = survey.axes(source.tile)
    dims: list[int | None] = []
    for axis, label in zip(survey.axes(use.tile), use.labels, strict=True):
        if axis is None:
            dims.append(None)
        elif label is None or axis not in axes or label not in source.labels:
            return None
        else:
            dims.append(source.labels.index(label))
            if axes[source.labels.index(label)] != axis:
                return None
    shape = padded(layout, source.tile.shape)
    try:
        made = projected(layout.layout, shape, dims)
    except LayoutError:
        return None
    slots = tuple(1 if d is None else shape[d] for d in dims)
    return Projection(made, () if slots == use.tile.shape else slots)


def padded(layout: Projection, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The extents that the layout has, padding included."""
    return layout.slots or shape
