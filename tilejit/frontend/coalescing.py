"""Coalescing of tiles: tiles whose lifetimes don't overlap can share a buffer if a move connects them.

Every expression creates a tile, so this lets `x = x + 1` or `acc += a @ b` in a loop work in place.
"""

from __future__ import annotations

from collections.abc import Collection

from ..dataclass import dataclass, replace
from ..ir import walk
from ..ir.analyses.liveness import interference, is_move, touches
from ..ir.nodes import Alloc, Buffer, BufferView, Stmt, TileOp
from ..ir.rewriting import Rewriting
from ..ir.walk import Block


def coalesced(body: Block, kept: Collection[str]) -> Block:
    """Return the statements with coalesced tiles, without redundant moves. kept: the names of buffers not to merge."""
    moves = _moves(body, kept)
    if not moves:
        return body
    names = dict.fromkeys(buffer.name for move in moves for buffer in _ends(move))
    numbers = {name: number for number, name in enumerate(names)}
    touched = touches(body, numbers)
    needs = interference(body, numbers, touched)
    unread = {id(move) for move in needs.unread}
    if unread:
        needs = interference(body, numbers, {key: what for key, what in touched.items() if key not in unread})
    classes = _Classes(numbers, needs.apart)
    for move in moves:
        if id(move) not in unread:
            classes.join(*_ends(move))
    return _shared(body, classes, unread)


def _moves(body: Block, kept: Collection[str]) -> list[TileOp]:
    moves: list[tuple[int, TileOp]] = []
    for depth, move in _moves_by_depth(body, 0):
        dst, src = _ends(move)
        same_layout = (dst.layout, dst.slots) == (src.layout, src.slots)
        if same_layout and dst.name not in kept and src.name not in kept:
            moves.append((depth, move))
    return [move for _, move in sorted(moves, key=lambda each: -each[0])]


def _ends(move: TileOp) -> tuple[Buffer, Buffer]:
    return move.tiles["dst"].buffer, move.tiles["src"].buffer


def _moves_by_depth(block: Block, depth: int) -> list[tuple[int, TileOp]]:
    found: list[tuple[int, TileOp]] = []
    for stmt in block:
        if isinstance(stmt, TileOp):
            if is_move(stmt):
                found.append((depth, stmt))
        elif type(stmt) in walk.COMPOUND_KINDS:
            for inner in walk.blocks(stmt):
                found += _moves_by_depth(inner, depth + 1)
    return found


@dataclass(slots=True)
class _Classes:
    """Disjoint sets of tiles, which are numbered; the tiles of a set share a buffer."""

    numbers: dict[str, int]
    #: as in `Interference`; the mask of a set is at the index of its least tile
    apart: list[int]
    members: list[int]
    least: list[int]

    def __init__(self, numbers: dict[str, int], apart: list[int]) -> None:
        self.numbers, self.apart = numbers, list(apart)
        self.members = [1 << n for n in range(len(apart))]
        self.least = list(range(len(apart)))

    def join(self, first: Buffer, second: Buffer) -> None:
        a, b = sorted(self.least[self.numbers[buffer.name]] for buffer in (first, second))
        if a == b or self.apart[a] & self.members[b] or self.apart[b] & self.members[a]:
            return
        self.apart[a] |= self.apart[b]
        self.members[a] |= self.members[b]
        self.least = [a if n == b else n for n in self.least]

    def of(self, buffer: Buffer) -> int | None:
        number = self.numbers.get(buffer.name)
        return None if number is None else self.least[number]


def _shared(body: Block, classes: _Classes, unread: Collection[int]) -> Block:
    """Return the statements with one buffer per set, without moves within a set and moves whose `id` is in `unread`."""
    first: dict[int, Buffer] = {}
    others: dict[str, Buffer] = {}
    dropped: dict[int, tuple[Stmt, ...]] = {}
    for at, alloc in walk.numbered(body, Alloc):
        number = classes.of(alloc.buffer)
        shared = alloc.buffer if number is None else first.setdefault(number, alloc.buffer)
        if shared is not alloc.buffer:
            others[alloc.buffer.name] = shared
            dropped[at] = ()
    for view in walk.each(body, BufferView):
        base = view.buffer.base
        if base is not None and base.name in others:
            others[view.buffer.name] = replace(view.buffer, base=others[base.name])
    for at, op in walk.numbered(body, TileOp):
        if is_move(op):
            dst, src = [others.get(buffer.name, buffer) for buffer in _ends(op)]
            if id(op) in unread or dst.name == src.name:
                dropped[at] = ()
    return Rewriting(others).block(walk.edited(body, dropped))
