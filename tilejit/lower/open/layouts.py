"""The pass that lays out a kernel's open tiles, and three rewrites that precede the choice of layouts.

Open tiles of scopes with the same threads, such as a warp and a CTA of one warp, move to one scope.

Dimensions that are contiguous in memory, and that no operation distinguishes, are flattened to one:

    param X: global float32[4096, 3] S[(4096, 3) : (3, 1)]
    cta.copy x[0 +: 1024, 0 +: 3], X[i +: 1024, 0 +: 3]
    cta.mul y[0 +: 1024, 0 +: 3], x[0 +: 1024, 0 +: 3], 2.0
    ---
    view X.1: global float32[12288] S[12288 : 1] of X
    cta.copy x[0 +: 3072], X.1[i * 3 +: 3072]
    cta.mul y[0 +: 3072], x[0 +: 3072], 2.0

Vectors of a flat tile may cross the ends of rows, and its elements are distributed over threads as if it had no rows.
Tiles connected by operations are flattened together or not at all: all must be open, have the same extents, and be used
as a whole, element by element or in reductions over all axes. Flattening gains nothing if each row is a whole number of
warp-wide accesses, so it isn't done then.

A tile that an operation needs in two layouts may be loaded from global memory a second time:

    cta.copy x[...], X[...]             cta.copy x[...], X[...]
    view t of x (1, 0)                  cta.copy x.1[...], X[...]
    cta.add y[...], x[...], t[...]      view x.2 of x.1 (1, 0)
                                        cta.add y[...], x[...], x.2[...]

The second load directly follows the first, so nothing is written between them and both are in flight together. The
choice of the grid considers the axes of both tiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from math import prod

from ...dataclass import dataclass, replace
from ...dtypes import DType, int32, int64
from ...ir import walk
from ...ir.analyses.register_pool import most_of_a_thread
from ...ir.arithmetic import build
from ...ir.arithmetic.facts import bounds, is_data
from ...ir.names import FreshNames, defined_names
from ...ir.nodes import Alloc, Breakpoint, Buffer, BufferView, Const, Kernel, Open, Region, Stmt, TileOp
from ...ir.params import PointerParam
from ...ir.rewriting import Rewriting
from ...layout import TileLayout
from ...layout.axes import m
from ...layout.grid import WIDEST_BYTES, Grid, everywhere
from ...layout.iters import Iter, merged, refined
from ...ops import axes as relations
from ...ops.copies import COPY, FILL, INDEX
from ...ops.reduce import AXIS, REDUCTIONS, axes_of
from ...scopes import SCOPES
from ...target import WARP
from .axes import AxisJoin, Survey, TileUse, Use, base_of, survey
from .choose import choose, demands
from .fixed import ProductLayouts, anchored, staged
from .repair import LayoutSource, Rewriter


def on_one_scope(kernel: Kernel) -> Kernel:
    """Move open tiles of scopes that span the CTA to the narrowest such scope, whose thread axes are valid in all."""
    same = [scope.name for scope in SCOPES.values() if scope.threads(kernel.threads) == kernel.threads]
    if len(same) == 1:
        return kernel
    tiles = {alloc.buffer.name: scope for alloc in walk.each(kernel.body, Alloc) if (scope := _scope(alloc.buffer))}
    if not tiles:
        return kernel
    operating = {op.scope for op in walk.each(kernel.body, TileOp) if any(_scope(t.buffer) for t in op.tiles.values())}
    if len(operating.union(tiles.values()).intersection(same)) < 2:
        return kernel
    moved = {name for name, scope in tiles.items() if scope in same[1:]}
    if not moved:
        return kernel
    buffers = [stmt.buffer for stmt in walk.statements(kernel.body) if isinstance(stmt, walk.BUFFERS)]
    others = {buffer.name: _on(buffer, same[0]) for buffer in buffers if buffer.root.name in moved}
    return replace(kernel, body=Rewriting(others).block(kernel.body))


def _scope(buffer: Buffer) -> str | None:
    return buffer.layout.scope if isinstance(buffer.layout, Open) else None


def _on(buffer: Buffer, scope: str) -> Buffer:
    assert isinstance(buffer.layout, Open)
    base = None if buffer.base is None else _on(buffer.base, scope)
    return replace(buffer, layout=Open(scope, buffer.layout.dims), base=base)


#: a shape's extents other than 1, in order
_Extents = tuple[int, ...]


def flattened(kernel: Kernel) -> tuple[Kernel, dict[str, tuple[int, ...]]]:
    """Flatten tiles where possible and useful; return the kernel, and the former shapes of flattened tiles by name."""
    tensors = [param.buffer for param in kernel.params if isinstance(param, PointerParam)]
    if not any(map(_may_be_flat, tensors)):
        return kernel, {}
    flat = _FlatTiles(kernel)
    shapes = flat.shapes()
    return (flat.rewritten(shapes), shapes) if shapes else (kernel, {})


def _may_be_flat(buffer: Buffer) -> bool:
    """True if a tensor has several dimensions, and its extents and strides are compile-time constants."""
    return isinstance(buffer.layout, TileLayout) and len(buffer.shape) > 1


class _FlatTiles:
    """Finds the open tiles to flatten, by a union-find of those that share operations, and flattens them."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._parents: dict[str, str] = {}
        self._tiles: dict[str, Buffer] = {}
        self._excluded: set[str] = set()
        self._ragged: set[str] = set()
        self._names = FreshNames(defined_names(kernel.body), 1)
        self._views: dict[tuple[str, int], Buffer] = {}
        for stmt in walk.statements(kernel.body):
            self._note(stmt)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        excluded, ragged = ({self._root(name) for name in names} for names in (self._excluded, self._ragged))
        roots = {name: self._root(name) for name in self._tiles}
        return {name: self._tiles[name].fixed_shape for name, root in roots.items() if root in ragged - excluded}

    def _note(self, stmt: Stmt) -> None:
        if isinstance(stmt, Alloc) and _is_wide(stmt.buffer):
            self._tiles[stmt.buffer.name], self._parents[stmt.buffer.name] = stmt.buffer, stmt.buffer.name
        elif isinstance(stmt, BufferView) and stmt.buffer.root.name in self._tiles:
            self._excluded.add(stmt.buffer.root.name)
        elif isinstance(stmt, TileOp):
            self._join_operands(stmt)

    def _join_operands(self, op: TileOp) -> None:
        names = [o.buffer.root.name for o in op.operands if isinstance(o, Region) and o.buffer.root.name in self._tiles]
        if not names:
            return
        if not self._is_flat(op, _wide(self._tiles[names[0]].fixed_shape)):
            self._excluded.update(names)
        elif any(region.buffer.space == "global" and _has_ragged_rows(region) for region in op.tiles.values()):
            self._ragged.add(names[0])
        for name in names[1:]:
            self._parents[self._root(name)] = self._root(names[0])

    def _root(self, name: str) -> str:
        while self._parents[name] != name:
            name = self._parents[name]
        return name

    def _is_flat(self, op: TileOp, extents: _Extents) -> bool:
        """True if an operation on tiles of these extents computes the same on flattened ones."""
        is_reduction = op.name in REDUCTIONS
        if is_reduction and len(axes_of(dict(op.attrs), len(op.region("src").shape))) < len(op.region("src").shape):
            return False
        kind = op.record.relation
        if not is_reduction and kind is not relations.ELEMENTWISE and op.name not in (COPY.name, FILL.name):
            return False
        if op.name == COPY.name and INDEX.name in op.options:
            return False
        return all(self._fits(name, region, op, extents) for name, region in op.tiles.items())

    def _fits(self, name: str, region: Region, op: TileOp, extents: _Extents) -> bool:
        """True if an operand allows the operation's tiles, of these extents, to be flattened."""
        if region.gathered is not None:
            return False
        if region.buffer.space == "global":
            return op.name == COPY.name and _wide(region.shape) == extents and _run_start(region) is not None
        if region.buffer.space != "local":
            return False
        if not region.shape or (name == "dst" and op.name in REDUCTIONS):
            return True
        is_whole = region.buffer.name in self._tiles and region.extents == region.buffer.shape
        return is_whole and _wide(region.shape) == extents

    def rewritten(self, shapes: dict[str, tuple[int, ...]]) -> Kernel:

        def changed(stmt: Stmt) -> tuple[Stmt, ...]:
            if isinstance(stmt, Alloc) and stmt.buffer.name in shapes:
                return (replace(stmt, buffer=_flattened_buffer(stmt.buffer)),)
            if isinstance(stmt, TileOp) and any(region.buffer.name in shapes for region in stmt.tiles.values()):
                return (self._flat_operation(stmt, shapes),)
            if isinstance(stmt, Breakpoint):
                return (replace(stmt, values=tuple([
                    self._flat(x, shapes) if isinstance(x, Region) and x.buffer.name in shapes else x
                    for x in stmt.values
                ])),)
            return (stmt,)

        body = walk.rewrite(self._kernel.body, changed)
        return replace(self._kernel, body=tuple(self._with_views(body)))

    def _with_views(self, body: Sequence[Stmt]) -> Iterator[Stmt]:
        """Yield the statements and the new views, each view after its base; those of parameters come first."""
        of_base: dict[str, list[Stmt]] = {}
        for (base, _), view in self._views.items():
            of_base.setdefault(base, []).append(BufferView(view, view.span))
        for param in self._kernel.params:
            yield from of_base.get(param.buffer.name, ()) if isinstance(param, PointerParam) else ()
        for stmt in body:
            yield stmt
            if isinstance(stmt, BufferView):
                yield from of_base.get(stmt.buffer.name, ())

    def _flat_operation(self, op: TileOp, shapes: dict[str, tuple[int, ...]]) -> TileOp:
        attrs = op.attrs
        if op.name in REDUCTIONS:
            attrs = tuple([(name, (0,) if name == AXIS.name else value) for name, value in attrs])
        operands = tuple([self._flat(o, shapes) if isinstance(o, Region) else o for o in op.operands])
        return replace(op, operands=operands, attrs=attrs)

    def _flat(self, region: Region, shapes: dict[str, tuple[int, ...]]) -> Region:
        if region.buffer.name in shapes:
            made = _flattened_buffer(region.buffer)
            return Region(made, (Const(0, int32),), made.fixed_shape, span=region.span)
        first = _run_start(region) if region.buffer.space == "global" else None
        if first is None:
            return region
        inside = prod(region.buffer.fixed_shape[first + 1 :])
        start = build.cast(region.starts[first], int64)
        if is_data(start) and None in bounds(build.mul(start, inside)):
            # a start outside the tensor must not wrap around to one inside
            count, size = region.counts[first], region.buffer.fixed_shape[first]
            start = build.minimum(build.maximum(start, -count), size)
        start = build.mul(start, inside)
        return replace(
            region,
            buffer=self._view(region.buffer, first),
            starts=(*region.starts[:first], start),
            extents=(*region.extents[:first], region.counts[first] * inside),
        )

    def _view(self, buffer: Buffer, first: int) -> Buffer:
        key = buffer.name, first
        if key not in self._views:
            shape, strides = buffer.fixed_shape, _strides(buffer)
            count = prod(shape[first:])
            iters = [Iter(n, stride, m) for n, stride in zip(shape[:first], strides, strict=False)]
            self._views[key] = replace(
                buffer, name=self._names.name(buffer.name), shape=(*shape[:first], count),
                layout=TileLayout((*iters, Iter(count, 1, m))), base=buffer,
            )
        return self._views[key]


