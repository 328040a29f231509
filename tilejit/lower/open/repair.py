"""The kernel with layouts: tiles and views get theirs, and where an operation's tiles disagree, one is converted.

    cta.add y[...], x[...], t[...]      t, a view of x, has other threads along the rows than y
    ---
    cta.copy t.1[...], t[...]
    cta.add y[...], x[...], t.1[...]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ...dataclass import dataclass, replace
from ...dtypes import int32
from ...errors import LayoutError
from ...forks import cached_property
from ...ir import walk
from ...ir.names import FreshNames, defined_names
from ...ir.nodes import Alloc, Buffer, BufferView, Const, Kernel, Open, Region, Stmt, TileOp
from ...layout.grid import Grid, Projection, alike, alone
from ...ops import axes
from ...ops.axes import Labels
from ...ops.copies import COPY
from ...scopes import SCOPES
from ...source import Span
from ..schedule.placement import place
from .anchors import part_of
from .axes import AxisJoin, Survey, TileUse, Use, fits
from .parts import by_all_threads, suits
from .products import ProductLayouts
from .recompute import Recomputing

__all__ = ["Spot", "rewritten"]


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a tile's layout comes from.

    grid: of its component, None where it is fixed. axes: of its dimensions, numbered as the grid's.
    """

    layout: Projection
    grid: Grid | None = None
    axes: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class _View:
    """A tile as an operation sees it: a layout over its labels, whose slots are said."""

    layout: Projection
    labels: tuple[int, ...]

    @staticmethod
    def of(whole: Projection, shape: tuple[int, ...], labels: Labels) -> _View | None:
        """That of a tile of this shape, of whose dimensions some have labels; None where they can't be taken apart."""
        kept = [d for d, label in enumerate(labels) if label is not None]
        try:
            return _View(whole.along(shape, kept), tuple([label for label in labels if label is not None]))
        except LayoutError:
            return None

    def over(self, labels: Labels) -> Projection:
        """The layout of a tile with these labels, None for a dimension of extent 1."""
        dims = [None if label is None else self.labels.index(label) for label in labels]
        return self.layout.along(self.layout.slots, dims)


def rewritten(
    kernel: Kernel,
    survey: Survey,
    spots: Mapping[TileUse, Spot],
    products: ProductLayouts,
    stages: Mapping[int, Projection],
) -> Kernel:
    """The kernel at tile level. stages: by id of a copy, the layout in which it accesses memory instead."""
    rewriter = _Rewriter(kernel, survey, spots, products, stages)
    body = walk.edited(kernel.body, rewriter.edits())
    return replace(kernel, body=(*rewriter.head, *body))


