"""Arithmetic on tiles of one element in a branch that only some threads take: each computes its own copy.

    cta.sum s[], x[0 +: 64]
    if %thread_id == 0
      cta.mul t[], s[], 2.0        every thread has a copy of s; thread 0 alone computes t, and nobody else reads it
      let y: float32 = t[]
"""

from __future__ import annotations

from math import prod

from ...layout import TileLayout
from ...ops import relation
from ...scopes import SCOPES
from .. import nodes as ir
from .. import walk

__all__ = ["has_copies", "is_each_threads_own", "is_of_copies"]


def has_copies(tile: ir.Buffer, scope: str, threads: int) -> bool:
    """Whether a tile with a layout is one element, of which each thread of a scope has a copy. threads: of the CTA."""
    layout = tile.layout
    if not isinstance(layout, TileLayout) or layout.size() != 1:
        return False
    copies = prod(it.extent for it in layout.replica if it.axis.is_thread)
    return copies == SCOPES[scope].threads(threads)


def is_of_copies(op: ir.TileOp, threads: int) -> bool:
    """Whether an operation is elementwise on tiles of one element, of which each thread of its scope has a copy."""
    if op.record.relation is not relation.ELEMENTWISE:
        return False
    return all(_is_copied(region, op, threads) for region in op.tiles.values())


def is_each_threads_own(op: ir.TileOp, body: walk.Block) -> bool:
    """Whether threads may carry out an operation of copies without the others of its scope.

    What it gives is read and written only in its own block and below, after an operation of that block has written
    it: who reads a copy has made it.
    body: of the kernel, at tile level.
    """
    block = _around(op, body)
    names = {region.buffer.root.name for region in op.written}
    around = [stmt for stmt in walk.statements(body) if names & _named(stmt)]
    below = set(map(id, walk.statements(block)))
    first = around[0]
    return (
        all(id(stmt) in below for stmt in around)
        and any(stmt is first for stmt in block)
        and not any(place.buffer.root.name in names for place in walk.reads(first))
    )


def _is_copied(region: ir.Region, op: ir.TileOp, threads: int) -> bool:
    tile = region.buffer.root
    if tile.space != "local":
        return False
    if isinstance(tile.layout, ir.Open):
        # one element that nobody laid out is with all threads
        return tile.layout.scope == op.scope and prod(n for n in tile.shape if isinstance(n, int)) == 1
    return has_copies(tile, op.scope, threads)


def _named(stmt: ir.Stmt) -> set[str]:
    """The buffers that a statement itself reads or writes, by name."""
    return {place.buffer.root.name for place in (*walk.reads(stmt), *walk.writes(stmt))}


def _around(op: ir.TileOp, body: walk.Block) -> walk.Block:
    """The block in which an operation stands."""
    waiting = [body]
    for block in waiting:
        if any(stmt is op for stmt in block):
            return block
        waiting += [inner for stmt in block for inner in walk.blocks(stmt)]
    raise AssertionError(f"{op.name} stands nowhere in the kernel")
