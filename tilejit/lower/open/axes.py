"""Axes (dimensions of a kernel's tiles that vary together), and components (tiles that share axes).

    copy x[0 +: 32, 0 +: 48], X[...]                x's rows are axis 0, its columns axis 1
    sum  s[0 +: 32], x[0 +: 32, 0 +: 48] axis=(1,)  s has axis 0
    sub  y[...], x[...], c[0 +: 32, 0 +: 1]         c, a view of s, lacks axis 1; y has both

An operation's record specifies which dimensions vary together. Two dimensions of one tile never become one axis: if an
operation would require it (x + x.T), its operands disagree, and one is loaded again, recomputed or converted.

The survey includes operations that need a conversion although all their local tiles have layouts given by the user.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import starmap
from math import gcd, prod

from ...dataclass import dataclass, replace
from ...dtypes import int64
from ...errors import LayoutError
from ...ir.nodes import Alloc, Buffer, Const, For, If, Kernel, Loop, Open, Region, TileOp
from ...ir.walk import Block, each, inventory
from ...ops import axes
from ...ops.atomic import ATOMIC
from ...ops.axes import REDUCTION, Labels
from ...ops.copies import COPY, INDEX, MASK
from ...scopes import SCOPES
from ..moves.vectors import register_copy, update_schedule
from ..schedule.addresses import Folded
from ..schedule.placement import need_all_threads, place


def needs_conversion(op: TileOp, threads: int) -> bool:
    """True if the user lays out all local tiles of `op`, and one must be converted. threads: number in the CTA."""
    tiles = [region for region in op.tiles.values() if region.buffer.space == "local"]
    if any(isinstance(tile.buffer.layout, Open) for tile in tiles):
        return False
    if op.name == ATOMIC.name or (op.name == COPY.name and not {MASK.name, INDEX.name}.isdisjoint(op.options)):
        return not _is_moved(op, threads)
    return not all(suits(op, tile, threads) for tile in tiles)


def suits(op: TileOp, tile: Region, threads: int) -> bool:
    """True if `op` accepts `tile` in the user's layout if other tiles match it. threads: number in the CTA."""
    if _is_gathered(op):
        return _is_moved(_without_index_and_mask(op), threads)
    is_part = tile.extents != tile.buffer.shape and tile.buffer.tile_layout.scope is not None
    is_known = all(isinstance(start, Const) for start in tile.starts)
    return not is_part or not _wants_all_threads(op) or not is_known or _is_owned(tile, op, threads)


def by_all_threads(op: TileOp) -> bool:
    """True for updates, gathers and scatters, for which each thread of the scope must own elements of the tile."""
    return op.name == ATOMIC.name or _is_gathered(op)


def _is_gathered(op: TileOp) -> bool:
    return op.name == COPY.name and INDEX.name in op.options


def _is_moved(op: TileOp, threads: int) -> bool:
    """True if there is a schedule for a copy or an update in which each thread of the scope uses its own registers."""
    schedule = update_schedule if op.name == ATOMIC.name else register_copy
    try:
        schedule(op, SCOPES[op.scope].threads(threads))
    except LayoutError:
        return False
    return True


def _without_index_and_mask(op: TileOp) -> TileOp:
    one = {MASK.name: None, INDEX.name: Const(0, int64)}
    operands = zip(op.record.operands, op.operands, strict=False)
    return replace(op, operands=tuple([one.get(rule.name, operand) for rule, operand in operands]))


def _is_owned(region: Region, op: TileOp, threads: int) -> bool:
    """True if all threads of the scope own elements of the region, and no dimension has a folded stride."""
    try:
        placement = place(region, op.scope)
        need_all_threads(placement, op.scope, SCOPES[op.scope].threads(threads))
    except LayoutError:
        return False
    return not any(isinstance(step.stride, Folded) for dim in placement.dims for step in dim)


def _wants_all_threads(op: TileOp) -> bool:
    """True if all threads must own elements of a part: not for products, reshapes and copies without a mask."""
    if op.record.relation in (axes.PRODUCT, axes.RESHAPE):
        return False
    return op.name != COPY.name or MASK.name in op.options


#: trip count assumed for loops with an unknown one
_UNKNOWN_TRIP_COUNT = 8


