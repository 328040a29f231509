"""Lowering of arrivals at barriers: the instance of the scope synchronizes if it must, and its leader arrives."""

from __future__ import annotations

from collections.abc import Sequence

from ...dataclass import replace
from ...ir import walk
from ...ir.names import defined_names
from ...ir.nodes import Arrive, Expr, Instruction, Kernel, Stmt, Sync, Vector
from ...isa import mbarrier
from ..builder import Builder
from .clusters import peer_ranks, release_axes
from .synchronization import synchronizing_arrivals


def expand(kernel: Kernel) -> Kernel:
    """Return `kernel`, which is at lane level, with each `Arrive` replaced by instructions."""
    if Arrive not in walk.inventory(kernel.body).kinds:
        return kernel
    b = Builder(defined_names(kernel.body))
    synchronizing = synchronizing_arrivals(kernel)
    axes = release_axes(kernel.body)
    expanded: dict[int, tuple[Stmt, ...]] = {}
    for number, stmt in walk.numbered(kernel.body, Arrive):
        axis = axes.get(stmt.place.buffer.name)
        peers = () if kernel.cluster is None or axis is None else tuple(peer_ranks(kernel.cluster, axis))
        _arrive(b, stmt, kernel.threads, peers, synchronizes=id(stmt) in synchronizing)
        expanded[number] = b.take()
    return replace(kernel, body=walk.edited(kernel.body, expanded))


def _arrive(b: Builder, stmt: Arrive, threads: int, peers: Sequence[Expr], *, synchronizes: bool) -> None:
    """Emit an arrival at a barrier, and at the same barrier of each CTA whose rank is in `peers`."""
    assert isinstance(stmt.place, Vector), "lowering leaves no Element"
    b.span = stmt.span
    if synchronizes:
        b.append(Sync(stmt.scope, stmt.span))
    row = mbarrier.ARRIVE if stmt.bytes is None else mbarrier.ARRIVE_EXPECT
    inputs = (stmt.place,) if stmt.bytes is None else (stmt.place, stmt.bytes)
    with b.when(b.leads(stmt.scope, threads)):
        b.append(Instruction(row.name, (), inputs, stmt.span))
        for cta in peers:
            b.append(Instruction(mbarrier.ARRIVE_AT_PEER.name, (), (stmt.place, cta), stmt.span))
