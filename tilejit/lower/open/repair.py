"""Applies the chosen layouts to a kernel, and converts tiles whose layouts don't fit an operation.

    cta.add y[...], x[...], t[...]      the rows of t, a view of x, are held by other threads than y's
    ---
    cta.copy t.1[...], t[...]
    cta.add y[...], x[...], t.1[...]

Instead of being converted by shuffles or through shared memory, a tile is recomputed if possible. This applies to
indices, fills, and results of a few cheap elementwise operations on such tiles and scalars, for example masks:

    cta.indices i[0 +: 32]; axis=0
    cta.less m[0 +: 32], i[0 +: 32], n
    cta.where y[...], m.view[0 +: 1, 0 +: 32], x[...], 0     m is distributed over the threads of y's rows
    ---
    cta.indices i.1[0 +: 1, 0 +: 32]; axis=1
    cta.less m.1[0 +: 1, 0 +: 32], i.1[0 +: 1, 0 +: 32], n
    cta.where y[...], m.1[0 +: 1, 0 +: 32], x[...], 0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ...dataclass import dataclass, replace
from ...dtypes import int32
from ...errors import LayoutError
from ...forks import cached_property
from ...ir import walk
from ...ir.arithmetic import build
from ...ir.names import FreshNames, defined_names
from ...ir.nodes import (
    Alloc,
    Breakpoint,
    Buffer,
    BufferView,
    Const,
    Expr,
    Kernel,
    Load,
    Open,
    Region,
    Stmt,
    TileOp,
    Var,
)
from ...layout.grid import Grid, Projection, alone, same_owners
from ...ops import axes
from ...ops.copies import ALONG, CAST, COPY, FILL, INDICES
from ...ops.elementwise.arithmetic import ADD
from ...scopes import SCOPES
from ...source import Span
from ..schedule.placement import place
from ..weights import ELEMENT
from .axes import AxisJoin, Survey, TileUse, Use, base_of, by_all_threads, fits, suits
from .fixed import LabelledLayout, ProductLayouts, part_of

#: a tile is recomputed by at most `_MOST_STEPS` elementwise operations, each a cast or of issue weight at most `_CHEAP`
_MOST_STEPS, _CHEAP = 2, ELEMENT

#: a part of a tile: for each dimension of the tile, (the part's dimension along it, or None; the part's start along it)
_Window = Sequence[tuple[int | None, Expr]]

_ZERO = Const(0, int32)


class Rematerializer:
    """Finds the tiles of a kernel that can be recomputed, and emits the operations that recompute them."""

    def __init__(self, kernel: Kernel, survey: Survey) -> None:
        self._body = kernel.body
        self._survey = survey
        #: tile -> the operation that computes it, and the number of elementwise operations that recompute it
        self._makers: dict[TileUse, tuple[AxisJoin, int]] = {}
        self._number = {id(step.op): number for number, step in enumerate(survey.steps)}
        for step in survey.steps:
            self._note(step)
        self._assigned: frozenset[str] | None = None
        self._places: dict[int, tuple[int, ...]] = {}

    def _note(self, step: AxisJoin) -> None:
        """Record the destination if at most `_MOST_STEPS` operations on indices, fills and scalars recompute it."""
        op, use = step.op, step.uses.get("dst")
        if use is None or use.cuts or not use.tile.is_open or use.region.buffer is not use.tile.buffer:
            return
        if self._survey.written.get(use.tile.buffer.name) != 1:
            return
        if any(isinstance(part, Load) for part in _parts(op)):
            return
        count = 0
        if op.record.relation is not axes.GENERATED:
            arguments = [each for name, each in step.uses.items() if name != "dst"]
            if not _is_cheap(op) or len(step.uses) != len(op.tiles):
                return
            if any(each.cuts or each.tile not in self._makers or _is_retyped(each) for each in arguments):
                return
            count = 1 + sum(self._makers[each.tile][1] for each in arguments)
        if count <= _MOST_STEPS:
            self._makers[use.tile] = step, count

    def rematerialized(
        self, step: AxisJoin, use: Use, fresh: Region, layout: Projection, make: Callable[[Buffer], Region]
    ) -> list[TileOp] | None:
        """Return operations that fill `fresh` with the elements of an operand, or None if they can't be recomputed.

        layout: the layout of `fresh`. make: allocates a tile like the given buffer.
        """
        if use.tile not in self._makers or _is_retyped(use) or not self._is_visible(use.tile, step):
            return None
        _, along = base_of(use.region.buffer)
        window: list[tuple[int | None, Expr]] = [(None, _ZERO)] * len(use.tile.shape)
        kept = iter(range(len(fresh.shape)))
        for dim, start, extent in zip(along, use.region.starts, use.region.extents, strict=True):
            position = None if extent is None else next(kept)
            if dim is not None:
                window[dim] = position, start
        return [replace(op, span=step.op.span) for op in self._made(use.tile, window, fresh, layout, make)]

    def _is_visible(self, tile: TileUse, step: AxisJoin) -> bool:
        """True if the scalars that a tile depends on provably have the same values at `step` as at its computation."""
        maker, _ = self._makers[tile]
        scalars = [part for part in _parts(maker.op) if isinstance(part, Var)]
        if scalars:
            if self._assigned is None:
                self._assigned = walk.assigned(self._body)
                self._find_blocks()
            here, there = self._places[id(step.op)], self._places[id(maker.op)]
            is_later = self._number[id(maker.op)] < self._number[id(step.op)] and here[: len(there)] == there
            if not is_later or any(var.name in self._assigned for var in scalars):
                return False
        return all(self._is_visible(each.tile, step) for name, each in maker.uses.items() if name != "dst")

    def _find_blocks(self) -> None:
        waiting: list[tuple[walk.Block, tuple[int, ...]]] = [(self._body, ())]
        while waiting:
            block, around = waiting.pop()
            for stmt in block:
                self._places[id(stmt)] = around
                waiting += [(inner, (*around, id(inner))) for inner in walk.blocks(stmt)]

    def _made(
        self, tile: TileUse, window: _Window, fresh: Region, layout: Projection, make: Callable[[Buffer], Region]
    ) -> Iterator[TileOp]:
        maker, _ = self._makers[tile]
        op, dst = maker.op, maker.uses["dst"]
        if op.name == INDICES.name:
            yield from _indices(op, window, fresh)
            return
        operands: list[Region | Expr | None] = [fresh, *op.operands[1:]]
        for name, use in maker.uses.items():
            if name == "dst":
                continue
            inner = [(None, _ZERO) if label is None else window[dst.labels.index(label)] for label in use.labels]
            has = {position for position, _ in inner if position is not None}
            dims = [d if d in has else None for d in range(len(fresh.shape))]
            part = layout.along(fresh.shape, dims)
            shape = tuple(1 if d is None else fresh.shape[d] for d in dims)
            like = replace(use.tile.buffer, shape=shape, layout=part.layout, slots=part.concise(shape).slots)
            region = make(like)
            yield from self._made(use.tile, inner, region, part, make)
            operands[op.record.position(name)] = region
        yield replace(op, operands=tuple(operands))


def _parts(op: TileOp) -> Iterator[Expr]:
    return (part for expr in walk.expressions(op) for part in walk.subexpressions(expr))


def _is_retyped(use: Use) -> bool:
    return use.region.dtype != use.tile.buffer.dtype


def _is_cheap(op: TileOp) -> bool:
    elementwise = op.record.elementwise
    return op.name == CAST.name or (elementwise is not None and elementwise.issue <= _CHEAP)


def _indices(op: TileOp, window: _Window, fresh: Region) -> Iterator[TileOp]:
    """Yield operations that fill `fresh` with the part `window` of the indices that `op` computes."""
    axis = dict(op.attrs)[ALONG.name]
    assert isinstance(axis, int)
    position, start = window[axis]
    first = build.cast(start, fresh.dtype)
    if position is None:
        yield TileOp(FILL.name, op.scope, (fresh, first))
        return
    attrs = tuple((name, position if name == ALONG.name else value) for name, value in op.attrs)
    yield replace(op, operands=(fresh, *op.operands[1:]), attrs=attrs)
    if not (isinstance(first, Const) and first.value == 0):
        yield TileOp(ADD.name, op.scope, (fresh, fresh, first))


@dataclass(frozen=True, slots=True)
class LayoutSource:
    """A tile's layout, the grid that it is projected from (None if it is fixed), and each dimension's grid axis."""

    layout: Projection
    grid: Grid | None = None
    axes: tuple[int | None, ...] = ()


class Rewriter:
    """Applies the layouts in `sources`. stages: id of a copy -> another layout to access memory in (see `staged`)."""

    def __init__(
        self,
        kernel: Kernel,
        survey: Survey,
        sources: Mapping[TileUse, LayoutSource],
        products: ProductLayouts,
        stages: Mapping[int, Projection],
    ) -> None:
        self.survey, self.sources, self.products, self.stages = survey, sources, products, stages
        self.head: list[Alloc] = []
        self._buffers: dict[str, Buffer] = {}
        self._views: dict[tuple[object, ...], LabelledLayout | None] = {}
        self._steps = {id(step.op): step for step in survey.steps}
        self._kernel, self._threads = kernel, kernel.threads

    # created lazily, since only conversions need them

    @cached_property
    def _names(self) -> FreshNames:
        return FreshNames(defined_names(self._kernel.body), 1)

    @cached_property
    def _rematerializer(self) -> Rematerializer:
        return Rematerializer(self._kernel, self.survey)

    def rewritten(self) -> Kernel:
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
        for number, stop in walk.numbered(body, Breakpoint):
            values = [self.region(value) if isinstance(value, Region) else value for value in stop.values]
            edits[number] = (replace(stop, values=tuple(values)),)
        edited = walk.edited(body, edits)
        return replace(self._kernel, body=(*self.head, *edited))

    def buffer(self, buffer: Buffer) -> Buffer:
        if not isinstance(buffer.layout, Open):
            return buffer
        made = self._buffers.get(buffer.name)
        if made is None:
            made = self._buffers[buffer.name] = self._laid_out(buffer, buffer.layout)
        return made

    def _laid_out(self, buffer: Buffer, layout: Open) -> Buffer:
        if buffer.base is None or layout.dims is None:
            source = self.sources[self.survey.tiles[buffer.name]].layout
            return replace(buffer, layout=source.layout, slots=source.slots)
        base = self.buffer(buffer.base)
        made = Projection(base.tile_layout, base.slots).along(base.fixed_shape, layout.dims).concise(buffer.fixed_shape)
        return replace(buffer, layout=made.layout, base=base, slots=made.slots)

    def region(self, region: Region) -> Region:
        buffer = self.buffer(region.buffer)
        if buffer is region.buffer:
            return region
        return Region(buffer, region.starts, region.extents, region.in_bounds, region.span, region.gathered)

    def operation(self, step: AxisJoin) -> Iterator[Stmt]:
        """Yield the operation, and before and after it the conversions of tiles whose layouts don't fit it."""
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
        """Return the operations that fill the fresh tile: they recompute its elements if possible, else copy them."""
        make = partial(self._another, span=use.region.span)
        made = self._rematerializer.rematerialized(step, use, fresh, layout, make)
        return made or (TileOp(COPY.name, step.op.scope, (fresh, original), (), step.op.span),)

    def _fresh(self, use: Use, layout: Projection) -> Region:
        buffer, shape = use.region.buffer, use.region.shape
        slots = layout.concise(shape).slots
        made = replace(buffer, name=buffer.root.name, shape=shape, layout=layout.layout, base=None, slots=slots)
        return self._another(made, use.region.span)

    def _another(self, buffer: Buffer, span: Span | None) -> Region:
        made = replace(buffer, name=self._names.name(buffer.name))
        self.head.append(Alloc(made, span=span))
        return Region(made, (Const(0, int32),) * len(made.shape), made.fixed_shape, span=span)

    def converted(self, step: AxisJoin) -> Iterator[tuple[str, Projection]]:
        """Yield (name, required layout) of each operand that must be converted."""
        kind, stage = step.op.record.relation, self.stages.get(id(step.op))
        if stage is not None:
            yield next(iter(step.uses)), stage
            return
        if kind is axes.PRODUCT:
            yield from self._misfits(step)
            return
        # a copy or a reshape between tiles is the conversion itself
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
            view = self._as_own_tile(step, home) if self._cuts_threads(step, home) else None
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
        """True if all tiles with axes share one grid and agree on the axes, and parts consist of whole periods."""
        first = next(iter(step.uses.values()))
        source = self.sources[first.tile]
        for use in step.uses.values():
            if use.cuts or use.labels != first.labels or self.sources[use.tile] is not source:
                break
        else:
            return source.grid is not None
        axes: dict[int, int] = {}
        grids = set()
        for use in step.uses.values():
            source = self.sources[use.tile]
            if source.grid is None:
                return False
            if source.axes:
                grids.add(id(source.grid))
            if use.cuts and not fits(use.cuts, _periods(source)):
                return False
            for axis, label in zip(source.axes, use.labels, strict=False):
                if label is not None and axis is not None and axes.setdefault(label, axis) != axis:
                    return False
        return len(grids) <= 1

    def _cuts_threads(self, step: AxisJoin, use: Use) -> bool:
        """True if only some threads may have elements of a part, and the operation doesn't support that."""
        source = self.sources[use.tile]
        if not use.tile.is_open:
            return not suits(step.op, use.region, self._threads)
        needs_own_tile = len(step.uses) > 1 or by_all_threads(step.op)
        needs_own_tile = needs_own_tile or not _is_placed(self.region(use.region), step.op.scope)
        if source.grid is None:
            return bool(use.cuts) and needs_own_tile
        periods = _periods(source)
        for cut in use.cuts:
            dim, start, _ = cut
            axis = source.axes[dim]
            if axis is None or start is None or fits((cut,), periods):
                continue
            spread = source.grid.spreads[axis]
            if spread.lanes * spread.warps > 1:
                return needs_own_tile
        return False

    def _as_own_tile(self, step: AxisJoin, use: Use) -> LabelledLayout | None:
        """Return the layout that a part would have as a separate tile, or None. It uses the tile's grid, if any."""
        source, open_layout = self.sources[use.tile], use.tile.buffer.layout
        shape = use.extents
        if source.grid is None:
            scope = open_layout.scope if isinstance(open_layout, Open) else step.op.scope
            part = alone(shape, scope, SCOPES[scope].threads(self._threads), use.tile.buffer.dtype.bits)
        else:
            part = source.grid.project(source.axes, shape)
        return LabelledLayout.of(part, shape, use.labels)

    def _seen(self, use: Use) -> LabelledLayout | None:
        """Return a use's layout over its labelled dimensions, or None. Equal uses of whole tiles share one object."""
        source = self.sources[use.tile]
        key = id(source.layout.layout), source.layout.slots, use.tile.shape, use.labels
        if not use.cuts and key in self._views:
            return self._views[key]
        layout = _part(use, source) if use.cuts else source.layout
        view = None if layout is None else LabelledLayout.of(layout, use.extents, use.labels)
        if not use.cuts:
            self._views[key] = view
        return view

    def _misfits(self, step: AxisJoin) -> Iterator[tuple[str, Projection]]:
        """Yield (name, fragment layout) for each operand of a product whose current layout differs from it."""
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


def _part(use: Use, source: LayoutSource) -> Projection | None:
    """Return the layout of a part of a tile, or None, for example if only some threads have its elements."""
    if source.grid is None:
        return part_of(source.layout, use)
    return source.grid.project(source.axes, use.extents) if fits(use.cuts, _periods(source)) else None


def _same(one: Projection, other: Projection) -> bool:
    return same_owners(one.layout, one.slots, other.layout, other.slots)


def _is_placed(region: Region, scope: str) -> bool:
    try:
        place(region, scope)
    except LayoutError:
        return False
    return True


def _periods(source: LayoutSource) -> tuple[int, ...]:
    assert source.grid is not None
    return tuple(1 if axis is None else source.grid.spreads[axis].period for axis in source.axes)