def _wide(shape: Sequence[int]) -> _Extents:
    return tuple([n for n in shape if n != 1])


def _is_wide(buffer: Buffer) -> bool:
    return isinstance(buffer.layout, Open) and buffer.base is None and len(_wide(buffer.fixed_shape)) > 1


def _flattened_buffer(buffer: Buffer) -> Buffer:
    return replace(buffer, shape=(prod(buffer.fixed_shape),))


def _has_ragged_rows(region: Region) -> bool:
    """True if rows (along the last dimension of several elements) aren't a whole number of warp-wide accesses."""
    return _wide(region.shape)[-1] * region.dtype.bytes % (WARP * WIDEST_BYTES) != 0


def _run_start(region: Region) -> int | None:
    """Return the first dimension of several elements, if the region covers all later ones, contiguously; else None."""
    buffer = region.buffer
    if not isinstance(buffer.layout, TileLayout):
        return None
    shape, strides = buffer.fixed_shape, _strides(buffer)
    first = next((d for d, count in enumerate(region.counts) if count != 1), None)
    if first is None or not strides or strides[-1] != 1:
        return None
    for d in range(first + 1, len(shape)):
        is_all = region.counts[d] == shape[d] and region.starts[d] == Const(0, region.starts[d].dtype)
        if not is_all or strides[d - 1] != strides[d] * shape[d]:
            return None
    return first


