"""Tiles of one element with a copy in each thread of a scope; a thread may compute its copy without the others.

    cta.sum s[], x[0 +: 64]
    if %thread_id == 0
      cta.mul t[], s[], 2.0        every thread has a copy of s; only thread 0 computes t, and no other thread reads t
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

#: the classes of operands that aren't run-time scalars; an omitted operand is None
_UNIFORM = (ir.Region, ir.Const, type(None))


def has_copies(tile: ir.Buffer, scope: str, threads: int) -> bool:
    """True if a tile's layout has one element, with a copy in each thread of a scope. threads: threads per CTA."""
    layout = tile.layout
    if not isinstance(layout, TileLayout) or layout.size() != 1:
        return False
    copies = prod(it.extent for it in layout.replica if it.axis.is_thread)
    return copies == SCOPES[scope].threads(threads)


def is_of_copies(op: ir.TileOp, threads: int) -> bool:
    """True if an operation is elementwise on tiles of one element with a copy in each thread of its scope."""
    if op.record.relation is not axes.ELEMENTWISE:
        return False
    return all(_is_copied(region, op, threads) for region in op.tiles.values())


def may_run_per_thread(op: ir.TileOp, body: walk.Block) -> bool:
    """True if an operation for which `is_of_copies` is true can safely be executed by only some threads of its scope.

    Each tile that the operation writes must be accessed only within the block that contains the operation, and first by
    a statement directly in this block that doesn't read it. Then each thread has computed the copy that it reads.
    body: the kernel's body.
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
    """Return an operation's scalar operands that aren't constant, and thus may differ between threads."""
    return [given for given in op.operands if not isinstance(given, _UNIFORM)]


def written_by_numbers(body: walk.Block) -> frozenset[str]:
    """Return the names of one-element or replicated local tiles computed, even indirectly, from `numbers_of`."""
    names: set[str] = set()
    operations = walk.each(body, ir.TileOp)
    if not [given for op in operations for given in op.operands if not isinstance(given, _UNIFORM)]:
        return frozenset()
    writes = [
        (tile.name, op) for op in operations for region in op.written
        if (tile := region.buffer.root).space == "local" and (_is_one(tile) or _is_replicated(tile.layout))
    ]
    grows = True
    while grows:
        found = len(names)
        for name, op in writes:
            if name not in names and (numbers_of(op) or any(each.buffer.root.name in names for each in op.read)):
                names.add(name)
        grows = len(names) > found
    return frozenset(names)


def _is_replicated(layout: object) -> bool:
    return isinstance(layout, TileLayout) and not any(it.axis.is_thread and it.extent > 1 for it in layout.shard)


def _is_one(tile: ir.Buffer) -> bool:
    return all(extent == 1 for extent in tile.shape)


def _is_copied(region: ir.Region, op: ir.TileOp, threads: int) -> bool:
    tile = region.buffer.root
    if tile.space != "local":
        return False
    if isinstance(tile.layout, ir.Open):
        # an open tile of one element has a copy in each thread of its scope
        return tile.layout.scope == op.scope and _is_one(tile)
    return has_copies(tile, op.scope, threads)


class _Uses(NamedTuple):
    """The positions of a kernel's statements.

    blocks: statement's id -> the block that contains it. numbers: statement's id -> its index in program order.
    naming: name of a root buffer -> the indices of the statements that access it, in order.
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
