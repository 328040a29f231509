"""Interference of local tiles: two tiles interfere if one is live where the other is written.

They also interfere if an operation that writes one may read the other's element at an index that it has written. A
move doesn't make its source and destination interfere. Sets of tiles are integers with a bit per tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import NamedTuple

from ...ops.copies import CAST
from .. import walk
from ..nodes import Const, Region, Stmt, TileOp
from ..walk import Block, Place
from .backwards import Backwards

#: a place, and the index of its tile
_Touch = tuple[Place, int]


class _Touched(NamedTuple):
    """A statement's accesses to tiles. whole: the tiles that it overwrites entirely. needed: those that it reads."""

    read: list[_Touch]
    written: list[_Touch]
    whole: int
    needed: int


#: statement's id -> its accesses to tiles; a statement that accesses none isn't a key
Touches = Mapping[int, _Touched]


def is_move(stmt: Stmt) -> bool:
    """True if a statement copies a whole local tile to another one of the same type and shape."""
    if not isinstance(stmt, TileOp) or stmt.name != CAST.name:
        return False
    dst, src = stmt.tiles["dst"], stmt.tiles["src"]
    is_same = dst.dtype == src.dtype and dst.shape == src.shape and dst.buffer.space == src.buffer.space == "local"
    return is_same and _is_whole(dst) and _is_whole(src)


def touches(body: Block, numbers: Mapping[str, int]) -> Touches:
    """Return the accesses of statements to tiles. numbers: name of a root buffer -> index of the tile."""
    touched: dict[int, _Touched] = {}
    for stmt in walk.statements(body):
        if type(stmt) in walk.ACCESSING:
            read, written = [
                [(place, numbers[place.buffer.root.name]) for place in places if place.buffer.root.name in numbers]
                for places in (walk.reads(stmt), walk.writes(stmt))
            ]
            if read or written:
                whole = reduce(or_, [1 << number for place, number in written if _is_whole(place)], 0)
                needed = reduce(or_, [1 << number for _, number in read], 0)
                touched[id(stmt)] = _Touched(read, written, whole, needed)
    return touched


def _is_whole(place: Place) -> bool:
    if not isinstance(place, Region) or place.buffer.base is not None:
        return False
    if place.extents != place.buffer.shape:
        return False
    for start in place.starts:
        if not isinstance(start, Const) or start.value != 0:
            return False
    return True


class Interference(Backwards):
    """The interference graph of the tiles of a block.

    numbers, touched: as for `touches` of the block, and its result.
    apart: for each tile, the set of tiles that can't share its registers. unread: the moves whose result is never read.
    """

    kinds = walk.ACCESSING

    def __init__(self, body: Block, numbers: Mapping[str, int], touched: Touches) -> None:
        super().__init__()
        self.numbers, self.touched = numbers, touched
        self.apart = [0] * len(numbers)
        self.unread: list[TileOp] = []
        self.block(body, 0)

    def concerns(self, stmt: Stmt) -> bool:
        return id(stmt) in self.touched

    def simple(self, stmt: Stmt, live: int) -> int:
        touched = self.touched[id(stmt)]
        if self.is_final:
            for _, number in touched.written:
                self.note(stmt, number, live, touched.read)
        return live & ~touched.whole | touched.needed

    def note(self, stmt: Stmt, number: int, live: int, read: list[_Touch]) -> None:
        """Record interferences of tile `number`, which `stmt` writes, and unread moves. live: the live set after it."""
        others = live & ~(1 << number)
        if is_move(stmt):
            assert isinstance(stmt, TileOp)
            if not live >> number & 1:
                self.unread.append(stmt)
            source = self.numbers.get(stmt.tiles["src"].buffer.name)
            others &= ~(0 if source is None else 1 << source)
        for place, n in read:
            if n != number and not _in_step(stmt, place):
                others |= 1 << n
        self.apart[number] |= others
        for n in range(others.bit_length()):
            if others >> n & 1:
                self.apart[n] |= 1 << number


def _in_step(stmt: Stmt, place: Place) -> bool:
    """True if an operation surely reads each element of a tile no later than it writes the result at the same index."""
    if not isinstance(stmt, TileOp) or not (stmt.record.elementwise or stmt.name == CAST.name):
        return False
    dst = stmt.tiles["dst"]
    return _is_whole(place) and _is_whole(dst) and isinstance(place, Region) and place.shape == dst.shape
