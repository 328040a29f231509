"""Checks for overlap between operands of one operation that are in different arrays.

The caller may pass arrays that overlap. Their addresses are known only at launch, so checked builds have parameters for
them. If the byte ranges of a written region and another overlap and the regions aren't identical, every element of the
written one is compared with the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from ...dataclass import dataclass
from ...dtypes import int64
from ...layout.iters import groups_to, merged, refined
from ...scopes import SCOPES
from .. import nodes as ir
from ..arithmetic import build
from ..params import AddressParam, PointerParam
from .in_place import named_starts, overlap_text, pairs


class Aliases:
    """The arrays of one kernel that may overlap others. params: the parameters for their addresses."""

    def __init__(self, kernel: ir.Kernel) -> None:
        overlapping = [p for p in kernel.params if isinstance(p, PointerParam) and not p.noalias]
        self._addresses = {p.buffer.name: ir.Var(f"{p.of}.address", int64) for p in overlapping}
        self._threads = kernel.threads
        self._numbers = count()
        self.params = tuple(AddressParam(p.of, self._addresses[p.buffer.name]) for p in overlapping)

    def before(self, stmt: ir.Stmt) -> Iterator[ir.Stmt]:
        """Yield checks that written regions and those in other arrays are identical or disjoint, if both have boxes."""
        if not isinstance(stmt, ir.TileOp) or not self._addresses:
            return
        for written, read in pairs(stmt):
            if read.buffer.root.name != written.buffer.root.name:
                yield from self._tested(stmt, written, read)

    def _tested(self, op: ir.TileOp, written: ir.Region, read: ir.Region) -> Iterator[ir.Stmt]:
        first, second = self._box(written), self._box(read)
        if first is None or second is None:
            return
        suspicious = build.logical_and(_overlap(first, second), build.logical_not(_same(first, second)))
        values = named_starts(written, read)
        message = overlap_text(op, written, read, values)

        def compared(address: ir.Expr) -> tuple[ir.Stmt, ...]:
            return self._absent(address, first, second, lambda cond: ir.Assert(
                cond, message, "overlap", tuple(build.cast(v, int64) for v in values), op.span
            ))

        if suspicious != ir.FALSE:
            yield ir.If(suspicious, self._loops(first, self._share(op, first), compared), span=op.span)

    def _box(self, region: ir.Region) -> _Box | None:
        """Return a region's box, or None if its array overlaps no other, or strides don't describe its layout."""
        address, strides = self._addresses.get(region.buffer.root.name), _strides(region.buffer)
        if address is None or strides is None:
            return None
        return _Box(region, address, strides)

    def _share(self, op: ir.TileOp, box: _Box) -> _Share | None:
        """Return the distribution of a box over an operation's threads; None if one thread executes it alone."""
        widest = max(range(len(box.counts)), key=lambda d: box.region.counts[d], default=0)
        counter = SCOPES[op.scope].thread_id
        threads = SCOPES[op.scope].threads(self._threads)
        if counter is None or threads == 1:
            return None
        return _Share(widest, build.cast(ir.Special(counter.name), int64), threads)

    def _loops(
        self, box: _Box, share: _Share | None, body: Callable[[ir.Expr], tuple[ir.Stmt, ...]]
    ) -> tuple[ir.Stmt, ...]:
        """Return loops over the elements of a box in a thread's `share` (None: all), with `body` for each address."""
        indices = [ir.Var(f"element.met.{next(self._numbers)}", int64) for _ in box.counts]
        inner = body(box.at(indices))
        for d in reversed(range(len(indices))):
            start, step = (share.thread, share.threads) if share and share.dim == d else (build.const(0, int64), 1)
            inner = (ir.For(indices[d], start, box.counts[d], build.const(step, int64), inner, span=box.region.span),)
        return inner

    def _absent(
        self, address: ir.Expr, first: _Box, second: _Box, assertion: Callable[[ir.Expr], ir.Assert]
    ) -> tuple[ir.Stmt, ...]:
        """Return assertions that no element of `second` overlaps the element of `first` at an address."""
        if first.bytes != second.bytes:
            return self._loops(second, None, lambda other: (assertion(build.logical_or(
                build.less_equal(build.add(address, build.const(first.bytes, int64)), other),
                build.less_equal(build.add(other, build.const(second.bytes, int64)), address),
            )),))
        # along the last dimension, a division replaces the loop
        last = len(second.counts) - 1

        def row(begin: ir.Expr) -> tuple[ir.Stmt, ...]:
            distance = build.sub(address, begin)
            step = second.steps[last]
            k = build.floordiv(distance, step)
            inside = build.logical_and(build.greater_equal(k, 0), build.less(k, second.counts[last]))
            overlaps = build.logical_and(inside, build.equal(build.mul(k, step), distance))
            return (assertion(build.logical_not(overlaps)),)

        return self._loops(second.without(last), None, row) if last >= 0 else row(second.begin)


