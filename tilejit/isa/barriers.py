"""Barriers of a CTA, a warpgroup, a warp."""

from __future__ import annotations

from ..scopes import CTA, WARP, WARPGROUP, Scope
from .row import B32, Operand, Row, register

__all__ = ["BAR_SYNC", "BAR_SYNC_NAMED", "BAR_WARP_SYNC", "BARRIERS", "ROWS"]


def _sync(name: str, text: str, scope: Scope, meaning: str, operands: tuple[Operand, ...] = ()) -> Row:
    return Row(
        name=name,
        text=text,
        meaning=meaning,
        operands=operands,
        since=75,
        ptx=(6, 0),
        scope=scope,
        memory=True,
        convergent=True,
        source='PTX ISA, "Parallel Synchronization and Communication Instructions: bar, bar.warp.sync"',
    )


BAR_SYNC = _sync("bar.sync", "bar.sync 0;", CTA, "waits for all threads of the CTA; orders their memory accesses")
BAR_WARP_SYNC = _sync(
    "bar.warp.sync", "bar.warp.sync -1;", WARP, "waits for all lanes of the warp; orders their memory accesses"
)
BAR_SYNC_NAMED = _sync(
    "bar.sync.named",
    "bar.sync $barrier, 128;",
    WARPGROUP,
    "waits for the 128 threads that name $barrier",
    (register("barrier", B32),),
)

ROWS = (BAR_SYNC, BAR_WARP_SYNC, BAR_SYNC_NAMED)

#: scope -> the barrier among its threads
BARRIERS: dict[Scope, Row] = {row.scope: row for row in ROWS}
