"""Lowering of arrivals at barriers: the instance of the scope synchronizes if it must, and its leader arrives.

A waiter relies on the work of every thread in the arriving instance, so the instance synchronizes before its leader
arrives. That is unnecessary if, since their last synchronization, the threads have accessed no memory except by waits
for phases, arrivals, warpgroup products (which belong to no single thread), and asynchronous copies and expects by the
leader's warp; and if the leader can't get ahead of a thread that still waits. Such a thread could miss the end of its
phase, find a later phase of the same parity, and wait forever. The leader can't get ahead if

- it knows that all threads have passed the wait: after `elect.sync`, which finds a warp's leader, all lanes have; and a
  product completes only when all warps of the warpgroup have issued it, each after its waits;
- the awaited phase can't wrap: each arrival at the barrier follows a wait for another barrier, its *guard*, whose
  phases need an arrival of every waiting instance, and the leader isn't about to arrive at the same stage of the guard.
  A ring is an example:

      consumer   full[s].wait     ...   arrive empty[s]
      producer   empty[s].wait    ...   arrive full[s]       full[s] wraps only when all consumers have arrived
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from operator import is_

from ...dataclass import dataclass, field, replace
from ...ir import walk
from ...ir.analyses.flow import Analysis, solve
from ...ir.analyses.thread_values import ThreadValues, comers
from ...ir.names import defined_names, names_in
from ...ir.nodes import (
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
    Vector,
    WaitPhase,
)
from ...isa import ROWS, Row, mbarrier
from ...isa.barriers import BARRIERS, SYNCHRONIZING
from ...isa.warp import ELECT
from ...isa.wgmma import PRODUCTS
from ...scopes import SCOPES, THREAD, WARP, WARPGROUP, Scope
from ...target import WARP as WARP_THREADS
from ..builder import Builder
from .clusters import peer_ranks, release_axes
from .guards import CHANGING, Stages, guards, stage_of
from .pending import unfinished


def expand(kernel: Kernel) -> Kernel:
    """Return `kernel`, which is at lane level, with each `Arrive` replaced by instructions."""
    if Arrive not in walk.inventory(kernel.body).kinds:
        return kernel
    b = Builder(defined_names(kernel.body))
    synchronizing = _synchronizing(kernel)
    axes = release_axes(kernel.body)
    expanded: dict[int, tuple[Stmt, ...]] = {}
    for number, stmt in walk.numbered(kernel.body, Arrive):
        axis = axes.get(stmt.place.buffer.name)
        peers = () if kernel.cluster is None or axis is None else tuple(peer_ranks(kernel.cluster, axis))
        _arrive(b, stmt, kernel.threads, peers, synchronizes=id(stmt) in synchronizing)
        expanded[number] = b.take()
    return replace(kernel, body=walk.edited(kernel.body, expanded))


def _arrive(b: Builder, stmt: Arrive, threads: int, peers: Sequence[Expr], *, synchronizes: bool) -> None:
    """Emit an arrival at a barrier and at that of each CTA with a rank in `peers`, after a `Sync` if `synchronizes`."""
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


def _synchronizing(kernel: Kernel) -> frozenset[int]:
    """Return the ids of the arrivals in a kernel at lane level before which the instance synchronizes."""
    scopes = _ALL.intersection([SCOPES[stmt.scope] for stmt in walk.each(kernel.body, Arrive)])
    if not scopes:
        return frozenset()
    comers_to = comers(kernel.body, ThreadValues.of_conditions(kernel))
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

#: scope -> the scopes up to its level that have barriers
_WITHIN = {scope: frozenset(s for s in _ALL if s.level <= scope.level) for scope in SCOPES.values()}

#: name of a barrier instruction -> its scope
_BARRIER_SCOPES = {row.name: row.scope for row in SYNCHRONIZING}

#: limit of the counts of products since a wait; waits for products leave fewer unfinished
_MOST_PRODUCTS = 8


@dataclass(frozen=True, slots=True)
class _Wait:
    """A wait that threads of an instance of `scope` may not have passed when its leader reaches the current statement.

    barrier: name of the barrier's buffer. stage: the barrier's index in it, or None once that is unknown.
    products: the least number of products that the warpgroup has issued since the wait, up to `_MOST_PRODUCTS`.
    """

    scope: Scope
    barrier: str
    # not hashed: a hash would walk the expression, and few waits at a barrier differ in it
    stage: Expr | None = field(hash=False)
    products: int = 0


@dataclass(frozen=True, slots=True)
class _SinceBarrier:
    """The effects and waits of instances since they last synchronized.

    pending_effects: scopes whose instances have since had effects that other threads may rely on. current: the
    variables in stages whose definitions still hold (see `guards`).
    """

    pending_effects: frozenset[Scope] = frozenset()
    waits: frozenset[_Wait] = frozenset()
    current: frozenset[str] = frozenset()


class _SynchronizationAnalysis(Analysis[_SinceBarrier]):
    """Analysis of the effects and waits of instances since they last synchronized.

    guards: name of a barrier buffer -> name of its guard. coming: id of a statement -> the threads that may execute it,
    with thread i as bit i. scopes: those of arrivals; effects in other scopes don't matter.
    """

    kinds = frozenset({Sync, WaitPhase, Arrive, Instruction, Store, Move, *CHANGING})

    def __init__(
        self, stages: Stages, guards: Mapping[str, str], coming: Mapping[int, int], scopes: Set[Scope], threads: int
    ) -> None:
        self.stages, self.guards, self.coming, self.scopes = stages, guards, coming, scopes
        #: True if `elect.sync` finds the leaders
        self.has_leaders = threads % WARP_THREADS == 0
        #: scope -> the threads in the warps of its leaders, with thread i as bit i
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
        """True if a thread that is still at `wait` may miss the end of the awaited phase once `stmt` has arrived."""
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
        return bool(walk.in_memory(stmt))

    def step(self, stmt: Simple | Jump, state: _SinceBarrier) -> _SinceBarrier:
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
        # other threads may rely on a memory access
        return _with_effects(state, self.scopes) if walk.in_memory(stmt) else state

    def instructed(self, stmt: Instruction, state: _SinceBarrier) -> _SinceBarrier:
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
        """Return the scopes in which other threads may rely on the effects of an instruction."""
        row = ROWS[stmt.name]
        if row.scope is THREAD and (row.asynchronous or row is mbarrier.EXPECT):
            return [s for s in self.scopes if self.may_run_outside_leader_warp(stmt, s)]
        return () if row.elides_sync or not row.memory else self.scopes

    def may_run_outside_leader_warp(self, stmt: Stmt, scope: Scope) -> bool:
        """True if threads outside the warps of the scope's leaders may execute `stmt`, or leaders aren't elected."""
        return not self.has_leaders or bool(self.coming[id(stmt)] & ~self.leading[scope])

    def waits(self, stmt: WaitPhase) -> Iterator[_Wait]:
        """Yield a wait for each scope whose leader may get ahead of threads at `stmt`."""
        for scope in self.scopes:
            if scope is WARP or self.may_run_outside_leader_warp(stmt, scope):
                yield _Wait(scope, stmt.place.buffer.name, stage_of(stmt))

    def defined(self, stmt: Stmt, state: _SinceBarrier) -> _SinceBarrier:
        changed = self.stages.changed(stmt)
        if not changed:
            return state
        known = [_known(wait, changed) for wait in state.waits]
        waits = state.waits if all(map(is_, known, state.waits)) else _fewest_products(known)
        return _SinceBarrier(state.pending_effects, waits, self.stages.current(stmt, state.current))

    def enter(self, loop: For | Loop, before: _SinceBarrier) -> _SinceBarrier:
        return self.defined(loop, before)

    def repeat(self, loop: For | Loop, head: _SinceBarrier, ends: _SinceBarrier) -> _SinceBarrier:
        return self.defined(loop, ends)


def _proves_waits_passed(row: Row) -> bool:
    """True if executing or completing an instruction proves that threads have passed their waits."""
    return row is ELECT or row.starts is PRODUCTS or row.completes is PRODUCTS


def _leading(scope: Scope, threads: int) -> int:
    return sum([(1 << WARP_THREADS) - 1 << first for first in range(0, threads, scope.threads(threads))])


def _fewest_products(waits: Iterable[_Wait]) -> frozenset[_Wait]:
    """Return only the latest of waits with equal scope, barrier and stage: passing it implies passing the others."""
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
    return replace(wait, stage=None) if wait.stage is not None and names_in(wait.stage) & changed else wait


def _with_a_product(state: _SinceBarrier) -> _SinceBarrier:
    if not [wait for wait in state.waits if wait.products < _MOST_PRODUCTS]:
        return state
    later = [replace(wait, products=min(wait.products + 1, _MOST_PRODUCTS)) for wait in state.waits]
    return _SinceBarrier(state.pending_effects, frozenset(later), state.current)


def _with_effects(state: _SinceBarrier, scopes: Collection[Scope]) -> _SinceBarrier:
    if state.pending_effects.issuperset(scopes):
        return state
    return _SinceBarrier(state.pending_effects.union(scopes), state.waits, state.current)


def _synchronized(scope: Scope, state: _SinceBarrier) -> _SinceBarrier:
    within = _WITHIN[scope]
    cleared = [wait for wait in state.waits if wait.scope in within]
    return _SinceBarrier(state.pending_effects - within, state.waits.difference(cleared), state.current)


def _passed(state: _SinceBarrier, scope: Scope, products: int = -1) -> _SinceBarrier:
    """Return the state once all threads have passed the waits of `scope` with more than `products` later products."""
    passed = [wait for wait in state.waits if wait.scope is scope and wait.products > products]
    return _SinceBarrier(state.pending_effects, state.waits.difference(passed), state.current) if passed else state
