"""Barriers of a CTA, a warpgroup, a warp; and those that some warps of a CTA name by a number.

A CTA has sixteen by number: 0 is its own, 1 to 7 are users', and from 8 on there is one for each warpgroup.
"""

from __future__ import annotations

from ..scopes import CTA, WARP, WARPGROUP, Scope
from .row import B32, Operand, Row, register

__all__ = [
    "BARRIERS", "BAR_ARRIVE_NUMBERED", "BAR_SYNC", "BAR_SYNC_NAMED", "BAR_SYNC_NUMBERED", "BAR_WARP_SYNC",
    "OF_A_CTA", "OF_WARPGROUPS", "ROWS", "USERS",
]

#: how many have a number
OF_A_CTA = 16

#: the numbers that users may name, and the first warpgroup's
USERS = range(1, 8)
OF_WARPGROUPS = 8


def _sync(
    name: str, text: str, scope: Scope, meaning: str, operands: tuple[Operand, ...] = (), called: str = ""
) -> Row:
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
        called=called,
        is_of_all=called.endswith("arrive"),
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

_NUMBERED = (register("barrier", B32, is_common=True), register("threads", B32, is_common=True))

BAR_SYNC_NUMBERED = _sync(
    "bar.sync.n",
    "bar.sync $barrier, $threads;",
    WARP,
    "waits for the $threads threads that name $barrier; orders their memory accesses",
    _NUMBERED,
    "named_barrier(...).sync",
)
BAR_ARRIVE_NUMBERED = _sync(
    "bar.arrive.n",
    "bar.arrive $barrier, $threads;",
    WARP,
    "counts as one of the $threads threads that name $barrier, and goes on; its accesses come before what others do "
    "who wait there",
    _NUMBERED,
    "named_barrier(...).arrive",
)

#: scope -> the barrier among its threads
BARRIERS: dict[Scope, Row] = {row.scope: row for row in (BAR_SYNC, BAR_WARP_SYNC, BAR_SYNC_NAMED)}

ROWS = (*BARRIERS.values(), BAR_SYNC_NUMBERED, BAR_ARRIVE_NUMBERED)
