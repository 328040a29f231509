"""Register pressure of local tiles: the point at which they need the most registers per thread.

    cta.copy x[...], X[...]            x
    cta.max  m[...], x[...]            x, m
    cta.sub  y[...], x[...], m[...]    x, m before it; y after it, which reuses x's registers

A tile is live, register by register, from where it may have been written to its last read, in program order: ptxas
moves no load before a store, and measurements show that it spills if this order needs too many registers. When an
operation writes a register of its result, it has read the same register of its operands, so the registers live before
and after the operation count separately.

Two kinds of tiles need no registers. A tile that only `fill` or `indices` writes is recomputed where it is read. A tile
whose elements are only reduced or used one at a time is computed element by element:

    cta.exp  e[...], x[...]            x
    cta.sum  s[...], e[...]            x, not e: the sum reads `x` in place of `e`
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from itertools import accumulate
from operator import or_
from typing import NamedTuple

from ...dataclass import dataclass, field
from ...ops.axes import GENERATED, REDUCTION
from ...ops.copies import CAST
from ...remember import once
from .. import walk
from ..nodes import Alloc, Assign, Buffer, BufferView, Declare, For, Let, Loop, Stmt, Store, TileOp
from ..walk import Block, Place
from .backwards import Backwards
from .local_registers import LocalRegisters, span

#: bits of a hardware register; narrower elements share one
_WORD = 32


@dataclass(frozen=True, slots=True)
class Pressure:
    """The tiles that are live at the point of greatest pressure.

    tiles: each with its number of 32-bit registers, in descending order of that number.
    stmt: the statement before or after which the tiles are live; None without tiles.
    """

    tiles: tuple[tuple[Buffer, int], ...] = ()
    stmt: Stmt | None = None

    @property
    def words(self) -> int:
        """The number of 32-bit registers per thread that the tiles occupy."""
        return sum(count for _, count in self.tiles)


def words(buffer: Buffer) -> int:
    """Return the number of 32-bit registers per thread that a local buffer occupies."""
    return -(-span(buffer) * buffer.dtype.bits // _WORD)


def most_live(body: Block, without: Collection[str] = ()) -> Pressure:
    """Return the greatest pressure in a block at tile level. without: names of local buffers to ignore."""
    made = [s for s in walk.each(body, Alloc) if s.buffer.space == "local"]
    generated = _generated(body)
    passing = _passing(body)
    counted = [s for s in made if s.buffer.name not in {*without, *generated, *passing}]
    if not counted:
        return Pressure()
    registers = LocalRegisters(tuple(counted))
    walker = _Pressing(registers, _Begun(body, registers), passing)
    walker.block(body, 0)
    return Pressure(tuple(sorted(walker.counts(walker.held), key=lambda pair: -pair[1])), walker.stmt)


def _generated(body: Block) -> set[str]:
    """Return the names of the buffers that are written only by operations that read no tile and no memory."""
    generated: set[str] = set()
    others: set[str] = set()
    for op in walk.each(body, TileOp):
        names = generated if op.record.relation is GENERATED else others
        names.update([place.buffer.root.name for place in walk.writes(op)])
    others.update([stmt.place.buffer.root.name for stmt in walk.each(body, Store)])
    return generated - others


@dataclass(slots=True)
class _Readers:
    """The accesses to a buffer.

    maker: the only operation that writes it, if there is one and it is elementwise, else None.
    stretch: if there is a maker, the number of the only stretch (see `_number`) that accesses it, or None.
    readers: the statements that read it after the last write, in program order.
    """

    maker: TileOp | None
    stretch: int | None
    readers: list[Stmt] = field(default_factory=list)


def _passing(body: Block) -> dict[str, tuple[Place, ...]]:
    """Map the names of tiles that are computed element by element to the places that their readers read instead."""
    touched: dict[str, _Readers] = {}
    numbered: list[tuple[int, Stmt]] = []
    _number(body, 0, numbered)
    for number, stmt in numbered:
        if type(stmt) not in walk.ACCESSING:
            continue
        maker = stmt if isinstance(stmt, TileOp) and _is_elementwise(stmt) else None
        for place in walk.writes(stmt):
            name = place.buffer.root.name
            touched[name] = _Readers(None if name in touched else maker, number)
        for place in walk.reads(stmt):
            each = touched.setdefault(place.buffer.root.name, _Readers(None, None))
            each.readers.append(stmt)
            each.stretch = each.stretch if each.stretch == number else None
    kept: set[str] = set()
    for name, each in reversed(touched.items()):
        is_passing = each.maker is not None and each.stretch is not None and each.readers
        if not is_passing or not all(_lets_pass(stmt, touched, kept) for stmt in each.readers):
            kept.add(name)
    made: dict[str, tuple[Place, ...]] = {}
    for name, each in touched.items():
        if name not in kept and each.maker is not None:
            made[name] = tuple(_read_instead(walk.reads(each.maker), made))
    return made


def _number(body: Block, number: int, numbered: list[tuple[int, Stmt]]) -> int:
    """Append each statement of a block with the number of its stretch; return the number of the stretch at its end.

    A stretch is one statement, or a run that can be executed one element at a time. number: that of the first stretch.
    """
    for stmt in body:
        is_within = isinstance(stmt, (Alloc, BufferView, Let, Declare, Assign)) or _is_elementwise(stmt)
        is_last = isinstance(stmt, TileOp) and stmt.record.relation is REDUCTION
        number += not (is_within or is_last)
        numbered.append((number, stmt))
        for each in walk.blocks(stmt) if isinstance(stmt, walk.COMPOUND) else ():
            number = _number(each, number, numbered) + 1
        number += not is_within
    return number


def _is_elementwise(stmt: Stmt) -> bool:
    if not isinstance(stmt, TileOp) or not (stmt.record.elementwise or stmt.name == CAST.name):
        return False
    for region in stmt.tiles.values():
        if region.buffer.space != "local":
            return False
    return True


def _lets_pass(stmt: Stmt, touched: Mapping[str, _Readers], kept: Collection[str]) -> bool:
    """True if a reader doesn't need the tiles that it reads to be in registers."""
    if not isinstance(stmt, TileOp) or stmt.record.relation is REDUCTION:
        return True
    names = [place.buffer.root.name for place in stmt.written]
    return all(touched[name].maker is stmt and name not in kept for name in names)


