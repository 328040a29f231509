"""Which arrivals at barriers must have their instances meet first, and which needn't.

Whoever waits for a phase goes by what all threads of the instances that arrived did: so these meet before their leader
arrives. They needn't where, since they met last, they have done nothing but wait for phases, issue products, which are
no thread's own, or copies, by the leader's warp; and where the leader can't come ahead of a thread that still stands at
a wait, as far as that this one finds a later phase of the same parity, and waits for ever. It can't where

- the leader knows that all have passed: behind `elect.sync`, by which a warp's leader is found, all lanes have; and a
  product is complete only when all warps of a warpgroup have issued it, each behind its waits;
- the barrier waited for can't come round: each of its arrivals is behind a wait for another barrier, its *guard*, whose
  phases take an arrival of every instance that waits, and this isn't that arrival. So it is in a ring:

      consumer   full[s].wait     ...   arrive empty[s]
      producer   empty[s].wait    ...   arrive full[s]       full[s] comes round only when all consumers arrived
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from operator import is_

from ..dataclass import dataclass, field, replace
from ..ir import walk
from ..ir.analyses.flow import Analysis, solve
from ..ir.analyses.thread_values import ThreadValues, comers
from ..ir.names import names_in
from ..ir.nodes import (
    Arrive,
    Expr,
    For,
    If,
    Instruction,
    Jump,
    Kernel,
    Loop,
    Move,
    Simple,
    Stmt,
    Store,
    Sync,
    WaitPhase,
)
from ..isa import ROWS, Row
from ..isa.barriers import BARRIERS, MEETINGS
from ..isa.mbarrier import EXPECT
from ..isa.warp import ELECT
from ..isa.wgmma import PRODUCTS
from ..scopes import SCOPES, THREAD, WARP, WARPGROUP, Scope
from ..target import WARP as WARP_THREADS
from .guards import guards
from .pending import unfinished
from .stages import CHANGING, Stages, stage_of

__all__ = ["synchronizing_arrivals"]


def synchronizing_arrivals(kernel: Kernel) -> frozenset[int]:
    """The arrivals of a kernel at lane level, by identity, before which their instances meet."""
    scopes = _ALL.intersection([SCOPES[stmt.scope] for stmt in walk.each(kernel.body, Arrive)])
    if not scopes:
        return frozenset()
    values = ThreadValues(kernel.threads)
    values.define_conditions(kernel.body)
    comers_to = comers(kernel.body, values)
    coming: dict[int, int] = {}
    for kind in (Arrive, WaitPhase, Instruction):
        for number, stmt in walk.numbered(kernel.body, kind):
            coming[id(stmt)] = coming.get(id(stmt), 0) | comers_to[number]
    stages = Stages.of(kernel)
    analysis = _SynchronizationAnalysis(stages, guards(kernel, stages, coming), coming, scopes, kernel.threads)
    states = solve(analysis, kernel.body, _SinceBarrier())
    found: set[int] = set()
    for number, arrive in walk.numbered(kernel.body, Arrive):
        state = states[number]
        if state is not None and analysis.must_synchronize(arrive, state):
            found.add(id(arrive))
    return frozenset(found)


_ALL = frozenset(BARRIERS)

#: scope -> itself and the scopes within it
_WITHIN = {scope: frozenset(s for s in _ALL if s.level <= scope.level) for scope in SCOPES.values()}

#: name of an instruction at which threads meet -> their scope
_BARRIER_SCOPES = {row.name: row.scope for row in MEETINGS}

#: products since a wait, from where on it makes no difference how many: a wait for products leaves fewer unfinished
_MOST_PRODUCTS = 8


@dataclass(frozen=True, slots=True)
class _Wait:
    """A wait that some threads of an instance of `scope` may still stand at while its leader is here.

    barrier: the buffer. stage: which of its barriers, as long as that can be said.
    products: started since by the warpgroup.
    """

    scope: Scope
    barrier: str
    # a hash walks over an expression, and few waits at a barrier differ in it
    stage: Expr | None = field(hash=False)
    products: int = 0


@dataclass(frozen=True, slots=True)
class _SinceBarrier:
    """What instances have done since they met last.

    acted: the scopes whose threads have done what others must know of. current: the variables that are, of those that
    stages follow from.
    """

    pending_effects: frozenset[Scope] = frozenset()
    waits: frozenset[_Wait] = frozenset()
    current: frozenset[str] = frozenset()


class _SynchronizationAnalysis(Analysis[_SinceBarrier]):
    """The analysis for a CTA of so many `threads`.

    guards: a barrier's, both by their buffers. coming: the threads that may come to a statement, by its identity.
    scopes: of which instances arrive. What those of others do makes no difference.
    has_leaders: leaders are found by `elect.sync`, behind which all lanes of their warp have passed their waits.
    leading: the threads of the warps of a scope's leaders, thread i as bit i.
    """

    kinds = frozenset({Sync, WaitPhase, Arrive, Instruction, Store, Move, *CHANGING})

    def __init__(
        self, stages: Stages, guards: Mapping[str, str], coming: Mapping[int, int], scopes: Set[Scope], threads: int
    ) -> None:
        self.stages, self.guards, self.coming, self.scopes = stages, guards, coming, scopes
        self.has_leaders = threads % WARP_THREADS == 0
        self.leading = {scope: _leading(scope, threads) for scope in scopes}

    def must_synchronize(self, stmt: Arrive, since: _SinceBarrier) -> bool:
        scope = SCOPES[stmt.scope]
        if scope not in BARRIERS:
            return False
        if scope in since.pending_effects:
            return True
        if scope is WARP and self.has_leaders:
            return False
        return any(wait.scope is scope and self.may_miss(wait, stmt, since.current) for wait in since.waits)

    def may_miss(self, wait: _Wait, stmt: Arrive, current: frozenset[str]) -> bool:
        """Whether a thread at a wait may miss the end of its phase once an arrival is made."""
        guard = self.guards.get(wait.barrier)
        if guard is None:
            return True
        if guard != stmt.place.buffer.name:
            return False
        return wait.stage is None or not self.stages.differ(wait.stage, stage_of(stmt), current)

    def join(self, first: _SinceBarrier, second: _SinceBarrier) -> _SinceBarrier:
        if first is second:
            return first
        waits = _fewest_products((*first.waits, *second.waits))
        return _SinceBarrier(first.pending_effects | second.pending_effects, waits, first.current & second.current)

    def concerns(self, stmt: Simple | If | For) -> bool:
        if isinstance(stmt, (Sync, WaitPhase, Arrive)) or id(stmt) in self.stages.changes:
            return True
        if isinstance(stmt, Instruction):
            row = ROWS[stmt.name]
            return stmt.name in _BARRIER_SCOPES or _proves_waits_passed(row) or bool(self.effect_scopes(stmt))
        return isinstance(stmt, walk.ACCESSING) and bool(walk.in_memory(stmt))

    def step(self, stmt: Simple | Jump, state: _SinceBarrier) -> _SinceBarrier:
        if id(stmt) in self.stages.changes:
            state = self.defined(stmt, state)
        match stmt:
            case Sync(scope):
                return _synchronized(SCOPES[scope], state)
            case WaitPhase():
                return replace(state, waits=_fewest_products((*state.waits, *self.waits(stmt))))
            case Arrive(scope=name):
                arriving = SCOPES[name]
                if arriving not in BARRIERS:
                    return state
                cleared = _synchronized(arriving, state) if self.must_synchronize(stmt, state) else state
                return _passed(cleared, WARP) if self.has_leaders else cleared
            case Instruction(name):
                return self.instructed(stmt, state)
        # other threads may have to do with what lies in memory
        return _with_effects(state, self.scopes) if walk.in_memory(stmt) else state

    def instructed(self, stmt: Instruction, state: _SinceBarrier) -> _SinceBarrier:
        """The state after an instruction."""
        if stmt.name in _BARRIER_SCOPES:
            return _synchronized(_BARRIER_SCOPES[stmt.name], state)
        row = ROWS[stmt.name]
        if row is ELECT:
            return _passed(state, WARP)
        if row.starts is PRODUCTS:
            return _with_a_product(state)
        if row.completes is PRODUCTS:
            return _passed(state, WARPGROUP, unfinished(stmt))
        return _with_effects(state, self.effect_scopes(stmt))

    def effect_scopes(self, stmt: Instruction) -> Collection[Scope]:
        """The scopes whose threads do by an instruction what others must know of."""
        row = ROWS[stmt.name]
        if row.scope is THREAD and (row.asynchronous or row is EXPECT):
            return [s for s in self.scopes if self.may_run_outside_leader_warp(stmt, s)]
        return () if row.elides_sync or not row.memory else self.scopes

    def may_run_outside_leader_warp(self, stmt: Stmt, scope: Scope) -> bool:
        """Whether threads may come to a statement whom `elect.sync` doesn't keep together with a scope's leader."""
        return not self.has_leaders or bool(self.coming[id(stmt)] & ~self.leading[scope])

    def waits(self, stmt: WaitPhase) -> Iterator[_Wait]:
        """The waits at which threads of other warps than the leader's may stand, one for each scope that has such."""
        for scope in self.scopes:
            if scope is WARP or self.may_run_outside_leader_warp(stmt, scope):
                yield _Wait(scope, stmt.place.buffer.name, stage_of(stmt))

    def defined(self, stmt: Stmt, state: _SinceBarrier) -> _SinceBarrier:
        """The state with what is still known of stages, where a statement defines a variable."""
        changed = self.stages.changed(stmt)
        if not changed:
            return state
        known = [_known(wait, changed) for wait in state.waits]
        waits = state.waits if all(map(is_, known, state.waits)) else _fewest_products(known)
        return _SinceBarrier(state.pending_effects, waits, self.stages.current(stmt, state.current))

    def enter(self, loop: For | Loop, before: _SinceBarrier) -> _SinceBarrier:
        return before if isinstance(loop, Loop) else self.defined(loop, before)

    def repeat(self, loop: For | Loop, head: _SinceBarrier, ends: _SinceBarrier) -> _SinceBarrier:
        return ends if isinstance(loop, Loop) else self.defined(loop, ends)