@dataclass(slots=True, eq=False)
class TileUse:
    """A local tile, open or with a fixed layout, and its lifetime."""

    buffer: Buffer
    shape: tuple[int, ...]
    #: node of each dimension in the union-find of axes; None if its extent is 1
    dims: tuple[int | None, ...]
    #: indices in `Survey.steps` of the first operation that uses the tile and of the last that needs its contents; -1
    #: if none uses it
    first: int
    last: int
    #: root of each dimension's node, set after all operations have joined their axes
    axes: tuple[int | None, ...] = ()

    @property
    def is_open(self) -> bool:
        return isinstance(self.buffer.layout, Open)


@dataclass(slots=True, eq=False)
class Use:
    """A tile as an operand of an operation.

    labels: for each of the tile's dimensions, its label in the operation's relation, or None (see `ops.axes`).
    cuts: (dimension, start, extent) for each dimension that the operand uses only in part; a run-time start is None.
    """

    name: str
    region: Region
    tile: TileUse
    labels: Labels
    cuts: tuple[tuple[int, int | None, int], ...] = ()

    @property
    def extents(self) -> tuple[int, ...]:
        if not self.cuts:
            return self.tile.shape
        taken = {dim: extent for dim, _, extent in self.cuts}
        return tuple([taken.get(dim, extent) for dim, extent in enumerate(self.tile.shape)])


@dataclass(slots=True, eq=False)
class AxisJoin:
    """An operation on at least one open tile, or on a tile to be converted.

    iterations: product of the trip counts of the loops around it, some of them assumed. labels: those of the
    operation's tiles, including tiles in memory.
    """

    op: TileOp
    iterations: int
    uses: dict[str, Use]
    labels: dict[str, Labels]

    @property
    def home(self) -> Use | None:
        """The use whose layout the others follow: a reduction's source, else the first local tile; None without one."""
        name = "src" if self.op.record.relation is REDUCTION else next(iter(self.uses), "")
        return self.uses.get(name)


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """A connected component of tiles linked by shared axes, which are numbered: those of the largest tile first.

    axes: each tile, in program order -> the axis of each dimension; None if its extent is 1.
    columns: the column of each axis in a grid. Two axes may share threads, and therefore a column, if no tile has both.
    extents: the greatest extent of a tile along each axis.
    """

    scope: str
    axes: dict[TileUse, tuple[int | None, ...]]
    columns: tuple[int, ...]
    extents: tuple[int, ...]

    @staticmethod
    def of(tiles: Sequence[TileUse]) -> Component:
        columns = _columns(tiles)
        numbers: dict[int | None, int | None] = {None: None, **{axis: number for number, axis in enumerate(columns)}}
        axes = {tile: tuple([numbers[axis] for axis in tile.axes]) for tile in tiles}
        extents = [1] * len(columns)
        for tile, along in axes.items():
            for number, extent in zip(along, tile.shape, strict=True):
                if number is not None:
                    extents[number] = max(extents[number], extent)
        layout = tiles[0].buffer.layout
        assert isinstance(layout, Open)
        return Component(layout.scope, axes, tuple(columns.values()), tuple(extents))


def _columns(tiles: Sequence[TileUse]) -> dict[int, int]:
    """Return the grid column of each axis of a component, in the order of the axes' numbers."""
    by_size = sorted(tiles, key=lambda tile: -prod(tile.shape))
    shapes = list(dict.fromkeys([tuple([a for a in tile.axes if a is not None]) for tile in by_size]))
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
    return columns


