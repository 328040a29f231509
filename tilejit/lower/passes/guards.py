"""Barriers whose phase can't wrap (see `arrivals`) before every waiter arrives at another barrier, the "guard".

    consumer   full[s].wait     ...   arrive empty[s]
    producer   empty[s].wait    ...   arrive full[s]

In a ring, `empty` guards `full`: each arrival at `full` follows a wait for the same stage of `empty`, and a phase of
`empty` needs an arrival of every instance that waits for `full`. The analysis doesn't depend on rings; it looks only at
waits and arrivals.

A *stage* is the index of a barrier in its buffer. A stage such as `int32(uint32(i) % 4)` changes with `i`. So a
comparison of stages is given the *current* variables: those whose definitions still hold, because nothing that they
depend on has been redefined since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...dataclass import dataclass, field
from ...ir import walk
from ...ir.analyses.flow import Analysis, solve
from ...ir.analyses.thread_values import instances
from ...ir.arithmetic import build
from ...ir.names import names_in
from ...ir.nodes import (
    Alloc,
    Arrive,
    Assign,
    Atomic,
    Cast,
    Const,
    Declare,
    Expr,
    For,
    If,
    Instruction,
    Jump,
    Kernel,
    Let,
    Loop,
    Op,
    Simple,
    Stmt,
    Var,
    Vector,
    WaitPhase,
)
from ...scopes import SCOPES

#: classes of statements, including loops, that define or assign a variable
CHANGING: frozenset[type[Assign | Let | Declare | For | Atomic | Instruction | WaitPhase]] = frozenset({
    Assign, *walk.VARIABLES,
})


@dataclass(frozen=True, slots=True)
class Stages:
    """The variables that stages in a kernel depend on.

    values: name of a variable -> its definition, if that contains no load. changes: id of a statement or loop that
    redefines a variable -> the variables whose definitions no longer hold afterwards.
    """

    values: Mapping[str, Expr]
    changes: Mapping[int, frozenset[str]]

    @staticmethod
    def of(kernel: Kernel) -> Stages:
        """Return the variables that the stages of `kernel`, which is at lane level, depend on."""
        lets = {stmt.var.name: stmt.value for stmt in walk.each(kernel.body, Let)}
        values: dict[str, Expr] = {}
        waiting = [stage_of(stmt) for stmt in walk.each(kernel.body, Arrive)]
        waiting += [stage_of(stmt) for stmt in walk.each(kernel.body, WaitPhase)]
        effects: dict[str, set[str]] = {}
        while waiting:
            for name in names_in(waiting.pop()) - effects.keys():
                effects[name] = {name}
                # another evaluation of a load may return another value
                if name in lets and not walk.loads(lets[name]):
                    values[name] = lets[name]
                    waiting.append(lets[name])
        causes: dict[str, frozenset[str]] = {}
        # in program order: a definition precedes those that depend on it
        for name in (name for name in lets if name in values):
            direct = names_in(values[name])
            causes[name] = direct.union(*(causes.get(cause, frozenset()) for cause in direct))
            for cause in causes[name]:
                effects[cause].add(name)
        changes: dict[int, frozenset[str]] = {}
        for kind in CHANGING:
            for stmt in walk.each(kernel.body, kind):
                if stmt.var is not None and stmt.var.name in effects:
                    changes[id(stmt)] = frozenset(effects[stmt.var.name])
        return Stages(values, changes)

    def changed(self, stmt: Stmt) -> frozenset[str]:
        """Return the variables whose definitions a statement, or the next iteration of a loop, invalidates."""
        return self.changes.get(id(stmt), frozenset())

    def current(self, stmt: Stmt, before: frozenset[str]) -> frozenset[str]:
        """Return the variables that are current after a statement."""
        after = before - self.changed(stmt)
        return after | {stmt.var.name} if isinstance(stmt, Let) and stmt.var.name in self.values else after

    def same(self, first: Expr, second: Expr, current: frozenset[str]) -> bool:
        return self._defined(first, current) == self._defined(second, current)

    def differ(self, first: Expr, second: Expr, current: frozenset[str]) -> bool:
        """True if two stages provably differ, as `i % 4` and `(i + 1) % 4` do."""
        x, y = self._defined(first, current), self._defined(second, current)
        match x, y:
            case Const(a), Const(b):
                return a != b
            case Op("mod", (a, Const(stages))), Op("mod", (b, Const(others))) if stages == others:
                apart = build.difference(a, b)
                return apart is not None and apart % stages != 0
        return False

    def _defined(self, stage: Expr, current: frozenset[str]) -> Expr:
        """Return a stage, or its value if it is a current variable, without outer casts: stages fit in any type."""
        while True:
            match stage:
                case Var(name) if name in current:
                    stage = self.values[name]
                case Cast(x=x):
                    stage = x
                case _:
                    return stage


def stage_of(stmt: Arrive | WaitPhase) -> Expr:
    """Return the index, in its buffer, of the barrier of an arrival or a wait."""
    assert isinstance(stmt.place, Vector), "lowering leaves no Element"
    return stmt.place.offset


def guards(kernel: Kernel, stages: Stages, coming: Mapping[int, int]) -> dict[str, str]:
    """Map each guarded barrier buffer of a kernel at lane level to one of its guards, both by name.

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
    at: the arrivals at the barrier. arrivals: those expected per phase. waiting: the waiters, with thread i as bit i.
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
    """The waits that a thread has passed. current: the variables in stages whose definitions still hold."""

    waits: frozenset[_PassedWait] = frozenset()
    current: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _WaitAnalysis(Analysis[_WaitState]):
    """The waits that a thread has passed on every path. barriers: the names of all barrier buffers."""

    kinds = frozenset({Arrive, *CHANGING})

    stages: Stages
    barriers: tuple[str, ...]

    def join(self, first: _WaitState, second: _WaitState) -> _WaitState:
        return _WaitState(first.waits & second.waits, first.current & second.current)

    def concerns(self, stmt: Simple | If | For) -> bool:
        return isinstance(stmt, (WaitPhase, Arrive)) or id(stmt) in self.stages.changes

    def step(self, stmt: Simple | Jump, state: _WaitState) -> _WaitState:
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
        return self.defined(loop, before)

    def repeat(self, loop: For | Loop, head: _WaitState, ends: _WaitState) -> _WaitState:
        return self.defined(loop, ends)
