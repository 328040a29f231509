"""Arrivals at barriers become instructions: the instance synchronises, and its leader arrives.

Whoever waits for the phase goes by what all threads of the instance did: so these meet first.
"""

from __future__ import annotations

from ..dataclass import replace
from ..ir import walk
from ..ir.names import defined_names
from ..ir.nodes import Arrive, Instruction, Kernel, Stmt, Sync, Vector
from ..isa import mbarrier
from ..isa.barriers import BARRIERS
from ..scopes import SCOPES
from .builder import Builder
from .leaders import leads

__all__ = ["expand"]


def expand(kernel: Kernel) -> Kernel:
    """The kernel without `Arrive`."""
    if not any(isinstance(stmt, Arrive) for stmt in walk.statements(kernel.body)):
        return kernel
    b = Builder(defined_names(kernel.body))

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(stmt, Arrive):
            return (stmt,)
        _arrive(b, stmt, kernel.threads)
        return b.take()

    return replace(kernel, body=walk.rewrite(kernel.body, change))


def _arrive(b: Builder, stmt: Arrive, threads: int) -> None:
    assert isinstance(stmt.place, Vector), "lowering leaves no Element"
    b.span = stmt.span
    if SCOPES[stmt.scope] in BARRIERS:
        b.append(Sync(stmt.scope, stmt.span))
    row = mbarrier.ARRIVE if stmt.bytes is None else mbarrier.ARRIVE_EXPECT
    inputs = (stmt.place,) if stmt.bytes is None else (stmt.place, stmt.bytes)
    with b.when(leads(b, stmt.scope, threads)):
        b.append(Instruction(row.name, (), inputs, stmt.span))