def _proves_waits_passed(row: Row) -> bool:
    """Whether threads that have come past an instruction have passed waits, or will have once it is complete."""
    return row is ELECT or row.starts is PRODUCTS or row.completes is PRODUCTS


def _leading(scope: Scope, threads: int) -> int:
    """The threads of the warps of a scope's leaders in a CTA, thread i as bit i."""
    return sum([(1 << WARP_THREADS) - 1 << first for first in range(0, threads, scope.threads(threads))])


def _fewest_products(waits: Iterable[_Wait]) -> frozenset[_Wait]:
    """The waits, of those at one barrier the latest: once it is passed, so are the others."""
    latest: dict[tuple[str, str], list[_Wait]] = {}
    for wait in waits:
        others = latest.setdefault((wait.scope.name, wait.barrier), [])
        for k, other in enumerate(others):
            if wait.stage is other.stage or wait.stage == other.stage:
                others[k] = wait if wait.products < other.products else other
                break
        else:
            others.append(wait)
    return frozenset([wait for others in latest.values() for wait in others])


def _known(wait: _Wait, changed: frozenset[str]) -> _Wait:
    """The wait without its stage where that follows from variables that have changed."""
    return replace(wait, stage=None) if wait.stage is not None and names_in(wait.stage) & changed else wait


