"""Barriers whose phase can't wrap (see `synchronization`) before every waiter arrives at another barrier, the "guard".

    consumer   full[s].wait     ...   arrive empty[s]
    producer   empty[s].wait    ...   arrive full[s]

In a ring, `empty` guards `full`: each arrival at `full` follows a wait for the same stage of `empty`, and a phase of
`empty` needs an arrival of every instance that waits for `full`. The analysis doesn't depend on rings; it looks only at
waits and arrivals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...dataclass import dataclass, field
from ...ir import walk
from ...ir.analyses.flow import Analysis, solve
from ...ir.analyses.thread_values import instances
from ...ir.names import names_in
from ...ir.nodes import Alloc, Arrive, Expr, For, If, Jump, Kernel, Loop, Simple, Stmt, WaitPhase
from ...scopes import SCOPES
from .stages import CHANGING, Stages, stage_of


def guards(kernel: Kernel, stages: Stages, coming: Mapping[int, int]) -> dict[str, str]:
    """Return guarded barrier -> guard, by buffer name, for a kernel at lane level.

    coming: id of a statement -> the threads that may execute it, with thread i as bit i.
    """
    arrivals = {s.buffer.name: s.arrivals for s in walk.each(kernel.body, Alloc) if s.arrivals}
    arriving: dict[str, list[Arrive]] = {name: [] for name in arrivals}
    waiting = dict.fromkeys(arrivals, 0)
    for wait in walk.each(kernel.body, WaitPhase):
        waiting[wait.place.buffer.name] |= coming[id(wait)]
    waited_first: dict[str, frozenset[str]] = {}
    states = solve(_WaitAnalysis(stages, tuple(arrivals)), kernel.body, _WaitState())
    for number, stmt in walk.numbered(kernel.body, Arrive):
        name, stage, state = stmt.place.buffer.name, stage_of(stmt), states[number]
        arriving[name].append(stmt)
        if state is not None:
            others = frozenset(w.other for w in state.waits if w.barrier == name
                               and stages.same(w.stage, stage, state.current))
            waited_first[name] = waited_first.get(name, others) & others
    return {
        barrier: other
        for barrier, others in waited_first.items()
        for other in sorted(others)
        if _needs_all_waiters(kernel, arriving[other], arrivals[other], waiting[barrier], coming)
    }


def _needs_all_waiters(
    kernel: Kernel, at: Sequence[Arrive], arrivals: int, waiting: int, coming: Mapping[int, int]
) -> bool:
    """True if no phase of a barrier can complete before every waiter has arrived at it.

    That is so if all its arrivals have one scope, it expects an arrival of each instance that may arrive, and every
    waiter may arrive.
    at: the arrivals at the barrier. arrivals: number that it expects. waiting: the waiters, with thread i as bit i.
    """
    if len({stmt.scope for stmt in at}) != 1:
        return False
    arriving = 0
    for stmt in at:
        arriving |= coming[id(stmt)]
    size = SCOPES[at[0].scope].threads(kernel.threads)
    return len(instances(arriving, size, kernel.threads)) == arrivals and not waiting & ~arriving


@dataclass(frozen=True, slots=True)
class _PassedWait:
    """A wait for a stage of `other` since the thread's last arrival at `barrier`; both are buffer names."""

    barrier: str
    other: str
    # not hashed: a hash would walk the expression, and few entries differ only in it
    stage: Expr = field(hash=False)


@dataclass(frozen=True, slots=True)
class _WaitState:
    """The waits passed, and the variables of stages whose definitions still hold (`current`, see `stages`)."""

    waits: frozenset[_PassedWait] = frozenset()
    current: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _WaitAnalysis(Analysis[_WaitState]):
    """The waits that a thread has passed on every path. barriers: the names of all barriers."""

    kinds = frozenset({Arrive, *CHANGING})

    stages: Stages
    barriers: tuple[str, ...]

    def join(self, first: _WaitState, second: _WaitState) -> _WaitState:
        return _WaitState(first.waits & second.waits, first.current & second.current)

    def concerns(self, stmt: Simple | If | For) -> bool:
        return isinstance(stmt, (WaitPhase, Arrive)) or id(stmt) in self.stages.changes

    def step(self, stmt: Simple | Jump, state: _WaitState) -> _WaitState:
        if id(stmt) in self.stages.changes:
            state = self.defined(stmt, state)
        match stmt:
            case WaitPhase(place, var=None):
                waits = [_PassedWait(name, place.buffer.name, stage_of(stmt)) for name in self.barriers]
                return _WaitState(state.waits.union(waits), state.current)
            case Arrive(place):
                name = place.buffer.name
                return _WaitState(state.waits.difference([w for w in state.waits if w.barrier == name]), state.current)
        return state

    def defined(self, stmt: Stmt, state: _WaitState) -> _WaitState:
        changed = self.stages.changed(stmt)
        if not changed:
            return state
        waits = state.waits.difference([w for w in state.waits if names_in(w.stage) & changed])
        return _WaitState(waits, self.stages.current(stmt, state.current))

    def enter(self, loop: For | Loop, before: _WaitState) -> _WaitState:
        return before if isinstance(loop, Loop) else self.defined(loop, before)

    def repeat(self, loop: For | Loop, head: _WaitState, ends: _WaitState) -> _WaitState:
        return ends if isinstance(loop, Loop) else self.defined(loop, ends)
