"""Tiles of one element, of which each thread of a scope has a copy, which it may compute by itself.

    cta.sum s[], x[0 +: 64]
    if %thread_id == 0
      cta.mul t[], s[], 2.0        every thread has a copy of s; thread 0 alone computes t, and nobody else reads it
      let y: float32 = t[]
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from ...layout import TileLayout
from ...ops import axes
from ...remember import remembered
from ...scopes import SCOPES
from .. import nodes as ir
from .. import walk

__all__ = ["has_copies", "may_run_per_thread", "is_of_copies", "numbers_of", "written_by_numbers"]

#: the classes of operands that all threads give alike; None is one that isn't given
_UNIFORM = (ir.Region, ir.Const, type(None))


def has_copies(tile: ir.Buffer, scope: str, threads: int) -> bool:
    """Whether a tile with a layout is one element, of which each thread of a scope has a copy. threads: of the CTA."""
    layout = tile.layout
    if not isinstance(layout, TileLayout) or layout.size() != 1:
        return False
    copies = prod(it.extent for it in layout.replica if it.axis.is_thread)
    return copies == SCOPES[scope].threads(threads)


def is_of_copies(op: ir.TileOp, threads: int) -> bool:
    """Whether an operation is elementwise on tiles of one element, of which each thread of its scope has a copy."""
    if op.record.relation is not axes.ELEMENTWISE:
        return False
    return all(_is_copied(region, op, threads) for region in op.tiles.values())


def may_run_per_thread(op: ir.TileOp, body: walk.Block) -> bool:
    """Whether threads may carry out an operation of copies without the others of its scope.

    What it gives is read and written only in its own block and below, after an operation of that block has written
    it: who reads a copy has made it.
    body: of the kernel, at tile level.
    """
    uses = _uses(body)
    block = uses.blocks[id(op)]
    begin = uses.numbers[id(block[0])]
    end = begin + walk.inventory(block).size
    for region in op.written:
        name = region.buffer.root.name
        naming = uses.naming[name]
        first = walk.statements(body)[naming[0]]
        if naming[0] < begin or naming[-1] >= end or uses.blocks[id(first)] is not block:
            return False
        if any(place.buffer.root.name == name for place in walk.reads(first)):
            return False
    return True


def numbers_of(op: ir.TileOp) -> list[ir.Expr]:
    """The operands of an operation that are neither tiles nor known: each thread gives its own."""
    return [given for given in op.operands if not isinstance(given, _UNIFORM)]


def written_by_numbers(body: walk.Block) -> frozenset[str]:
    """The local tiles that every thread has whole, by name, and computes from such numbers, or other such tiles."""
    names: set[str] = set()
    operations = walk.each(body, ir.TileOp)
    if not [given for op in operations for given in op.operands if not isinstance(given, _UNIFORM)]:
        return frozenset()
    writes = [(tile.name, op) for op in operations for tile in _whole_tiles_written(op)]
    grows = True
    while grows:
        found = len(names)
        for name, op in writes:
            if name not in names and (numbers_of(op) or any(each.buffer.root.name in names for each in op.read)):
                names.add(name)
        grows = len(names) > found
    return frozenset(names)


def _whole_tiles_written(op: ir.TileOp) -> list[ir.Buffer]:
    tiles = [region.buffer.root for region in op.written if region.buffer.space == "local"]
    return [tile for tile in tiles if _is_one(tile) or _is_with_every_thread(tile.layout)]


def _is_with_every_thread(layout: object) -> bool:
    return isinstance(layout, TileLayout) and not any(it.axis.is_thread and it.extent > 1 for it in layout.shard)


def _is_one(tile: ir.Buffer) -> bool:
    return all(extent == 1 for extent in tile.shape)


def _is_copied(region: ir.Region, op: ir.TileOp, threads: int) -> bool:
    tile = region.buffer.root
    if tile.space != "local":
        return False
    if isinstance(tile.layout, ir.Open):
        # one element that nobody laid out is with all threads
        return tile.layout.scope == op.scope and _is_one(tile)
    return has_copies(tile, op.scope, threads)


class _Uses(NamedTuple):
    """Where the statements of a kernel stand.

    blocks: the block of each, by its identity. numbers: its number in the order of the text.
    naming: the numbers of those that read or write a buffer, by the name of its root, in order.
    """

    blocks: dict[int, walk.Block]
    numbers: dict[int, int]
    naming: dict[str, list[int]]


@remembered
def _uses(body: walk.Block) -> _Uses:
    uses = _Uses({}, {}, {})
    waiting = [body]
    for block in waiting:
        for stmt in block:
            uses.blocks[id(stmt)] = block
            waiting += walk.blocks(stmt)
    for number, stmt in enumerate(walk.statements(body)):
        uses.numbers[id(stmt)] = number
        for name in {place.buffer.root.name for place in (*walk.reads(stmt), *walk.writes(stmt))}:
            uses.naming.setdefault(name, []).append(number)
    return uses
