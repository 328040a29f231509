"""Ranks of CTAs in a cluster, and the barriers at which the CTAs start and end together.

A multicast copy, and the release of the memory that it filled, reach the CTAs along one axis of the cluster:

    cluster (2, 3)    CTA (x, y) has rank x + 2 y
    along axis 0      0 1, 2 3, 4 5       along axis 1      0 2 4, 1 3 5

A CTA must not access the shared memory of others before their barriers are initialized. It must not end while others
may still arrive at its barriers, since its shared memory lives only as long as a thread of the CTA. The cluster barrier
counts only threads that haven't exited, so it suffices that some threads of each CTA wait there at the end. They arrive
at it with release semantics, since their arrivals at the barriers of other CTAs may still be in flight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_

from ...dataclass import replace
from ...dtypes import int32, uint16
from ...ir import walk
from ...ir.analyses.thread_values import ThreadValues, comers
from ...ir.arithmetic import build
from ...ir.clusters import Cluster, has_one_axis, rank_name
from ...ir.nodes import Alloc, Expr, If, Instruction, Kernel, Return, Special, Stmt
from ...ir.walk import Block
from ...isa.barriers import CLUSTER_ENTRY, CLUSTER_EXIT
from ...isa.hints import with_hints
from ...isa.mbarrier import ARRIVE_AT_PEER
from ...isa.tma import MULTICAST_LOADS


def multicast_mask(cluster: Cluster, axis: int) -> Expr:
    """Return a mask of this CTA and those whose position differs only along `axis`; bit i is the CTA of rank i."""
    every = sum([1 << rank * _step(cluster, axis) for rank in range(cluster[axis])])
    mask = build.const(every, int32)
    return build.cast(mask if has_one_axis(cluster, axis) else build.left_shift(mask, _first(cluster, axis)), uint16)


def peer_ranks(cluster: Cluster, axis: int) -> Iterator[Expr]:
    """Yield the ranks of the CTAs whose position differs from this CTA's only along `axis`."""
    count, rank = cluster[axis], Special(rank_name(cluster, axis))
    for apart in range(1, count):
        if count & (count - 1):
            other = build.mod(build.add(rank, apart), count)
        else:
            other = build.bitwise_xor(rank, build.const(apart, int32))
        yield build.add(_first(cluster, axis), build.mul(other, _step(cluster, axis)))


def _step(cluster: Cluster, axis: int) -> int:
    return math.prod(cluster[:axis])


def _first(cluster: Cluster, axis: int) -> Expr:
    if has_one_axis(cluster, axis):
        return build.const(0, int32)
    return build.sub(Special(rank_name(cluster)), build.mul(Special(rank_name(cluster, axis)), _step(cluster, axis)))


def release_axes(body: Block) -> Mapping[str, int]:
    """Map the name of each barrier buffer whose releases reach the CTAs along a cluster axis to that axis."""
    return {alloc.buffer.name: alloc.reach for alloc in walk.each(body, Alloc) if alloc.reach is not None}


#: names of the instructions by which a thread accesses the shared memory of other CTAs
_REACHING = frozenset({ARRIVE_AT_PEER.name, *with_hints(MULTICAST_LOADS.rows())})


def synchronize_clusters(kernel: Kernel) -> Kernel:
    """Make a cluster's CTAs start and end together if one accesses another's shared memory.

    `arrivals.expand` must already have replaced each `Arrive`.
    """
    if kernel.cluster is None or not any(s.name in _REACHING for s in walk.each(kernel.body, Instruction)):
        return kernel
    values = ThreadValues.of_conditions(kernel)
    entry = Instruction(CLUSTER_ENTRY.name, span=kernel.span)
    leave = Instruction(CLUSTER_EXIT.name, span=kernel.span)
    arriving = _arriving_threads(kernel.body, values)
    return replace(kernel, body=(entry, *_leave_at_end(kernel.body, values, values.everybody, arriving, leave)))


def _leave_at_end(body: Block, values: ThreadValues, coming: int, arriving: int, leave: Instruction) -> Block:
    """Insert `leave` before each exit of the threads that reach `body`.

    If `body` ends in a branch on thread ids, and the threads of only one side arrive at other CTAs, the other side
    doesn't wait. If it did, ptxas would treat the code of the copying warp as divergent, keep values in
    per-thread registers and emit every copy twice (10 % more instructions).
    coming: the threads that may reach `body`, thread i as bit i. arriving: those that arrive at barriers of other CTAs.
    """
    last = body[-1] if body else None
    if isinstance(last, If) and values.of(last.cond) is not None:
        true, false = (coming & threads for threads in values.finding(last.cond))
        then, orelse = bool(true & arriving), bool(false & arriving)
        if true and false and then != orelse:
            ways = (
                _leave_at_end(last.then, values, true, arriving, leave) if then else last.then,
                _leave_at_end(last.orelse, values, false, arriving, leave) if orelse else last.orelse,
            )
            return (*_leave_before_returns(body[:-1], leave), replace(last, then=ways[0], orelse=ways[1]))
    return (*_leave_before_returns(body, leave), *(() if isinstance(last, Return) else (leave,)))


def _arriving_threads(body: Block, values: ThreadValues) -> int:
    every = zip(walk.statements(body), comers(body, values), strict=True)
    arriving = [each for stmt, each in every if isinstance(stmt, Instruction) and stmt.name == ARRIVE_AT_PEER.name]
    return reduce(or_, arriving, 0)


def _leave_before_returns(body: Block, leave: Instruction) -> Block:
    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        return (leave, stmt) if isinstance(stmt, Return) else (stmt,)

    return walk.rewrite(body, change)
