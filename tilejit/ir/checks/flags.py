"""Flags of registers that may be read unwritten: writes set the flags, and reads that may be too early assert them.

Each register of a local buffer has a flag if any of them may be read unwritten. The flags are bits of a variable if
there are at most 64, else elements of another local buffer. Elements that a loop has surely written aren't checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

from ...dtypes import int8, int16, int32, int64, uint32, uint64
from ...layout import TileLayout
from ...layout.iters import merged, refined
from ...ops.copies import FILL
from ...scopes import THREAD
from ...source import Span
from .. import nodes as ir
from .. import walk
from ..analyses.bitsets import members
from ..analyses.elements import slots_of
from ..analyses.initialized import Doubt
from ..analyses.local_registers import LocalRegisters, span
from ..arithmetic import build
from ..params import AssertionsParam

#: returns the statements for one register, given its index
_Body = Callable[[ir.Expr], Iterable[ir.Stmt]]

#: element size of a buffer in bits -> type of its flags if they are elements of a buffer; int32 for other sizes. Narrow
#: flags of wide elements would be slow: the simulator tracks local memory at the granularity of the narrowest access.
_FLAG_TYPES = {8: int8, 16: int16}


class WrittenFlags:
    """The flags of one kernel's local buffers.

    doubtful: names of the buffers that have flags. asked: names of the buffers with asserted flags.
    """

    def __init__(self, kernel: ir.Kernel, doubtful: frozenset[str]) -> None:
        self.doubtful = doubtful
        self.asked: set[str] = set()
        self._registers = LocalRegisters(kernel.body)
        self._numbers = count()
        buffers = [self._registers.buffers[name] for name in sorted(doubtful)]
        self._flags = {b.name: _Bits(b) if span(b) <= uint64.bits else _Cells(b, self._numbers) for b in buffers}

    def after(self, stmt: ir.Stmt) -> Iterator[ir.Stmt]:
        """Yield statements that clear an allocated buffer's flags, or set the flags of registers that `stmt` writes."""
        if isinstance(stmt, ir.Alloc) and stmt.buffer.name in self._flags:
            yield from self._flags[stmt.buffer.name].cleared(stmt.span)
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
            # a write through elements of another width counts as a write of each register that it may touch
            for first, number in _runs(members(touched.possibly >> self._registers.first[root.name])):
                yield flags.set_run(first, number, stmt.span)
            return
        yield from self._each(place, lambda at: [flags.set_one(at, stmt.span)])

    def before(self, doubt: Doubt, stmt: ir.Stmt) -> Iterator[ir.Stmt]:
        """Yield statements that assert that the registers read by `stmt` at `doubt.place` have been written.

        Nothing is yielded for a view with another element width at a run-time index.
        """
        place = doubt.place
        root = place.buffer.root
        self.asked.add(root.name)
        if self._registers.of(place).surely:
            reads, cond = self._flags[root.name].all_set(doubt.numbers, stmt.span)
            yield from (*reads, self._assertion(place, cond, stmt))
        elif place.buffer.dtype.bits == root.dtype.bits:
            yield from self._each(place, lambda at: self._is_set(place, at, stmt))

    def _is_set(self, place: ir.Region | ir.Element, at: ir.Expr, stmt: ir.Stmt) -> list[ir.Stmt]:
        reads, cond = self._flags[place.buffer.root.name].is_set(at, stmt.span)
        return [*reads, self._assertion(place, cond, stmt)]

    def _assertion(self, place: ir.Region | ir.Element, cond: ir.Expr, stmt: ir.Stmt) -> ir.Assert:
        name = place.buffer.root.name
        if isinstance(place, ir.Element) and len(place.indices) <= AssertionsParam.VALUES:
            values = tuple(build.cast(index, int64) for index in place.indices)
            what = f"{name}[{', '.join(f'{{{k}}}' for k in range(len(values)))}]"
        else:
            values, what = (), f"part of {name}"
        message = f"{what} is read before anything has been written to it"
        return ir.Assert(cond, message, "unwritten", values, place.span or stmt.span)

    def _each(self, place: ir.Region | ir.Element, body: _Body) -> Iterator[ir.Stmt]:
        """Yield loops that execute `body` for each register of a place with run-time starts."""
        indices, loops = [], []
        for start, number in zip(walk.indices(place), place.counts, strict=True):
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