class Survey:
    """The tiles, operations and axes of a kernel that has open tiles or tiles to be converted.

    target: name of the target. threads: number in the CTA. written: name of a tile -> number of operations that write
    it. refused: operands whose axes conflict with those of the operation's other operands.
    """

    def __init__(self, target: str, threads: int) -> None:
        self.target = target
        self.threads = threads
        self.tiles: dict[str, TileUse] = {}
        self.steps: list[AxisJoin] = []
        self.written: dict[str, int] = {}
        self.refused: list[tuple[AxisJoin, Use]] = []
        self._parent: list[int] = []
        #: root -> the tiles that have the axis
        self._having: dict[int, set[TileUse]] = {}
        #: root -> the scope of the open tiles that have the axis, None without open tiles
        self._scopes: dict[int, str | None] = {}
        self._labels: dict[Hashable, dict[str, Labels]] = {}

    def root(self, node: int) -> int:
        parent = self._parent
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def labelled(self, use: Use) -> list[tuple[int, int]]:
        """Return (label, root of the node) of each dimension of an operand that has both a label and a node."""
        dims = zip(use.tile.dims, use.labels, strict=True)
        return [(label, self.root(node)) for node, label in dims if node is not None and label is not None]

    def settle(self) -> None:
        for tile in self.tiles.values():
            tile.axes = tuple([None if node is None else self.root(node) for node in tile.dims])

    def labels(self, op: TileOp) -> dict[str, Labels]:
        # operations with equal attributes and shapes share one result
        key = op.name, op.attrs, tuple([o.shape if isinstance(o, Region) else o is None for o in op.operands])
        labels = self._labels.get(key)
        if labels is None:
            labels = self._labels[key] = op.record.relation.labels(op.shapes, dict(op.attrs))
        return labels

    def tile(self, buffer: Buffer) -> TileUse:
        tile = self.tiles.get(buffer.name)
        if tile is None:
            shape = buffer.fixed_shape
            dims = tuple([None if n == 1 else len(self._parent) + d for d, n in enumerate(shape)])
            self._parent.extend(range(len(self._parent), len(self._parent) + len(shape)))
            tile = self.tiles[buffer.name] = TileUse(buffer, shape, dims, -1, -1)
            for node in dims:
                if node is not None:
                    self._having[node] = {tile}
                    self._scopes[node] = buffer.layout.scope if isinstance(buffer.layout, Open) else None
        return tile

    def joins(self, one: int, other: int) -> bool:
        """True if two nodes are one axis or can become one: no tile has both, and their scopes agree."""
        one, other = self.root(one), self.root(other)
        if one == other:
            return True
        first, second = self._scopes[one], self._scopes[other]
        is_one_scope = first is None or second is None or first == second
        return is_one_scope and self._having[one].isdisjoint(self._having[other])

    def join(self, one: int, other: int) -> int:
        one, other = self.root(one), self.root(other)
        if one == other:
            return one
        first, second = self._having[one], self._having[other]
        if len(first) < len(second):
            one, other, first, second = other, one, second, first
        self._parent[other] = one
        first |= self._having.pop(other)
        self._scopes[one] = self._scopes[one] or self._scopes.pop(other)
        return one

    def components(self, tiles: Sequence[TileUse]) -> list[Component]:
        """Return the connected components of `tiles` in program order, without tiles that have no axis."""
        order = {tile: number for number, tile in enumerate(tiles)}
        reached = set[int]()
        found: list[Component] = []
        for first in tiles:
            linked, waiting = set[TileUse](), list(first.axes)
            while waiting:
                axis = waiting.pop()
                if axis is not None and axis not in reached:
                    reached.add(axis)
                    having = self._having[axis] & order.keys()
                    linked |= having
                    waiting += [other for tile in having for other in tile.axes]
            if linked:
                found.append(Component.of(sorted(linked, key=order.__getitem__)))
        return found


def survey(kernel: Kernel) -> Survey | None:
    """Return a survey of the open tiles and of the operations that need a conversion; None if there are none."""
    has_open = any(isinstance(alloc.buffer.layout, Open) for alloc in each(kernel.body, Alloc))
    if not has_open and not any(needs_conversion(op, kernel.threads) for op in each(kernel.body, TileOp)):
        return None
    made = Survey(kernel.target, kernel.threads)
    _block(made, kernel.body, 1)
    made.settle()
    return made


def _block(made: Survey, body: Block, iterations: int) -> None:
    if inventory(body).kinds.isdisjoint((Alloc, TileOp)):
        return
    for stmt in body:
        if isinstance(stmt, TileOp):
            _operation(made, stmt, iterations)
        elif isinstance(stmt, Alloc) and isinstance(stmt.buffer.layout, Open):
            made.tile(stmt.buffer)
        elif isinstance(stmt, (For, Loop)):
            before = len(made.steps)
            _block(made, stmt.body, iterations * _trip_count(stmt))
            _carry(made, before)
        elif isinstance(stmt, If):
            _block(made, stmt.then, iterations)
            _block(made, stmt.orelse, iterations)


