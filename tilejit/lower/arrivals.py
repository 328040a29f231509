"""Arrivals at barriers become instructions: the instance synchronises, and its leader arrives.

Whoever waits for the phase goes by what all threads of the instance did: so these meet first. They needn't where, since
they met last, they have done nothing but wait for phases and issue copies or products, which is no thread's own; and
where the leader can't come ahead of a thread that still stands at a wait: it could find a later phase of the same
parity, and wait for ever. Behind `elect.sync`, by which a warp's leader is found, all lanes have passed.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..dataclass import dataclass, replace
from ..ir import walk
from ..ir.analyses.flow import Analysis, solve
from ..ir.names import defined_names
from ..ir.nodes import Arrive, Instruction, Jump, Kernel, Simple, Stmt, Sync, Vector, WaitPhase
from ..isa import ROWS, mbarrier
from ..isa.barriers import BAR_SYNC_NUMBERED, BARRIERS
from ..isa.warp import ELECT
from ..scopes import SCOPES, WARP, Scope
from ..target import WARP as WARP_THREADS
from .builder import Builder
from .leaders import leads

__all__ = ["expand"]


def expand(kernel: Kernel) -> Kernel:
    """The kernel without `Arrive`."""
    statements = walk.statements(kernel.body)
    if not any(isinstance(stmt, Arrive) for stmt in statements):
        return kernel
    b = Builder(defined_names(kernel.body))
    has_leaders = kernel.threads % WARP_THREADS == 0
    states = solve(_Meetings(has_leaders), kernel.body, _Since())
    meeting = {
        id(stmt)
        for stmt, state in zip(statements, states, strict=True)
        if isinstance(stmt, Arrive) and state is not None and _must_meet(stmt, state, has_leaders)
    }

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(stmt, Arrive):
            return (stmt,)
        _arrive(b, stmt, kernel.threads, meets=id(stmt) in meeting)
        return b.take()

    return replace(kernel, body=walk.rewrite(kernel.body, change))


def _arrive(b: Builder, stmt: Arrive, threads: int, *, meets: bool) -> None:
    assert isinstance(stmt.place, Vector), "lowering leaves no Element"
    b.span = stmt.span
    if meets:
        b.append(Sync(stmt.scope, stmt.span))
    row = mbarrier.ARRIVE if stmt.bytes is None else mbarrier.ARRIVE_EXPECT
    inputs = (stmt.place,) if stmt.bytes is None else (stmt.place, stmt.bytes)
    with b.when(leads(b, stmt.scope, threads)):
        b.append(Instruction(row.name, (), inputs, stmt.span))


_ALL = frozenset(BARRIERS)


@dataclass(frozen=True, slots=True)
class _Since:
    """What instances of each scope have done since they met last.

    acted: the scopes whose threads have done what others must know of. waited: those of which a thread may still stand
    at a wait that others have passed.
    """

    acted: frozenset[Scope] = frozenset()
    waited: frozenset[Scope] = frozenset()


def _must_meet(stmt: Arrive, since: _Since, has_leaders: bool) -> bool:
    scope = SCOPES[stmt.scope]
    if scope not in BARRIERS:
        return False
    # finding the leader brings a warp's lanes together
    is_behind = scope is WARP and has_leaders
    return scope in since.acted or (scope in since.waited and not is_behind)


@dataclass(frozen=True, slots=True)
class _Meetings(Analysis[_Since]):
    """has_leaders: leaders are found by `elect.sync`."""

    has_leaders: bool

    def join(self, first: _Since, second: _Since) -> _Since:
        return _Since(first.acted | second.acted, first.waited | second.waited)

    def step(self, stmt: Simple | Jump, state: _Since) -> _Since:
        match stmt:
            case Sync(scope):
                return _met(SCOPES[scope], state)
            case WaitPhase():
                return replace(state, waited=_ALL)
            case Arrive(scope=name):
                arriving = SCOPES[name]
                if arriving not in BARRIERS:
                    return state
                met = _met(arriving, state) if _must_meet(stmt, state, self.has_leaders) else state
                return _elected(met) if self.has_leaders else met
            case Instruction(name):
                row = ROWS[name]
                if row is ELECT:
                    return _elected(state)
                if row in BARRIERS.values() or row is BAR_SYNC_NUMBERED:
                    return _met(row.scope, state)
                return state if row.is_of_all or not row.memory else replace(state, acted=_ALL)
        touched = (*walk.reads(stmt), *walk.writes(stmt))
        return replace(state, acted=_ALL) if _is_shared(touched) else state


def _met(scope: Scope, state: _Since) -> _Since:
    narrower = frozenset(s for s in _ALL if s.level <= scope.level)
    return _Since(state.acted - narrower, state.waited - narrower)


def _elected(state: _Since) -> _Since:
    return replace(state, waited=state.waited - {WARP})


def _is_shared(places: Iterable[walk.Place]) -> bool:
    """Whether other threads may have to do with some of these places."""
    return any(place.buffer.space != "local" for place in places)
