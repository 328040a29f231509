"""Check of waits that leave the latest stores from shared memory unfinished.

A leader issues the stores of its instance, and a wait counts only stores that its own thread issued. The leaders of two
scopes may be different threads, so it is known which stores a wait leaves unfinished only if all have one scope.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...dataclass import dataclass, replace
from ...errors import KernelTypeError
from ...ir import walk
from ...ir.analyses.flow import Analysis, solve
from ...ir.nodes import Instruction, Jump, Kernel, Simple, TileOp
from ...isa import ROWS
from ...isa.tma import BULK_STORES, BULK_WAIT, BULK_WAIT_READ
from ...source import Span
from ..engine import Verdict
from .pending import unfinished


def check(kernel: Kernel, verdicts: Iterable[Verdict[Any]]) -> None:
    """Check the waits of a kernel at tile level.

    raises: KernelTypeError if a wait may leave stores unfinished, and those that it counts may have several scopes.
    """
    stores = frozenset(v.op for v in verdicts if BULK_STORES in v.chosen.starts and "barrier" not in v.op.options)
    if len({op.scope for op in stores}) < 2:
        return
    statements = walk.statements(kernel.body)
    states = solve(_StoresInFlight(stores), kernel.body, frozenset[_PendingStore]())
    for stmt, state in zip(statements, states, strict=True):
        if state and isinstance(stmt, Instruction) and ROWS[stmt.name].completes is BULK_STORES and unfinished(stmt):
            _check(stmt, state)


@dataclass(frozen=True, slots=True)
class _PendingStore:
    """A store that may be pending. is_read: True after a wait for the reads of its source."""

    scope: str
    span: Span | None
    is_read: bool = False


class _StoresInFlight(Analysis[frozenset[_PendingStore]]):
    """Finds the stores that may be pending. stores: the tile operations that start them."""

    def __init__(self, stores: frozenset[TileOp]) -> None:
        self._stores = stores

    def join(self, first: frozenset[_PendingStore], second: frozenset[_PendingStore]) -> frozenset[_PendingStore]:
        return first | second

    def step(self, stmt: Simple | Jump, state: frozenset[_PendingStore]) -> frozenset[_PendingStore]:
        if isinstance(stmt, TileOp) and stmt in self._stores:
            return state | {_PendingStore(stmt.scope, stmt.span)}
        if not isinstance(stmt, Instruction) or ROWS[stmt.name].completes is not BULK_STORES or unfinished(stmt):
            return state
        return frozenset() if stmt.name == BULK_WAIT.name else frozenset(replace(s, is_read=True) for s in state)


def _check(stmt: Instruction, state: frozenset[_PendingStore]) -> None:
    counted = [s for s in state if not (stmt.name == BULK_WAIT_READ.name and s.is_read)]
    # keep the first store of each scope
    counted.sort(key=lambda s: (s.scope, s.span.line if s.span is not None else 0))
    places = {s.scope: s.span for s in reversed(counted)}
    if len(places) < 2:
        return
    call, count = ROWS[stmt.name].spelling, unfinished(stmt)
    listed = " and ".join(f"tj.{scope}" + (f" at {places[scope]}" if places[scope] else "") for scope in sorted(places))
    raise KernelTypeError(
        f"tj.{call}({count}) counts the stores of one thread, but those of {listed} may be pending, and their "
        "leaders may be different threads",
        span=stmt.span,
        hint=f"start them on one scope, or wait for all of them with tj.{call}(0)",
    )
