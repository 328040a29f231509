"""Clusters: which CTAs a copy fills and a release reaches, and that those begin and end together who do so.

A copy for several CTAs, and a release of what it filled, go along one axis; the hardware numbers CTAs:

    cluster (2, 3)    CTA (x, y) has rank x + 2 y
    along axis 0      0 1, 2 3, 4 5       along axis 1      0 2 4, 1 3 5

Where CTAs use each other's shared memory, none may do so before the others' barriers are there, and none may end while
another one may still arrive at its barriers: shared memory is there as long as a thread of the CTA. The barrier of a
cluster counts the threads that haven't ended. So it is enough that some of each CTA wait there for all others. They
release there what they did: an arrival in another CTA may be under way for some time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_

from ..dataclass import replace
from ..dtypes import int32, uint16
from ..ir import walk
from ..ir.analyses.thread_values import ThreadValues, comers
from ..ir.arithmetic import build
from ..ir.clusters import Cluster, has_one_axis, rank_name
from ..ir.nodes import Alloc, Expr, If, Instruction, Kernel, Return, Special, Stmt
from ..ir.walk import Block
from ..isa.barriers import CLUSTER_ENTRY, CLUSTER_EXIT
from ..isa.mbarrier import ARRIVE_AT_PEER
from ..isa.tma import MULTICAST_LOADS

__all__ = ["multicast_mask", "peer_ranks", "release_axes", "synchronize_clusters"]


def multicast_mask(cluster: Cluster, axis: int) -> Expr:
    """The CTAs along an axis that this one is of, CTA i as bit i."""
    every = sum([1 << rank * _step(cluster, axis) for rank in range(cluster[axis])])
    mask = build.const(every, int32)
    return build.cast(mask if has_one_axis(cluster, axis) else build.left_shift(mask, _first(cluster, axis)), uint16)


def peer_ranks(cluster: Cluster, axis: int) -> Iterator[Expr]:
    """The ranks of the other CTAs along an axis that this one is of."""
    count, rank = cluster[axis], Special(rank_name(cluster, axis))
    for apart in range(1, count):
        if count & (count - 1):
            other = build.mod(build.add(rank, apart), count)
        else:
            other = build.bitwise_xor(rank, build.const(apart, int32))
        yield build.add(_first(cluster, axis), build.mul(other, _step(cluster, axis)))


def _step(cluster: Cluster, axis: int) -> int:
    """From one CTA's rank to the next one's along an axis."""
    return math.prod(cluster[:axis])


def _first(cluster: Cluster, axis: int) -> Expr:
    """The rank of the first CTA along an axis that this one is of."""
    if has_one_axis(cluster, axis):
        return build.const(0, int32)
    return build.sub(Special(rank_name(cluster)), build.mul(Special(rank_name(cluster, axis)), _step(cluster, axis)))


def release_axes(body: Block) -> Mapping[str, int]:
    """The barriers at which CTAs arrive in all those along an axis of their cluster, by name, and the axis."""
    return {alloc.buffer.name: alloc.reach for alloc in walk.each(body, Alloc) if alloc.reach is not None}


#: the names of the instructions by which a thread uses the shared memory of other CTAs
_REACHING = frozenset({ARRIVE_AT_PEER.name, *(row.name for row in MULTICAST_LOADS.rows())})


def synchronize_clusters(kernel: Kernel) -> Kernel:
    """The kernel at lane level, its arrivals instructions, whose CTAs begin and end together where they must."""
    if kernel.cluster is None or not any(s.name in _REACHING for s in walk.each(kernel.body, Instruction)):
        return kernel
    values = ThreadValues(kernel.threads)
    values.define_conditions(kernel.body)
    entry = Instruction(CLUSTER_ENTRY.name, span=kernel.span)
    leave = Instruction(CLUSTER_EXIT.name, span=kernel.span)
    arriving = _arriving_threads(kernel.body, values)
    return replace(kernel, body=(entry, *_leave_at_end(kernel.body, values, values.everybody, arriving, leave)))


def _leave_at_end(body: Block, values: ThreadValues, coming: int, arriving: int, leave: Instruction) -> Block:
    """The kernel's last statements, or those of a branch there, with `leave` where threads end.

    Of threads that take two ways by their ids, those of whom none arrive in other CTAs, on the way or before, needn't
    wait: ptxas would take what the warp does there that copies for divergent (registers of threads, and every copy
    twice). coming: who comes there by their ids, thread i as bit i. arriving: who arrives in other CTAs, anywhere.
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
    """The threads that may arrive in other CTAs, thread i as bit i."""
    every = zip(walk.statements(body), comers(body, values), strict=True)
    who = [each for stmt, each in every if isinstance(stmt, Instruction) and stmt.name == ARRIVE_AT_PEER.name]
    return reduce(or_, who, 0)


def _leave_before_returns(body: Block, leave: Instruction) -> Block:
    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        return (leave, stmt) if isinstance(stmt, Return) else (stmt,)

    return walk.rewrite(body, change)
