"""Demand of a component's operations on its grid: memory accesses, arithmetic, reductions, live registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from ...dataclass import replace
from ...errors import LayoutError
from ...ir.nodes import Region, Strided
from ...layout.grid import WIDEST_BYTES
from ...layout.iters import merged, refined
from ...ops import axes as relations
from ...ops.atomic import ATOMIC
from ...ops.copies import MASK
from ...target import target
from ..moves.updates import update_forms
from ..schedule.placement import Placement, place
from ..schedule.width import misaligned
from .axes import AxisJoin, Component, Survey, TileUse, Use
from .cost import AccessCost, Demand, Extents, Reduced, TilePart

Key = TypeVar("Key")


class _Counter:
    """Collects the demand of one component. axes: its axes, which are numbered in this order."""

    def __init__(self, survey: Survey, axes: Sequence[int], limit: int) -> None:
        self.survey = survey
        self.axes = {axis: k for k, axis in enumerate(axes)}
        self.demand = Demand(limit=limit)
        #: axes and shape of a tile -> its extents; cached, because a kernel's tiles have few different shapes
        self._wholes: dict[tuple[tuple[int | None, ...], tuple[int, ...]], Extents] = {}

    def extents(self, use: Use) -> Extents:
        if not use.cuts and None not in use.labels:
            return self.whole(use.tile)
        pairs = []
        for dim, (axis, label) in enumerate(zip(use.tile.axes, use.labels, strict=True)):
            if axis is not None and label is not None:
                pairs.append((self.axes[axis], use.extent(dim)))
        return tuple(pairs)

    def whole(self, tile: TileUse) -> Extents:
        key = tile.axes, tile.shape
        whole = self._wholes.get(key)
        if whole is None:
            pairs = zip(*key, strict=True)
            whole = self._wholes[key] = tuple([(self.axes[axis], n) for axis, n in pairs if axis is not None])
        return whole

    def step(self, step: AxisJoin, use: Use) -> None:
        """Add the demand of an operation. use: the tile whose layout the operation's other tiles follow."""
        op, demand, tile = step.op, self.demand, self.extents(use)
        if op.record.relation is relations.REDUCTION:
            kept = {label for label in step.labels["dst"] if label is not None}
            axes = zip(use.tile.axes, use.labels, strict=True)
            reduced = [self.axes[axis] for axis, label in axes if axis is not None and label not in kept]
            _add(demand.reductions, Reduced(tile, tuple(reduced)), step.iterations * len(op.written))
        elif op.record.elementwise is not None:
            _add(demand.elementwise, tile, step.iterations * op.record.elementwise.issue)
        elif op.record.relation in (relations.GENERATED, relations.ELEMENTWISE):
            _add(demand.elementwise, tile or self.whole(use.tile), step.iterations)
        for name, region in op.tiles.items():
            if name not in step.uses and region.buffer.space in ("global", "shared"):
                self.access(step, use, name, region)

    def access(self, step: AxisJoin, use: Use, name: str, region: Region) -> None:
        """Add the access of a region in memory, by an operation on the tile of `use`."""
        of_label = {
            label: self.axes[axis]
            for axis, label in zip(use.tile.axes, use.labels, strict=True)
            if axis is not None and label is not None
        }
        axes = [None if label is None else of_label.get(label) for label in step.labels.get(name, ())]
        is_store = step.op.record.operands[step.op.record.position(name)].written
        made = access(region, axes, step.op.scope, is_store)
        if made is not None and step.op.name == ATOMIC.name:
            forms = update_forms(step.op, target(self.survey.target))
            most = max([form.bits for form in forms], default=0) // region.dtype.bits
            made = replace(made, width=max(1, min(made.width, most)))
        if made is not None:
            made = replace(made, masked=MASK.name in step.op.options and name != MASK.name)
            _add(self.demand.accesses, made, step.iterations)

    def cuts(self, step: AxisJoin, use: Use) -> None:
        axes = use.tile.axes
        for dim, start, extent in use.cuts:
            axis = axes[dim]
            if axis is not None and start is not None and use.labels[dim] is not None:
                _add(self.demand.parts, TilePart(self.extents(use), self.axes[axis], start, extent), step.iterations)

    def live(self, tiles: Sequence[TileUse]) -> None:
        """Add the tiles that are live at the step at which live tiles have the most bits."""
        starts = sorted(tiles, key=lambda tile: tile.first)
        ends = sorted(tiles, key=lambda tile: tile.last)
        most = held = at = gone = 0
        for tile in starts:
            while ends[gone].last < tile.first:
                held -= _bits(ends[gone])
                gone += 1
            held += _bits(tile)
            if held > most:
                most, at = held, tile.first
        for tile in tiles:
            if tile.first <= at <= tile.last:
                _add(self.demand.live, (self.whole(tile), tile.buffer.dtype.bits), 1)


def _bits(tile: TileUse) -> int:
    bits = tile.buffer.dtype.bits
    for extent in tile.shape:
        bits *= extent
    return bits


def _add(counts: dict[Key, int], key: Key, times: int) -> None:
    counts[key] = counts.get(key, 0) + times


def demands(
    survey: Survey, components: Sequence[Component], of_tile: Mapping[TileUse, int], limit: int
) -> list[Demand]:
    """Return the demand of each component. of_tile: a tile's component, by index. limit: registers of a thread."""
    counters = [_Counter(survey, component.axes, limit) for component in components]
    for step in survey.steps:
        home = step.home
        if home is None:
            continue
        number = of_tile.get(home.tile)
        if number is not None:
            counters[number].step(step, home)
        for use in step.uses.values():
            if use.cuts and use.tile in of_tile:
                counters[of_tile[use.tile]].cuts(step, use)
    for counter, component in zip(counters, components, strict=True):
        counter.live(component.tiles)
    return [counter.demand for counter in counters]


def access(region: Region, axes: Sequence[int | None], scope: str, is_store: bool) -> AccessCost | None:
    """Return the access that moves a region of memory, or None if the region has no placement.

    axes: the tile's axis of each dimension of the region's shape; None, or missing at the end, if it has none.
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
        extent = next(extent for axis, extent, _ in pairs if axis == unit)
        width = _width(placement, extent, size)
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


def _width(placement: Placement, extent: int, size: int) -> int:
    """Return the longest vector to consider: one or two accesses that are provably aligned."""
    strides = [step.stride for dim in placement.dims for step in dim if step.stride != 1]
    width = max(1, 2 * WIDEST_BYTES // size)
    while width > 1 and (width > extent or misaligned(placement, strides, min(width, WIDEST_BYTES // size))):
        width //= 2
    return width