class _Rewriter:
    def __init__(
        self,
        kernel: Kernel,
        survey: Survey,
        spots: Mapping[TileUse, Spot],
        products: ProductLayouts,
        stages: Mapping[int, Projection],
    ) -> None:
        self.survey, self.spots, self.products, self.stages = survey, spots, products, stages
        self.head: list[Alloc] = []
        self._buffers: dict[str, Buffer] = {}
        self._views: dict[tuple[object, ...], _View | None] = {}
        self._steps = {id(step.op): step for step in survey.steps}
        self._kernel, self._threads = kernel, kernel.threads

    # what only conversions need

    @cached_property
    def _names(self) -> FreshNames:
        return FreshNames(defined_names(self._kernel.body), 1)

    @cached_property
    def _recomputing(self) -> Recomputing:
        return Recomputing(self._kernel, self.survey)

    def edits(self) -> dict[int, Sequence[Stmt]]:
        """What stands for statements, by their numbers."""
        body, edits = self._kernel.body, dict[int, Sequence[Stmt]]()
        for number, alloc in walk.numbered(body, Alloc):
            if isinstance(alloc.buffer.layout, Open):
                edits[number] = (Alloc(self.buffer(alloc.buffer), alloc.addressed, span=alloc.span),)
        for number, view in walk.numbered(body, BufferView):
            if isinstance(view.buffer.layout, Open):
                edits[number] = (BufferView(self.buffer(view.buffer), view.span),)
        for number, op in walk.numbered(body, TileOp):
            step = self._steps.get(id(op))
            if step is not None:
                edits[number] = tuple(self.operation(step))
        return edits

    def buffer(self, buffer: Buffer) -> Buffer:
        """The tile or view with its layout."""
        if not isinstance(buffer.layout, Open):
            return buffer
        made = self._buffers.get(buffer.name)
        if made is None:
            made = self._buffers[buffer.name] = self._laid_out(buffer, buffer.layout)
        return made

    def _laid_out(self, buffer: Buffer, layout: Open) -> Buffer:
        if buffer.base is None or layout.dims is None:
            spot = self.spots[self.survey.tiles[buffer.name]].layout
            return Buffer(
                buffer.name, buffer.space, buffer.dtype, buffer.shape, spot.layout, buffer.align, buffer.base,
                buffer.span, spot.slots,
            )
        base = self.buffer(buffer.base)
        made = Projection(base.tile_layout, base.slots).along(base.fixed_shape, layout.dims).concise(buffer.fixed_shape)
        return replace(buffer, layout=made.layout, base=base, slots=made.slots)

    def region(self, region: Region) -> Region:
        buffer = self.buffer(region.buffer)
        if buffer is region.buffer:
            return region
        return Region(buffer, region.starts, region.extents, region.in_bounds, region.span, region.gathered)

    def operation(self, step: AxisJoin) -> Iterator[Stmt]:
        """The operation on tiles with layouts, between the conversions of those that disagree."""
        op = step.op
        operands = [self.region(o) if isinstance(o, Region) else o for o in op.operands]
        after: list[Stmt] = []
        for name, layout in self.converted(step):
            k = op.record.position(name)
            rule, use = op.record.operands[k], step.uses[name]
            fresh = self._fresh(use, layout)
            original = operands[k]
            assert isinstance(original, Region)
            if rule.read:
                yield from self._filled(step, use, fresh, layout, original)
            if rule.written:
                after.append(TileOp(COPY.name, op.scope, (original, fresh), (), op.span))
            operands[k] = fresh
        yield TileOp(op.name, op.scope, tuple(operands), op.attrs, op.span)
        yield from after

    def _filled(
        self, step: AxisJoin, use: Use, fresh: Region, layout: Projection, original: Region
    ) -> Sequence[TileOp]:
        """What gives the fresh tile its values: again what made them where that is cheap, else a copy."""
        make = partial(self._another, span=use.region.span)
        made = self._recomputing.again(step, use, fresh, layout, make)
        return made or (TileOp(COPY.name, step.op.scope, (fresh, original), (), step.op.span),)

    def _fresh(self, use: Use, layout: Projection) -> Region:
        """A further tile for the elements of an operand."""
        buffer, shape = use.region.buffer, use.region.shape
        slots = layout.concise(shape).slots
        made = replace(buffer, name=buffer.root.name, shape=shape, layout=layout.layout, base=None, slots=slots)
        return self._another(made, use.region.span)

    def _another(self, buffer: Buffer, span: Span | None) -> Region:
        """All of a further tile like this one."""
        made = replace(buffer, name=self._names.name(buffer.name))
        self.head.append(Alloc(made, span=span))
        return Region(made, (Const(0, int32),) * len(made.shape), made.fixed_shape, span=span)

    def converted(self, step: AxisJoin) -> Iterator[tuple[str, Projection]]:
        """(operand, the layout that it should have) of those that don't have it."""
        kind, stage = step.op.record.relation, self.stages.get(id(step.op))
        if stage is not None:
            yield next(iter(step.uses)), stage
            return
        if kind is axes.PRODUCT:
            yield from self._misfits(step)
            return
        # a copy between tiles is the conversion
        if not kind.share_layouts or (len(step.uses) == len(step.op.tiles) and kind in (axes.COPY, axes.RESHAPE)):
            return
        if self._agree(step):
            return
        home = step.home
        if home is None:
            return
        is_by_hand = not home.tile.is_open
        view = None if is_by_hand and not suits(step.op, home.region, self._threads) else self._seen(home)
        if view is None:
            view = self._apart(step, home) if self._cuts_threads(step, home) else None
            if view is None:
                return
            yield home.name, view.over(step.labels[home.name])
        for name, use in step.uses.items():
            labels = step.labels.get(name)
            if use is home or labels is None:
                continue
            seen = self._seen(use)
            if seen is view:
                continue
            along = tuple([label for label in labels if label is not None])
            if seen is None or not _same(view.over(along), seen.over(along)):
                yield name, view.over(labels)

    def _agree(self, step: AxisJoin) -> bool:
        """Whether all tiles are of one grid, along the same axes, and take whole rounds."""
        first = next(iter(step.uses.values()))
        spot = self.spots[first.tile]
        for use in step.uses.values():
            if use.cuts or use.labels != first.labels or self.spots[use.tile] is not spot:
                break
        else:
            return spot.grid is not None
        axes: dict[int, int] = {}
        grids = set()
        for use in step.uses.values():
            spot = self.spots[use.tile]
            if spot.grid is None:
                return False
            if spot.axes:
                grids.add(id(spot.grid))
            if use.cuts and not fits(use.cuts, _periods(spot)):
                return False
            for axis, label in zip(spot.axes, use.labels, strict=False):
                if label is not None and axis is not None and axes.setdefault(label, axis) != axis:
                    return False
        return len(grids) <= 1

    def _cuts_threads(self, step: AxisJoin, use: Use) -> bool:
        """Whether a part has elements of some threads only, in a way that the operation can't do with."""
        spot = self.spots[use.tile]
        if not use.tile.is_open:
            return not suits(step.op, use.region, self._threads)
        is_apart = len(step.uses) > 1 or by_all_threads(step.op)
        is_apart = is_apart or not _is_placed(self.region(use.region), step.op.scope)
        if spot.grid is None:
            return bool(use.cuts) and is_apart
        for (dim, start, extent), period in zip(use.cuts, _periods_of(use, spot), strict=True):
            axis = spot.axes[dim]
            if axis is None or start is None or fits(((0, start, extent),), (period,)):
                continue
            spread = spot.grid.spreads[axis]
            if spread.lanes * spread.warps > 1:
                return is_apart
        return False

    def _apart(self, step: AxisJoin, use: Use) -> _View | None:
        """The layout that the part would have as a tile of its own, in the grid of its tile where that has one."""
        spot, open_layout = self.spots[use.tile], use.tile.buffer.layout
        shape = use.extents
        if spot.grid is None:
            scope = open_layout.scope if isinstance(open_layout, Open) else step.op.scope
            part = alone(shape, scope, SCOPES[scope].threads(self._threads), use.tile.buffer.dtype.bits)
        else:
            part = spot.grid.project(spot.axes, shape)
        return _View.of(part, shape, use.labels)

    def _seen(self, use: Use) -> _View | None:
        """The layout of the elements that a use has, over its labels; None where they are no whole rounds.

        It is one object for uses that are alike.
        """
        spot = self.spots[use.tile]
        key = id(spot.layout.layout), spot.layout.slots, use.tile.shape, use.labels
        if not use.cuts and key in self._views:
            return self._views[key]
        view = self._viewed(use, spot)
        if not use.cuts:
            self._views[key] = view
        return view

    def _viewed(self, use: Use, spot: Spot) -> _View | None:
        layout = _part(use, spot) if use.cuts else spot.layout
        return None if layout is None else _View.of(layout, use.extents, use.labels)

    def _misfits(self, step: AxisJoin) -> Iterator[tuple[str, Projection]]:
        """The operands of a product that aren't fragments."""
        for name, use in step.uses.items():
            wanted = self.products.layout(step, name)
            if wanted is None:
                continue
            labels, slots = step.labels[name], wanted.padded(use.region.shape)
            along = tuple(label for label in labels if label is not None)
            moving = tuple(n for n, label in zip(slots, labels, strict=True) if label is not None)
            seen = self._seen(use)
            if seen is None or not _same(Projection(wanted.layout, moving), seen.over(along)):
                yield name, Projection(wanted.layout, slots)


def _part(use: Use, spot: Spot) -> Projection | None:
    """The layout of the part of a tile that a use has; None where that has elements of some threads only."""
    if spot.grid is None:
        return part_of(spot.layout, use)
    return spot.grid.project(spot.axes, use.extents) if fits(use.cuts, _periods(spot)) else None


def _same(one: Projection, other: Projection) -> bool:
    return alike(one.layout, one.slots, other.layout, other.slots)


def _is_placed(region: Region, scope: str) -> bool:
    try:
        place(region, scope)
    except LayoutError:
        return False
    return True


def _periods_of(use: Use, spot: Spot) -> list[int]:
    """Of each cut dimension."""
    periods = _periods(spot)
    return [periods[dim] for dim, _, _ in use.cuts]


def _periods(spot: Spot) -> tuple[int, ...]:
    assert spot.grid is not None
    return tuple(1 if axis is None else spot.grid.spreads[axis].period for axis in spot.axes)
