"""Fences for tensor memory that one warpgroup hands over to another by a barrier, a ring or a flag.

    tcgen05.fence::before_thread_sync       directly before an arrival or a release (and its implicit synchronization)
    tcgen05.fence::after_thread_sync        directly after a wait or an acquire

They are inserted only where threads that access tensor memory may execute them, and only in CTAs of several warpgroups,
because the warps of one warpgroup access different lanes. A barrier of a smaller scope than the CTA gets both fences:
one of its threads may arrive or wait on behalf of the others. Code generation adds the fences of the CTA's barrier.

source: PTX ISA, "tcgen05.fence".
"""

from __future__ import annotations

from ...dataclass import replace
from ...ir import walk
from ...ir.analyses.thread_values import ThreadValues, comers
from ...ir.nodes import Arrive, Instruction, Kernel, Stmt, Sync, WaitPhase
from ...isa.barriers import SYNCHRONIZING
from ...isa.tcgen05 import FENCE_AFTER, FENCE_BEFORE, LD, ST
from ...scopes import CTA
from ...target import WARPGROUP
from .proxies import acquires, releases

_ACCESSES = frozenset(row.name for row in (*LD.rows(), *ST.rows()))
_BARRIERS = frozenset(row.name for row in SYNCHRONIZING)


def with_tensor_fences(kernel: Kernel) -> Kernel:
    """Insert fences into a kernel at lane level where threads hand over tensor memory."""
    if kernel.threads <= WARPGROUP or not any(i.name in _ACCESSES for i in walk.each(kernel.body, Instruction)):
        return kernel
    values = ThreadValues(kernel.threads)
    values.define_conditions(kernel.body)
    every = list(zip(walk.statements(kernel.body), comers(kernel.body, values), strict=True))
    if all(isinstance(stmt, Sync) or not (_hands_over(stmt) or _takes_over(stmt)) for stmt, _ in every):
        return kernel
    accessing = 0
    for stmt, coming in every:
        if isinstance(stmt, Instruction) and stmt.name in _ACCESSES:
            accessing |= coming
    fenced: dict[int, tuple[Stmt, ...]] = {}
    for number, (stmt, coming) in enumerate(every):
        before = (Instruction(FENCE_BEFORE.name, (), (), stmt.span),) if _hands_over(stmt) else ()
        after = (Instruction(FENCE_AFTER.name, (), (), stmt.span),) if _takes_over(stmt) else ()
        if coming & accessing and (before or after):
            fenced[number] = (*before, stmt, *after)
    return replace(kernel, body=walk.edited(kernel.body, fenced))


def _hands_over(stmt: Stmt) -> bool:
    """True if `stmt`, other than the CTA's barrier, lets other threads rely on this thread's earlier accesses."""
    return isinstance(stmt, Arrive) or _is_partial_barrier(stmt) or releases(stmt)


def _takes_over(stmt: Stmt) -> bool:
    """True if `stmt`, other than the CTA's barrier, lets this thread rely on other threads' earlier accesses."""
    if isinstance(stmt, Instruction):
        return stmt.name in _BARRIERS
    return isinstance(stmt, WaitPhase) or _is_partial_barrier(stmt) or acquires(stmt)


def _is_partial_barrier(stmt: Stmt) -> bool:
    return isinstance(stmt, Sync) and stmt.scope != CTA.name