class _Share(NamedTuple):
    dim: int
    thread: ir.Expr
    threads: int


@dataclass(frozen=True, slots=True)
class _Box:
    """The part of a region inside its array.

    address: the array's address. strides: per dimension, in elements. dropped: dimensions reduced to their first index.
    """

    region: ir.Region
    address: ir.Var
    strides: tuple[ir.Expr, ...]
    dropped: tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        return self.region.dtype.bytes

    def without(self, dim: int) -> _Box:
        """Return the box of the first elements along a dimension."""
        return _Box(self.region, self.address, self.strides, (*self.dropped, dim))

    @property
    def firsts(self) -> list[ir.Expr]:
        """The first index inside the array in each dimension."""
        return [build.maximum(build.cast(start, int64), build.const(0, int64)) for start in self.region.starts]

    @property
    def counts(self) -> list[ir.Expr]:
        """The number of indices inside the array in each dimension: 1 if it is dropped, at most 0 if there is none."""
        counts: list[ir.Expr] = []
        for d, (start, number) in enumerate(zip(self.region.starts, self.region.counts, strict=True)):
            size = self.region.buffer.shape[d]
            end = build.add(build.cast(start, int64), build.const(number, int64))
            inside = build.minimum(end, build.const(size, int64) if isinstance(size, int) else size)
            counts.append(build.const(1, int64) if d in self.dropped else build.sub(inside, self.firsts[d]))
        return counts

    @property
    def steps(self) -> list[ir.Expr]:
        """The distance between consecutive indices of each dimension, in bytes."""
        return [build.mul(stride, build.const(self.bytes, int64)) for stride in self.strides]

    @property
    def begin(self) -> ir.Expr:
        return self._sum(self.address, self.firsts)

    @property
    def start(self) -> ir.Expr:
        """The address of the region's first element, which may be outside the array."""
        return self._sum(self.address, [build.cast(start, int64) for start in self.region.starts])

    def at(self, indices: Sequence[ir.Expr]) -> ir.Expr:
        return self._sum(self.begin, indices)

    def _sum(self, address: ir.Expr, indices: Sequence[ir.Expr]) -> ir.Expr:
        for index, step in zip(indices, self.steps, strict=True):
            address = build.add(address, build.mul(index, step))
        return address

    def reaches(self) -> tuple[ir.Expr, ir.Expr]:
        """Return the byte range of the box: its lowest address and its exclusive end."""
        low = high = self.begin
        zero = build.const(0, int64)
        for n, step in zip(self.counts, self.steps, strict=True):
            reach = build.mul(build.sub(n, build.const(1, int64)), step)
            low, high = build.add(low, build.minimum(reach, zero)), build.add(high, build.maximum(reach, zero))
        return low, build.add(high, build.const(self.bytes, int64))


def _strides(buffer: ir.Buffer) -> tuple[ir.Expr, ...] | None:
    """Return the stride of each dimension in elements; None if strides don't describe the layout."""
    layout = buffer.layout
    if isinstance(layout, ir.Strided):
        return tuple(build.const(s, int64) if isinstance(s, int) else s for s in layout.strides)
    layout, shape = buffer.tile_layout, buffer.fixed_shape
    if layout.swizzle is not None or layout.replica or layout.offset or not groups_to(layout.shard, shape):
        return None
    groups = [merged(group) for group in refined(layout.shard, shape)]
    if any(len(group) > 1 for group in groups):
        return None
    return tuple(build.const(group[0].stride if group else 0, int64) for group in groups)


def _overlap(first: _Box, second: _Box) -> ir.Expr:
    cond: ir.Expr = ir.TRUE
    for n in (*first.counts, *second.counts):
        cond = build.logical_and(cond, build.greater(n, 0))
    (first_low, first_high), (second_low, second_high) = first.reaches(), second.reaches()
    cond = build.logical_and(cond, build.less(first_low, second_high))
    return build.logical_and(cond, build.less(second_low, first_high))


def _same(first: _Box, second: _Box) -> ir.Expr:
    kept = [[d for d, n in enumerate(box.region.counts) if n != 1] for box in (first, second)]
    shapes = [[box.region.counts[d] for d in dims] for box, dims in zip((first, second), kept, strict=True)]
    if shapes[0] != shapes[1] or first.bytes != second.bytes:
        return ir.FALSE
    cond = build.equal(first.start, second.start)
    for d, k in zip(*kept, strict=True):
        alone = build.logical_and(build.less(first.counts[d], 2), build.less(second.counts[k], 2))
        along = build.equal(first.strides[d], second.strides[k])
        cond = build.logical_and(cond, build.logical_or(alone, along))
    return cond
