"""Moves open tiles of scopes with the same threads, such as a warp and a CTA of one warp, to one scope."""

from __future__ import annotations

from ...dataclass import replace
from ...ir import walk
from ...ir.nodes import Alloc, Buffer, Kernel, Open, TileOp
from ...scopes import SCOPES


def on_one_scope(kernel: Kernel) -> Kernel:
    """Move open tiles of scopes that span the CTA to the narrowest of them, whose thread axes are valid in all."""
    same = [scope.name for scope in SCOPES.values() if scope.threads(kernel.threads) == kernel.threads]
    if len(same) == 1:
        return kernel
    tiles = {alloc.buffer.name: scope for alloc in walk.each(kernel.body, Alloc) if (scope := _scope(alloc.buffer))}
    if not tiles:
        return kernel
    operating = {op.scope for op in walk.each(kernel.body, TileOp) if any(_scope(t.buffer) for t in op.tiles.values())}
    if len(operating.union(tiles.values()).intersection(same)) < 2:
        return kernel
    moved = {name for name, scope in tiles.items() if scope in same[1:]}
    if not moved:
        return kernel
    buffers = [stmt.buffer for stmt in walk.statements(kernel.body) if isinstance(stmt, walk.BUFFERS)]
    others = {buffer.name: _on(buffer, same[0]) for buffer in buffers if buffer.root.name in moved}
    return replace(kernel, body=walk.rebuffered(kernel.body, others))


def _scope(buffer: Buffer) -> str | None:
    return buffer.layout.scope if isinstance(buffer.layout, Open) else None


def _on(buffer: Buffer, scope: str) -> Buffer:
    assert isinstance(buffer.layout, Open)
    base = None if buffer.base is None else _on(buffer.base, scope)
    return replace(buffer, layout=Open(scope, buffer.layout.dims), base=base)
