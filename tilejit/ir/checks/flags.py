"""Flags of registers that a path may have left unwritten: set by each write, asserted by each read that is in doubt.

A local buffer in doubt gets a flag for each of its registers, in registers or local memory as the buffer itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

from ...dtypes import bool_, int32, int64
from ...layout import TileLayout
from ...layout.iters import merged, refined
from .. import nodes as ir
from .. import walk
from ..analyses.elements import extents, fixed_shape
from ..analyses.initialized import Doubt
from ..analyses.local_registers import LocalRegisters, numbers_of, span
from ..arithmetic import build
from ..arithmetic.build import FALSE, TRUE

__all__ = ["Flags"]

#: what is done with one register, given its number
_Body = Callable[[ir.Expr], Iterable[ir.Stmt]]


class Flags:
    """The flags of one kernel's local buffers.

    doubtful: the names of the buffers that have some.
    """

    def __init__(self, kernel: ir.Kernel, doubtful: frozenset[str]) -> None:
        self._registers = LocalRegisters(kernel.body)
        self._flags = {name: _flags_of(self._registers.buffers[name]) for name in sorted(doubtful)}
        self._numbers = count()

    def after(self, stmt: ir.Stmt) -> Iterator[ir.Stmt]:
        """What follows a statement: none is set after an allocation, those of what it writes after any other."""
        if isinstance(stmt, ir.Alloc) and stmt.buffer.name in self._flags:
            flags = self._flags[stmt.buffer.name]
            yield ir.Alloc(flags, span=stmt.span)
            yield from _set(flags, 0, span(flags), FALSE, stmt)
            return
        for place in walk.writes(stmt):
            if place.buffer.root.name in self._flags:
                assert isinstance(place, (ir.Region, ir.Element))
                yield from self._written(place, stmt)

    def _written(self, place: ir.Region | ir.Element, stmt: ir.Stmt) -> Iterator[ir.Stmt]:
        root = place.buffer.root
        flags = self._flags[root.name]
        touched = self._registers.of(place)
        if touched.surely or place.buffer.dtype.bits != root.dtype.bits:
            # of a write through narrower elements the whole register counts as written
            for first, number in _runs(numbers_of(touched.possibly >> self._registers.first[root.name])):
                yield from _set(flags, first, number, TRUE, stmt)
            return
        yield from self._each(place, lambda at: [ir.Store(ir.Element(flags, (at,)), TRUE, span=stmt.span)])

    def before(self, doubt: Doubt, stmt: ir.Stmt) -> Iterator[ir.Stmt]:
        """The assertions that what a statement reads was written."""
        place = doubt.place
        root = place.buffer.root
        if self._registers.of(place).surely:
            yield from self._all_set(doubt, stmt)
        elif place.buffer.dtype.bits == root.dtype.bits:
            yield from self._each(place, lambda at: self._is_set(place, at, stmt))

    def _all_set(self, doubt: Doubt, stmt: ir.Stmt) -> Iterator[ir.Stmt]:
        """Whether the registers in doubt are written, all at once."""
        flags = self._flags[doubt.place.buffer.root.name]
        whole: ir.Expr = TRUE
        for number in doubt.numbers:
            var = self._var()
            yield ir.Let(var, ir.Load(ir.Element(flags, (build.const(number, int32),))), stmt.span)
            whole = build.logical_and(whole, var)
        yield self._assertion(doubt.place, whole, stmt)

    def _is_set(self, place: ir.Region | ir.Element, at: ir.Expr, stmt: ir.Stmt) -> list[ir.Stmt]:
        var = self._var()
        load = ir.Load(ir.Element(self._flags[place.buffer.root.name], (at,)))
        return [ir.Let(var, load, stmt.span), self._assertion(place, var, stmt)]

    def _assertion(self, place: ir.Region | ir.Element, cond: ir.Expr, stmt: ir.Stmt) -> ir.Assert:
        name = place.buffer.root.name
        if isinstance(place, ir.Element) and len(place.indices) <= ir.AssertionsParam.VALUES:
            values = tuple(build.cast(index, int64) for index in place.indices)
            what = f"{name}[{', '.join(f'{{{k}}}' for k in range(len(values)))}]"
        else:
            values, what = (), f"part of {name}"
        message = f"{what} is read before anything has been written to it"
        return ir.Assert(cond, message, "unwritten", values, place.span or stmt.span)

    def _each(self, place: ir.Region | ir.Element, body: _Body) -> Iterator[ir.Stmt]:
        """`body` for each register of a place whose starts are known only at run time: loops over its elements."""
        starts = place.starts if isinstance(place, ir.Region) else place.indices
        indices, loops = [], []
        for start, number in zip(starts, extents(place), strict=True):
            if number == 1:
                indices.append(build.cast(start, int32))
                continue
            var = ir.Var(f"element.written.{next(self._numbers)}", int32, bounds=(0, number - 1))
            indices.append(build.add(build.cast(start, int32), var))
            loops.append((var, number))
        inner: tuple[ir.Stmt, ...] = tuple(body(_register(place.buffer, indices)))
        for var, number in reversed(loops):
            zero, one = build.const(0, int32), build.const(1, int32)
            inner = (ir.For(var, zero, build.const(number, int32), one, inner, span=place.span),)
        yield from inner

    def _var(self) -> ir.Var:
        return ir.Var(f"is.written.{next(self._numbers)}", bool_)


def _flags_of(buffer: ir.Buffer) -> ir.Buffer:
    """A flag for each register that a thread has for a buffer."""
    layout = TileLayout.row_major((span(buffer),))
    return ir.Buffer(f"{buffer.name}.written", "local", bool_, (span(buffer),), layout, 1, span=buffer.span)


def _set(flags: ir.Buffer, first: int, number: int, value: ir.Const, stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    """Sets a run of flags."""
    region = ir.Region(flags, (build.const(first, int32),), (number,))
    yield ir.TileOp("fill", "thread", (region, value), span=stmt.span)


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Rising numbers as runs: (first, how many)."""
    first = 0
    for k, number in enumerate(numbers):
        if k + 1 == len(numbers) or numbers[k + 1] != number + 1:
            yield numbers[first], k + 1 - first
            first = k + 1


def _register(buffer: ir.Buffer, indices: Sequence[ir.Expr]) -> ir.Expr:
    """The register in which an element of a local buffer lies."""
    layout, shape = buffer.layout, fixed_shape(buffer)
    assert isinstance(layout, TileLayout)
    one: ir.Expr = build.const(1, int32)
    terms = [(one, value) for axis, value in layout.offset if not axis.is_thread]
    for index, group in zip(indices, refined(layout.adapted(shape).shard, shape), strict=True):
        run = merged(group)
        for k, it in enumerate(run):
            below = math.prod(inner.extent for inner in run[k + 1 :])
            digit = build.floordiv(index, build.const(below, int32)) if below > 1 else index
            if not it.axis.is_thread:
                terms.append((build.mod(digit, build.const(it.extent, int32)) if k else digit, it.stride))
    return build.weighted_sum(terms, int32)
