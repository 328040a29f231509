"""Tiles that hold one value after the other get one buffer: what a join moves into its slot is written there."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..dataclass import dataclass, replace
from ..ir import walk
from ..ir.analyses.liveness import interference, is_move
from ..ir.nodes import Alloc, Buffer, BufferView, Stmt, TileOp
from ..ir.walk import Block

__all__ = ["coalesced"]


def coalesced(body: Block, kept: Collection[str]) -> Block:
    """The statements without the moves between tiles that are never needed at once.

    kept: the buffers that stay as they are, by name.
    """
    moves = _moves(body, kept)
    if not moves:
        return body
    numbers = _numbers(moves)
    needs = interference(body, numbers)
    if needs.unread:
        unread = {id(move) for move in needs.unread}
        body = walk.rewrite(body, lambda stmt: () if id(stmt) in unread else (stmt,))
        moves, needs = _moves(body, kept), interference(body, numbers)
    classes = _Classes(numbers, needs.apart)
    for dst, src in moves:
        classes.join(dst, src)
    return walk.rewrite(body, _Shared(classes).statement)


def _moves(body: Block, kept: Collection[str]) -> list[tuple[Buffer, Buffer]]:
    """Destination and source of each move between tiles in one layout, those in the innermost loops first."""
    moves: list[tuple[int, Buffer, Buffer]] = []
    for depth, stmt in _by_depth(body, 0):
        if not is_move(stmt):
            continue
        dst, src = stmt.tiles["dst"].buffer, stmt.tiles["src"].buffer
        alike = (dst.layout, dst.slots) == (src.layout, src.slots)
        if alike and dst.name not in kept and src.name not in kept:
            moves.append((depth, dst, src))
    return [(dst, src) for _, dst, src in sorted(moves, key=lambda move: -move[0])]


def _by_depth(block: Block, depth: int) -> Iterator[tuple[int, TileOp]]:
    """The tile operations, each with the number of statements around it."""
    for stmt in block:
        if isinstance(stmt, TileOp):
            yield depth, stmt
        elif isinstance(stmt, walk.COMPOUND):
            for inner in walk.blocks(stmt):
                yield from _by_depth(inner, depth + 1)


def _numbers(moves: list[tuple[Buffer, Buffer]]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for buffer in (buffer for move in moves for buffer in move):
        numbers.setdefault(buffer.name, len(numbers))
    return numbers


@dataclass(slots=True)
class _Classes:
    """Tiles that share a buffer, by number. apart: as of `Interference`, of a class at the number of its least tile."""

    numbers: dict[str, int]
    apart: list[int]
    members: list[int]
    least: list[int]

    def __init__(self, numbers: dict[str, int], apart: list[int]) -> None:
        self.numbers, self.apart = numbers, list(apart)
        self.members = [1 << n for n in range(len(apart))]
        self.least = list(range(len(apart)))

    def join(self, first: Buffer, second: Buffer) -> None:
        """Make two tiles' classes one, where none of the one is needed together with one of the other."""
        a, b = sorted(self.least[self.numbers[buffer.name]] for buffer in (first, second))
        if a == b or self.apart[a] & self.members[b] or self.apart[b] & self.members[a]:
            return
        self.apart[a] |= self.apart[b]
        self.members[a] |= self.members[b]
        self.least = [a if n == b else n for n in self.least]

    def of(self, buffer: Buffer) -> int | None:
        number = self.numbers.get(buffer.name)
        return None if number is None else self.least[number]


class _Shared:
    """The statements with the first buffer of each class in place of all."""

    def __init__(self, classes: _Classes) -> None:
        self._classes = classes
        self._first: dict[int, Buffer] = {}
        self._changed: dict[str, Buffer] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        changed = self._changed.get(buffer.name)
        if changed is None:
            changed = self._changed[buffer.name] = self._made(buffer)
        return changed

    def _made(self, buffer: Buffer) -> Buffer:
        if buffer.base is None:
            number = self._classes.of(buffer)
            return buffer if number is None else self._first.setdefault(number, buffer)
        base = self.buffer(buffer.base)
        return buffer if base is buffer.base else replace(buffer, base=base)

    def statement(self, stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, Alloc):
            return (stmt,) if self.buffer(stmt.buffer) is stmt.buffer else ()
        if isinstance(stmt, BufferView):
            view = self.buffer(stmt.buffer)
            return (stmt if view is stmt.buffer else replace(stmt, buffer=view),)
        if isinstance(stmt, TileOp) and is_move(stmt):
            dst, src = (self.buffer(tile.buffer) for tile in stmt.tiles.values())
            if dst is src:
                return ()
        return (walk.with_buffers(stmt, self.buffer),)
