"""Barriers that come round only when whoever waits for them has arrived at another one: a ring's `full` and `empty`.

    consumer   full[s].wait     ...   arrive empty[s]
    producer   empty[s].wait    ...   arrive full[s]

Each arrival at `full` is behind a wait for the same stage of `empty`, and a phase of `empty` takes an arrival of every
instance that waits for `full`. Then `empty` guards `full`. The text shows it, whatever made the two.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..dataclass import dataclass, field, replace
from ..ir import walk
from ..ir.analyses.flow import Analysis, solve
from ..ir.nodes import Alloc, Arrive, Expr, For, If, Jump, Kernel, Loop, Simple, Stmt, WaitPhase
from ..scopes import SCOPES
from .stages import Stages, names_in, stage_of

__all__ = ["guards"]


def guards(kernel: Kernel, stages: Stages, coming: Mapping[int, int]) -> dict[str, str]:
    """Barrier -> the one that guards it, both by their buffers, in a kernel at lane level.

    coming: the threads that may come to a statement, by its identity, thread i as bit i.
    """
    statements = walk.statements(kernel.body)
    arrivals = {s.buffer.name: s.arrivals for s in statements if isinstance(s, Alloc) and s.arrivals}
    behind: dict[str, frozenset[str]] = {}
    states = solve(_Waited(stages, tuple(arrivals)), kernel.body, _Behind())
    for stmt, state in zip(statements, states, strict=True):
        if isinstance(stmt, Arrive) and state is not None:
            name, stage = stmt.place.buffer.name, stage_of(stmt)
            others = frozenset(w.other for w in state.waits if w.barrier == name
                               and stages.same(w.stage, stage, state.current))
            behind[name] = behind.get(name, others) & others
    return {
        barrier: other
        for barrier, others in behind.items()
        for other in sorted(others)
        if _takes_all(kernel, other, arrivals[other], _waiting(statements, barrier, coming), coming)
    }


def _waiting(statements: tuple[Stmt, ...], barrier: str, coming: Mapping[int, int]) -> int:
    """The threads that may wait for a barrier."""
    threads = 0
    for stmt in statements:
        if isinstance(stmt, WaitPhase) and stmt.place.buffer.name == barrier:
            threads |= coming[id(stmt)]
    return threads


def _takes_all(kernel: Kernel, barrier: str, arrivals: int, waiting: int, coming: Mapping[int, int]) -> bool:
    """Whether a phase of a barrier takes an arrival of each of those who wait: as many as there are who may arrive."""
    at = [s for s in walk.statements(kernel.body) if isinstance(s, Arrive) and s.place.buffer.name == barrier]
    if len({stmt.scope for stmt in at}) != 1:
        return False
    arriving = 0
    for stmt in at:
        arriving |= coming[id(stmt)]
    size = SCOPES[at[0].scope].threads(kernel.threads)
    instances = {thread // size for thread in range(kernel.threads) if arriving >> thread & 1}
    return len(instances) == arrivals and not waiting & ~arriving


@dataclass(frozen=True, slots=True)
class _Waiting:
    """That a thread has waited for a stage of `other` since it last arrived at `barrier`."""

    barrier: str
    other: str
    # a hash walks over an expression, and few differ in nothing else
    stage: Expr = field(hash=False)


@dataclass(frozen=True, slots=True)
class _Behind:
    """current: the variables that are, of those that stages follow from."""

    waits: frozenset[_Waiting] = frozenset()
    current: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Waited(Analysis[_Behind]):
    """What each thread has certainly waited for. barriers: all, by their buffers."""

    stages: Stages
    barriers: tuple[str, ...]

    def join(self, first: _Behind, second: _Behind) -> _Behind:
        return _Behind(first.waits & second.waits, first.current & second.current)

    def concerns(self, stmt: Simple | If | For) -> bool:
        return isinstance(stmt, (WaitPhase, Arrive)) or id(stmt) in self.stages.changes

    def step(self, stmt: Simple | Jump, state: _Behind) -> _Behind:
        state = self.defined(stmt, state)
        match stmt:
            case WaitPhase(place, var=None):
                waits = (_Waiting(name, place.buffer.name, stage_of(stmt)) for name in self.barriers)
                return replace(state, waits=state.waits.union(waits))
            case Arrive(place):
                name = place.buffer.name
                return replace(state, waits=frozenset(w for w in state.waits if w.barrier != name))
        return state

    def defined(self, stmt: Stmt, state: _Behind) -> _Behind:
        changed = self.stages.changed(stmt)
        if not changed:
            return state
        waits = frozenset(w for w in state.waits if not names_in(w.stage) & changed)
        return _Behind(waits, self.stages.current(stmt, state.current))

    def enter(self, loop: For | Loop, before: _Behind) -> _Behind:
        return before if isinstance(loop, Loop) else self.defined(loop, before)

    def repeat(self, loop: For | Loop, head: _Behind, ends: _Behind) -> _Behind:
        return ends if isinstance(loop, Loop) else self.defined(loop, ends)
