"""Barriers of a warp, a warpgroup, a CTA and a cluster, and named barriers for any warps of a CTA.

A CTA has 16 named barriers: 0 is for all of its threads, 1 to 7 are for users, and from 8 on each warpgroup has one.
"""

from __future__ import annotations

from functools import partial

from ..scopes import CTA, THREAD, WARP, WARPGROUP, Scope
from .row import B32, Direction, Row, predicate, register
from .warp import VOTE

OF_A_CTA = 16

#: the numbers of the named barriers for users, and of the first warpgroup's barrier
USERS = range(1, 8)
OF_WARPGROUPS = 8

_sync = partial(
    Row, since=75, ptx=(6, 0), memory=True, convergent=True,
    source='PTX ISA, "Parallel Synchronization and Communication Instructions: bar, bar.warp.sync"',
)

BAR_SYNC = _sync(
    name="bar.sync", text="bar.sync 0;", scope=CTA,
    meaning="waits for all threads of the CTA; orders their memory accesses",
)
BAR_WARP_SYNC = _sync(
    name="bar.warp.sync", text="bar.warp.sync -1;", scope=WARP,
    meaning="waits for all lanes of the warp; orders their memory accesses",
)
BAR_SYNC_NAMED = _sync(
    name="bar.sync.named", text="bar.sync $barrier, 128;", scope=WARPGROUP,
    meaning="waits for the 128 threads that name $barrier",
    operands=(register("barrier", B32),),
)

_NUMBERED = (register("barrier", B32, is_common=True), register("threads", B32, is_common=True))

BAR_SYNC_NUMBERED = _sync(
    name="bar.sync.n", text="bar.sync $barrier, $threads;", scope=WARP, called="named_barrier(...).sync",
    meaning="waits for the $threads threads that name $barrier; orders their memory accesses",
    operands=_NUMBERED,
)
BAR_ARRIVE_NUMBERED = _sync(
    name="bar.arrive.n", text="bar.arrive $barrier, $threads;", scope=WARP, called="named_barrier(...).arrive",
    meaning="arrives at $barrier as one of $threads threads without waiting; accesses before it are ordered before "
    "those of waiting threads after their wait",
    operands=_NUMBERED, elides_sync=True,
)

_of_cluster = partial(
    Row, since=90, ptx=(8, 0), memory=True, convergent=True,
    source='PTX ISA, "Parallel Synchronization and Communication Instructions: barrier.cluster"',
)

CLUSTER_SYNC = _of_cluster(
    name="barrier.cluster", scope=CTA, called="cluster_sync",
    text="barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;",
    meaning="waits for all threads of the cluster; orders their memory accesses",
)
CLUSTER_ENTRY = _of_cluster(
    name="barrier.cluster.entry", scope=CTA,
    text="barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;",
    meaning="waits for all threads of the cluster; orders only accesses that earlier fences release",
)
CLUSTER_EXIT = _of_cluster(
    name="barrier.cluster.exit", scope=THREAD,
    text="barrier.cluster.arrive.release; barrier.cluster.wait.acquire;",
    meaning="waits for all threads of the cluster that haven't exited, even on divergent paths, and for their accesses",
)

#: scope -> the barrier of its threads
BARRIERS: dict[Scope, Row] = {row.scope: row for row in (BAR_SYNC, BAR_WARP_SYNC, BAR_SYNC_NAMED)}


def _vote(vote: str, scope: Scope) -> Row:
    how, of_warp = {"any": "or", "all": "and"}[vote], VOTE[vote]
    barrier = BARRIERS[scope]
    at, name = ("$barrier, 128", f"bar.{vote}.named") if barrier.arguments else ("0", f"bar.{vote}")
    # ptxas infers that a vote's result is uniform, but not that a barrier reduction's is. So each warp also votes on
    # the result, which lets ptxas use uniform registers after a branch on it.
    text = f"bar.red.{how}.pred $result, {at}, $predicate; vote.sync.{vote}.pred $result, $result, -1;"
    return Row(
        name=name, text=text, scope=scope, since=75, ptx=(6, 0), memory=True, convergent=True, agrees=True,
        meaning=f"{of_warp.meaning.replace('lane', 'thread')}; {barrier.meaning}",
        operands=(predicate("result", Direction.OUT), *barrier.operands, predicate("predicate")),
        source='PTX ISA, "Parallel Synchronization and Communication Instructions: bar, vote.sync"',
    )


#: (vote, scope) -> the instruction; in scopes larger than a warp, it includes a barrier
VOTES: dict[tuple[str, Scope], Row] = {
    (vote, scope): VOTE[vote] if scope is WARP else _vote(vote, scope)
    for vote in ("any", "all")
    for scope in BARRIERS
}

_VOTING = tuple(row for (_, scope), row in VOTES.items() if scope is not WARP)

#: barriers at which threads wait for each other and that order all their memory accesses
SYNCHRONIZING = frozenset((*BARRIERS.values(), BAR_SYNC_NUMBERED, CLUSTER_SYNC, *_VOTING))

ROWS = (
    *BARRIERS.values(), BAR_SYNC_NUMBERED, BAR_ARRIVE_NUMBERED, *_VOTING, CLUSTER_SYNC, CLUSTER_ENTRY, CLUSTER_EXIT,
)