class _Bits:
    """The flags of a buffer with few registers: the bits of a variable, which LLVM keeps in a register."""

    def __init__(self, buffer: ir.Buffer) -> None:
        dtype = uint32 if span(buffer) <= uint32.bits else uint64
        self._var = ir.Var(f"{buffer.name}.written", dtype, span=buffer.span)

    def cleared(self, place: Span | None) -> Iterator[ir.Stmt]:
        yield ir.Declare(self._var, self._const(0), place)

    def set_run(self, first: int, number: int, place: Span | None) -> ir.Stmt:
        bits = self._const(((1 << number) - 1) << first)
        return ir.Assign(self._var, build.bitwise_or(self._var, bits), place)

    def set_one(self, at: ir.Expr, place: Span | None) -> ir.Stmt:
        return ir.Assign(self._var, build.bitwise_or(self._var, self._bit(at)), place)

    def is_set(self, at: ir.Expr, place: Span | None) -> tuple[list[ir.Stmt], ir.Expr]:
        """Return statements to execute first, and the condition that a flag is set."""
        return [], build.not_equal(build.bitwise_and(self._var, self._bit(at)), self._const(0))

    def all_set(self, numbers: Sequence[int], place: Span | None) -> tuple[list[ir.Stmt], ir.Expr]:
        bits = self._const(sum(1 << number for number in numbers))
        return [], build.equal(build.bitwise_and(self._var, bits), bits)

    def _bit(self, at: ir.Expr) -> ir.Expr:
        return build.left_shift(self._const(1), build.cast(at, self._var.dtype))

    def _const(self, value: int) -> ir.Const:
        return build.const(value, self._var.dtype)


class _Cells:
    def __init__(self, buffer: ir.Buffer, numbers: Iterator[int]) -> None:
        dtype = _FLAG_TYPES.get(buffer.dtype.bits, int32)
        layout = TileLayout.row_major((span(buffer),))
        self._numbers = numbers
        self._one = build.const(1, dtype)
        self._buffer = ir.Buffer(
            f"{buffer.name}.written", "local", dtype, layout.shape, layout, dtype.bytes, span=buffer.span
        )

    def cleared(self, place: Span | None) -> Iterator[ir.Stmt]:
        yield ir.Alloc(self._buffer, span=place)
        yield self._filled(0, span(self._buffer), build.const(0, self._buffer.dtype), place)

    def set_run(self, first: int, number: int, place: Span | None) -> ir.Stmt:
        return self._filled(first, number, self._one, place)

    def set_one(self, at: ir.Expr, place: Span | None) -> ir.Stmt:
        return ir.Store(ir.Element(self._buffer, (at,)), self._one, span=place)

    def is_set(self, at: ir.Expr, place: Span | None) -> tuple[list[ir.Stmt], ir.Expr]:
        var = ir.Var(f"is.written.{next(self._numbers)}", self._buffer.dtype)
        return [ir.Let(var, ir.Load(ir.Element(self._buffer, (at,))), place)], build.equal(var, self._one)

    def all_set(self, numbers: Sequence[int], place: Span | None) -> tuple[list[ir.Stmt], ir.Expr]:
        reads: list[ir.Stmt] = []
        whole: ir.Expr = ir.TRUE
        for number in numbers:
            read, is_set = self.is_set(build.const(number, int32), place)
            reads += read
            whole = build.logical_and(whole, is_set)
        return reads, whole

    def _filled(self, first: int, number: int, value: ir.Const, place: Span | None) -> ir.Stmt:
        region = ir.Region(self._buffer, (build.const(first, int32),), (number,))
        return ir.TileOp(FILL.name, THREAD.name, (region, value), span=place)


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the runs of consecutive integers in an ascending sequence, as (first, length)."""
    first = 0
    for k, number in enumerate(numbers):
        if k + 1 == len(numbers) or numbers[k + 1] != number + 1:
            yield numbers[first], k + 1 - first
            first = k + 1


def _register(buffer: ir.Buffer, indices: Sequence[ir.Expr]) -> ir.Expr:
    """Return the index of the register that holds an element of a local buffer."""
    layout, shape = buffer.tile_layout, slots_of(buffer)
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