def _trip_count(loop: For | Loop) -> int:
    if isinstance(loop, Loop) or not all(isinstance(e, Const) for e in (loop.start, loop.stop, loop.step)):
        return _UNKNOWN_TRIP_COUNT
    start, stop, step = (int(e.value) for e in (loop.start, loop.stop, loop.step) if isinstance(e, Const))
    return max(1, len(range(start, stop, step))) if step else 1


def _carry(made: Survey, before: int) -> None:
    """Extend the lifetimes of tiles used both before and in a loop to the loop's end."""
    end = len(made.steps) - 1
    for step in made.steps[before:]:
        for use in step.uses.values():
            if use.tile.first < before:
                use.tile.last = end


def _operation(made: Survey, op: TileOp, iterations: int) -> None:
    local: dict[str, Region] = {}
    is_by_hand = True
    for name, region in op.tiles.items():
        if region.buffer.space == "local":
            local[name] = region
            is_by_hand = is_by_hand and not isinstance(region.buffer.layout, Open)
    if is_by_hand and not needs_conversion(op, made.threads):
        return
    record, labels = op.record, made.labels(op)
    number = len(made.steps)
    uses = {name: _use(made, name, region, labels.get(name)) for name, region in local.items()}
    step = AxisJoin(op, iterations, uses, labels)
    made.steps.append(step)
    for name, use in uses.items():
        use.tile.first = number if use.tile.first < 0 else use.tile.first
        use.tile.last = number
        if record.operands[record.positions[name]].written:
            made.written[use.tile.buffer.name] = made.written.get(use.tile.buffer.name, 0) + 1
    if record.relation.share_layouts and not is_by_hand:
        _join(made, step)


def _join(made: Survey, step: AxisJoin) -> None:
    """Join dimensions that vary together, operand by operand. An operand that conflicts is refused as a whole."""
    joined: dict[int, int] = {}
    for use in step.uses.values():
        nodes = made.labelled(use)
        # fast path: in a chain of operations most dimensions are joined already
        apart = [(label, node) for label, node in nodes if joined.get(label, node) != node]
        if apart and not all(starmap(made.joins, [(joined[label], node) for label, node in apart])):
            made.refused.append((step, use))
            continue
        for label, node in nodes:
            axis = joined.get(label, node)
            joined[label] = node if axis == node else made.join(axis, node)


def _use(made: Survey, name: str, region: Region, labels: Labels | None) -> Use:
    whole = region.buffer
    if region.extents == whole.shape and (whole.base is None or not _is_view(whole)):
        return Use(name, region, made.tile(whole), labels or (None,) * len(region.extents))
    buffer, along = base_of(whole)
    tile = made.tile(buffer)
    kept = iter(labels if labels is not None else [None] * len(region.shape))
    of_view = [None if extent is None else next(kept) for extent in region.extents]
    of_tile: list[int | None] = [None] * len(tile.shape)
    cuts: list[tuple[int, int | None, int]] = []
    for d, dim in enumerate(along):
        if dim is None:
            continue
        of_tile[dim] = of_view[d]
        start, extent = region.starts[d], region.extents[d] or 1
        if extent != tile.shape[dim]:
            cuts.append((dim, int(start.value) if isinstance(start, Const) else None, extent))
    return Use(name, region, tile, tuple(of_tile), tuple(cuts))


def base_of(buffer: Buffer) -> tuple[Buffer, tuple[int | None, ...]]:
    """Return the tile of an open view, or `buffer` itself, and the tile's dimension for each dimension of `buffer`."""
    dims: tuple[int | None, ...] = tuple(range(len(buffer.shape)))
    while _is_view(buffer):
        assert isinstance(buffer.layout, Open) and buffer.layout.dims is not None and buffer.base is not None
        inner = buffer.layout.dims
        dims = tuple([None if d is None else inner[d] for d in dims])
        buffer = buffer.base
    return buffer, dims


def _is_view(buffer: Buffer) -> bool:
    return isinstance(buffer.layout, Open) and buffer.layout.dims is not None and buffer.base is not None


def fits(cuts: tuple[tuple[int, int | None, int], ...], periods: tuple[int, ...]) -> bool:
    """True if a part of a tile provably consists of whole periods. periods: by dimension of the tile."""
    return all(start is not None and gcd(start, extent) % periods[dim] == 0 for dim, start, extent in cuts)
