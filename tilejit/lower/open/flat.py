"""Flattening of tiles: dimensions that are contiguous in memory, and that no operation distinguishes, become one.

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
warp-wide accesses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ...dataclass import replace
from ...dtypes import int32, int64
from ...ir import walk
from ...ir.arithmetic import build
from ...ir.arithmetic.facts import bounds, is_data
from ...ir.names import FreshNames, defined_names
from ...ir.nodes import Alloc, Buffer, BufferView, Const, Kernel, Open, Region, Stmt, TileOp
from ...ir.params import PointerParam
from ...layout import TileLayout
from ...layout.axes import m
from ...layout.grid import WIDEST_BYTES
from ...layout.iters import Iter, merged, refined
from ...ops import axes
from ...ops.copies import COPY, FILL, INDEX
from ...ops.reduce import AXIS, REDUCTIONS, axes_of
from ...target import WARP

#: extents other than 1
_Extents = tuple[int, ...]


def flattened(kernel: Kernel) -> tuple[Kernel, dict[str, tuple[int, ...]]]:
    """Return the kernel with each flat tile in one dimension, and the former shapes of these tiles by name."""
    tensors = [param.buffer for param in kernel.params if isinstance(param, PointerParam)]
    if not any(map(_may_be_flat, tensors)):
        return kernel, {}
    flat = _FlatTiles(kernel)
    shapes = flat.shapes()
    return (flat.rewritten(shapes), shapes) if shapes else (kernel, {})


def _may_be_flat(buffer: Buffer) -> bool:
    """True if several dimensions of a tensor may be contiguous: its extents and strides are known."""
    return isinstance(buffer.layout, TileLayout) and len(buffer.shape) > 1


class _FlatTiles:
    """Union-find of the multi-dimensional open tiles that share operations."""

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
        """True if an operation on a tile of these extents computes the same on flat tiles."""
        is_reduction = op.name in REDUCTIONS
        if is_reduction and len(axes_of(dict(op.attrs), len(op.region("src").shape))) < len(op.region("src").shape):
            return False
        kind = op.record.relation
        if not is_reduction and kind is not axes.ELEMENTWISE and op.name not in (COPY.name, FILL.name):
            return False
        if op.name == COPY.name and INDEX.name in op.options:
            return False
        return all(self._fits(name, region, op, extents) for name, region in op.tiles.items())

    def _fits(self, name: str, region: Region, op: TileOp, extents: _Extents) -> bool:
        """True if an operand permits that the operation's tiles of these extents become flat."""
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
            return (stmt,)

        body = walk.rewrite(self._kernel.body, changed)
        return replace(self._kernel, body=tuple(self._with_views(body)))

    def _with_views(self, body: Sequence[Stmt]) -> Iterator[Stmt]:
        """Yield the statements and the new views, each after its base; views of parameters come first."""
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
    """True if rows aren't a whole number of warp-wide accesses."""
    return _wide(region.shape)[-1] * region.dtype.bytes % (WARP * WIDEST_BYTES) != 0


def _run_start(region: Region) -> int | None:
    """Return the first dimension of several elements if the later ones are whole and contiguous with it, else None."""
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
    """Return the dimensions' strides; [] if the layout has a swizzle, an offset or a dimension without one stride."""
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