def _read_instead(places: Iterable[Place], passing: Mapping[str, tuple[Place, ...]]) -> list[Place]:
    read: list[Place] = []
    for place in places:
        read.extend(passing.get(place.buffer.root.name, (place,)))
    return read


class _Begun:
    """The registers of tiles that may have been written before a statement, even in part or by an earlier iteration."""

    def __init__(self, body: Block, registers: LocalRegisters) -> None:
        self._numbers: dict[int, int] = {}
        first: dict[str, int] = {}
        loop = end = 0
        for number, stmt in enumerate(walk.statements(body)):
            self._numbers[id(stmt)] = number
            for place in walk.writes(stmt) if isinstance(stmt, (TileOp, Store)) else ():
                name = place.buffer.root.name
                if name in registers.buffers:
                    first.setdefault(name, loop if number < end else number)
            if number >= end and isinstance(stmt, (For, Loop)):
                # an outermost loop
                loop, end = number, number + walk.size(stmt)
        names = sorted(first, key=first.__getitem__)
        self._starts = [first[name] for name in names]
        self._sets = list(accumulate(map(registers.whole, names), or_, initial=0))

    def before(self, stmt: Stmt) -> int:
        # a statement's own first write doesn't count
        return self._sets[bisect_right(self._starts, self._numbers[id(stmt)] - 1)]


class _Touching(NamedTuple):
    """Registers that a statement certainly writes, may write (`begins`) and may read. passes: its result needs none."""

    written: int = 0
    begins: int = 0
    read: int = 0
    passes: bool = False


class _Pressing(Backwards):
    """The walk that finds the greatest pressure.

    most: the greatest number of 32-bit registers so far. held, stmt: the live set and the statement at that point.
    """

    kinds = frozenset({Alloc, *walk.ACCESSING})

    def __init__(
        self, registers: LocalRegisters, begun: _Begun, passing: Mapping[str, tuple[Place, ...]]
    ) -> None:
        super().__init__()
        self.registers, self.begun, self.passing = registers, begun, passing
        self.most = self.held = 0
        self.stmt: Stmt | None = None
        self.widest = max(buffer.dtype.bits for buffer in registers.buffers.values())

    def simple(self, stmt: Stmt, live: int) -> int:
        if isinstance(stmt, Alloc):
            name = stmt.buffer.name
            return live & ~self.registers.whole(name) if name in self.registers.buffers else live
        touched = self.touching(stmt)
        if touched.passes:
            return live
        after, written, begins, read = live, touched.written, touched.begins, touched.read
        live = live & ~written | read
        if self.is_final and (begins or read):
            begun = self.begun.before(stmt)
            self.note(stmt, live & begun)
            self.note(stmt, after & (begun | begins))
        return live

    # statements in loops are visited repeatedly
    @once
    def touching(self, stmt: Stmt) -> _Touching:
        writes = walk.writes(stmt)
        if any(place.buffer.root.name in self.passing for place in writes):
            return _Touching(passes=True)
        written = self.registers.touched(writes)
        read = self.registers.touched(_read_instead(walk.reads(stmt), self.passing))
        return _Touching(written.surely, written.possibly, read.possibly)

    def note(self, stmt: Stmt, live: int) -> None:
        # a cheap bound, which ignores rounding up to whole registers, suffices in most cases
        if live.bit_count() * self.widest <= self.most * _WORD:
            return
        count = sum(count for _, count in self.counts(live))
        if count > self.most:
            self.most, self.held, self.stmt = count, live, stmt

    def counts(self, live: int) -> list[tuple[Buffer, int]]:
        return [(buffer, -(-count * buffer.dtype.bits // _WORD)) for buffer, count in self.registers.among(live)]