def _strides(buffer: Buffer) -> list[int]:
    """Return the dimensions' strides; [] if the layout has a swizzle, an offset or several strides in a dimension."""
    if buffer.tile_layout.swizzle is not None or buffer.tile_layout.offset:
        return []
    shape = buffer.fixed_shape
    groups = [merged(group) for group in refined(buffer.tile_layout.shard, shape)]
    if any(len(group) > 1 for group in groups):
        return []
    strides = [1]
    for group, size in zip(reversed(groups), (1, *reversed(shape)), strict=False):
        # a dimension of one element is contiguous with those after it
        strides.append(group[0].stride if group else strides[-1] * size)
    return strides[:0:-1]


#: tiles of more bytes aren't loaded again, since the caches may evict them before the second load
_MOST_BYTES = 64 * 1024


def reload_operands(kernel: Kernel, survey: Survey) -> Kernel:
    """Give operands that `survey` refused new tiles, loaded a second time, if `_loads` has the first load."""
    if not survey.refused:
        return kernel
    loads = _loads(survey)
    wanted = [(step, use) for step, use in survey.refused if use.tile in loads and step is not loads[use.tile]]
    if not wanted:
        return kernel
    rewriter = _Reloader(kernel, loads)
    operands: dict[int, dict[str, Region]] = {}
    for step, use in wanted:
        operands.setdefault(id(step.op), {})[use.name] = rewriter.operand(use)

    def changed(stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, Alloc):
            return (stmt, *rewriter.definitions.get(stmt.buffer.name, ()))
        if isinstance(stmt, TileOp) and id(stmt) in operands:
            pairs = zip(stmt.record.operands, stmt.operands, strict=False)
            stmt = replace(stmt, operands=tuple(operands[id(stmt)].get(rule.name, o) for rule, o in pairs))
            return (stmt,)
        return (stmt, *rewriter.after.get(id(stmt), ()))

    return replace(kernel, body=walk.rewrite(kernel.body, changed))


