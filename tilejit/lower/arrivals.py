"""Arrivals at barriers become instructions: the instance synchronises, unless it needn't, and its leader arrives."""

from __future__ import annotations

from ..dataclass import replace
from ..ir import walk
from ..ir.names import defined_names
from ..ir.nodes import Arrive, Instruction, Kernel, Stmt, Sync, Vector
from ..isa import mbarrier
from .builder import Builder
from .leaders import leads
from .meetings import meetings

__all__ = ["expand"]


def expand(kernel: Kernel) -> Kernel:
    """The kernel without `Arrive`."""
    if Arrive not in walk.inventory(kernel.body).kinds:
        return kernel
    b = Builder(defined_names(kernel.body))
    meeting = meetings(kernel)
    made: dict[int, tuple[Stmt, ...]] = {}
    for number, stmt in walk.numbered(kernel.body, Arrive):
        _arrive(b, stmt, kernel.threads, meets=id(stmt) in meeting)
        made[number] = b.take()
    return replace(kernel, body=walk.edited(kernel.body, made))


def _arrive(b: Builder, stmt: Arrive, threads: int, *, meets: bool) -> None:
    assert isinstance(stmt.place, Vector), "lowering leaves no Element"
    b.span = stmt.span
    if meets:
        b.append(Sync(stmt.scope, stmt.span))
    row = mbarrier.ARRIVE if stmt.bytes is None else mbarrier.ARRIVE_EXPECT
    inputs = (stmt.place,) if stmt.bytes is None else (stmt.place, stmt.bytes)
    with b.when(leads(b, stmt.scope, threads)):
        b.append(Instruction(row.name, (), inputs, stmt.span))