def _with_a_product(state: _SinceBarrier) -> _SinceBarrier:
    if not [wait for wait in state.waits if wait.products < _MOST_PRODUCTS]:
        return state
    later = [replace(wait, products=min(wait.products + 1, _MOST_PRODUCTS)) for wait in state.waits]
    return _SinceBarrier(state.pending_effects, frozenset(later), state.current)


def _with_effects(state: _SinceBarrier, scopes: Collection[Scope]) -> _SinceBarrier:
    """The state in which the threads of some scopes have done what others must know of."""
    if state.pending_effects.issuperset(scopes):
        return state
    return _SinceBarrier(state.pending_effects.union(scopes), state.waits, state.current)


def _synchronized(scope: Scope, state: _SinceBarrier) -> _SinceBarrier:
    within = _WITHIN[scope]
    cleared = [wait for wait in state.waits if wait.scope in within]
    return _SinceBarrier(state.pending_effects - within, state.waits.difference(cleared), state.current)


def _passed(state: _SinceBarrier, scope: Scope, products: int = -1) -> _SinceBarrier:
    """The state in which all threads of an instance have passed its waits, but those with so many products since."""
    passed = [wait for wait in state.waits if wait.scope is scope and wait.products > products]
    return _SinceBarrier(state.pending_effects, state.waits.difference(passed), state.current) if passed else state