def _loads(survey: Survey) -> dict[TileUse, AxisJoin]:
    """Return the load of each open tile that can be loaded again.

    No other operation may write the tile. The load must fill all of it, at most `_MOST_BYTES`, from global memory, and
    use no other local tile.
    """
    loads: dict[TileUse, AxisJoin] = {}
    for step in survey.steps:
        if step.op.name != COPY.name or len(step.uses) != 1 or "dst" not in step.uses:
            continue
        use = step.uses["dst"]
        size = math.prod(use.tile.shape) * use.tile.buffer.dtype.bytes
        is_global = step.op.region("src").buffer.space == "global"
        is_once = survey.written.get(use.tile.buffer.name) == 1 and not use.cuts and use.tile.is_open
        if is_global and is_once and use.region.buffer is use.tile.buffer and size <= _MOST_BYTES:
            loads[use.tile] = step
    return loads


class _Reloader:
    """Loads tiles a second time, into new tiles.

    definitions: name of a buffer -> statements to insert after its allocation.
    after: id of a load -> statements to insert after it.
    """

    def __init__(self, kernel: Kernel, loads: Mapping[TileUse, AxisJoin]) -> None:
        self.definitions: dict[str, list[Stmt]] = {}
        self.after: dict[int, list[Stmt]] = {}
        self._loads = loads
        self._made: dict[tuple[TileUse, tuple[int | None, ...], DType], Buffer] = {}
        self._names = FreshNames(defined_names(kernel.body), 1)

    def operand(self, use: Use) -> Region:
        """Return the operand as a region of the tile of a second load, or of a view of that tile."""
        _, along = base_of(use.region.buffer)
        key = use.tile, along, use.region.dtype
        if key not in self._made:
            self._made[key] = self._second(*key)
        return replace(use.region, buffer=self._made[key])

    def _second(self, tile: TileUse, along: tuple[int | None, ...], dtype: DType) -> Buffer:
        """Create a second load and its tile. Return the tile, or a view of dimensions `along` and type `dtype`."""
        load, layout = self._loads[tile].op, tile.buffer.layout
        assert isinstance(layout, Open)
        made = replace(tile.buffer, name=self._names.name(tile.buffer.name))
        definitions = self.definitions.setdefault(tile.buffer.name, [])
        definitions.append(Alloc(made, span=load.span))
        dst = replace(load.region("dst"), buffer=made)
        self.after.setdefault(id(load), []).append(replace(load, operands=(dst, *load.operands[1:])))
        if along == tuple(range(len(tile.shape))) and dtype == made.dtype:
            return made
        shape, name = tuple(1 if d is None else tile.shape[d] for d in along), self._names.name(tile.buffer.name)
        view = replace(made, name=name, dtype=dtype, shape=shape, layout=Open(layout.scope, along), base=made)
        definitions.append(BufferView(view, span=load.span))
        return view


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """The grid chosen for a component of tiles."""

    #: names of the tiles, in program order
    tiles: tuple[str, ...]
    #: extents of the component's axes
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
    products = ProductLayouts(kernel, made)
    fixed = anchored(made, products)
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
    """Choose a grid for each component of the tiles `free`, and add their layouts to `sources`."""
    components, choices = made.components(free), list[LayoutChoice]()
    for component, demand in zip(components, demands(made, components, most_of_a_thread(kernel)), strict=True):
        threads = SCOPES[component.scope].threads(kernel.threads)
        chosen = choose(component.scope, threads, component.extents, component.columns, demand)
        of_shape: dict[tuple[tuple[int | None, ...], tuple[int, ...]], LayoutSource] = {}
        for tile, axes in component.axes.items():
            key = axes, tile.shape
            if key not in of_shape:
                of_shape[key] = LayoutSource(chosen.grid.project(axes, tile.shape), chosen.grid, axes)
            sources[tile] = of_shape[key]
        names = tuple([tile.buffer.name for tile in component.axes])
        choices.append(LayoutChoice(names, component.extents, chosen.grid, chosen.cost, chosen.next_cost))
    return choices


def _single(tile: TileUse, threads: int) -> LayoutSource:
    layout = tile.buffer.layout
    assert isinstance(layout, Open)
    grid = everywhere(layout.scope, SCOPES[layout.scope].threads(threads))
    made = grid.project((None,) * len(tile.shape), tile.shape)
    return LayoutSource(replace(made, slots=()), grid)
