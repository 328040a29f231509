"""Forward dataflow analysis of structured statements: the state before each, as a least fixed point.

An analysis defines states, how two states join, and how a statement changes a state. This module determines the order
of visits, and handles loops and jumps.

The state at the head of a loop is kept between visits. If the analysis of an outer loop reaches the loop again, it
resumes from that state, and skips the body if the incoming state adds nothing. A statement is therefore visited once
per distinct state at the head of its innermost loop, however deeply loops are nested: the cost is linear in the size of
the code times the height of the lattice.

Most statements don't affect most analyses. `concerns` is called at most once per statement; visits skip the statements
for which it is false, including whole branches and counted loops without a statement to visit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from typing import ClassVar, Generic, TypeVar, get_args

from ...dataclass import dataclass, lean, replace
from .. import walk
from ..nodes import Break, Continue, For, If, Jump, Loop, Simple, Stmt
from ..walk import Block

State = TypeVar("State")


@lean(frozen=True, slots=True)
class LoopStates(Generic[State]):
    """The states around a loop; None for unreachable points.

        before ──▶ head ──▶ body ──▶ end of the iteration, `continue`
                    ▲        │                │
                    │        └──▶ breaks      │
                    └───────── again ◀────────┘

    head: joined over the starts of all iterations. again: over all but the first. breaks: over all `break`s.
    """

    before: State
    head: State
    again: State | None
    breaks: State | None


class Analysis(ABC, Generic[State]):
    """A lattice and its transfer functions.

    States are immutable and compare by value. All functions must be monotone. A state describes either one thread or
    all threads of a CTA. If it describes one, no path continues after a jump, and the state after a branch or a loop
    depends on the paths that lead there. If it describes all, the threads that don't jump continue with the state of
    `after_jump`, and the state after a branch or a loop may depend on the state before it.

    kinds: the classes of the statements that may change a state.
    """

    kinds: ClassVar[frozenset[type[Stmt]]] = frozenset(get_args(Stmt))

    @abstractmethod
    def join(self, first: State, second: State) -> State:
        """Return the join of two states: the least state that holds on both paths."""

    @abstractmethod
    def step(self, stmt: Simple | Jump, state: State) -> State:
        """Return the state after a statement; for a jump, the state that it carries to its target."""

    def concerns(self, stmt: Simple | If | For) -> bool:
        """True if a statement of one of the `kinds` may change a state, not counting nested statements.

        If it is false, `step` must return the state unchanged; without visited statements inside, `branch`, `merged`,
        `enter`, `repeat` and `leave` must return the same as in this class.
        """
        return True

    def after_jump(self, jump: Jump, state: State) -> State | None:
        """Return the state after a jump that carries `state` to its target; None if no thread continues there."""
        return None

    def branch(self, stmt: If, state: State) -> tuple[State, State]:
        """Return the states at the starts of a branch's two blocks."""
        return state, state

    def merged(self, stmt: If, before: State, ends: State) -> State:
        """Return the state after a branch. ends: the join of the states at the ends of its blocks."""
        return ends

    def enter(self, loop: For | Loop, before: State) -> State:
        """Return the state at the start of the first iteration."""
        return before

    def repeat(self, loop: For | Loop, head: State, ends: State) -> State:
        """Return the state at the start of another iteration. ends: the join of the body's end and `continue`s."""
        return ends

    def leave(self, loop: For | Loop, states: LoopStates[State]) -> State | None:
        """Return the state after a loop, or None if the code there is unreachable."""
        if isinstance(loop, Loop):
            return states.breaks
        return states.head if states.breaks is None else self.join(states.head, states.breaks)


def solve(analysis: Analysis[State], body: Block, start: State) -> list[State | None]:
    """Return the state before each of `walk.statements(body)`, in that order; None if the statement is unreachable."""
    course = _course(analysis, analysis.kinds.union(walk.UNBOUNDED), body, 0)
    solver = _Solver(analysis, course.end)
    solver.block(course, start)
    return solver.states


@lean(frozen=True, slots=True)
class _Visit:
    """A visited statement, with index `number`, and the skipped statements before it, from index `first`."""

    first: int
    number: int
    stmt: Stmt
    blocks: tuple[_Course, ...]


@lean(frozen=True, slots=True)
class _Course:
    """The visits in a block, and the skipped statements at its end, with indices from `last` to `end` (exclusive)."""

    visits: tuple[_Visit, ...]
    last: int
    end: int


def _course(analysis: Analysis[State], kinds: Set[type[Stmt]], body: Block, first: int) -> _Course:
    """Return the course of a block from index `first`. kinds: the classes that may be visited without nested visits."""
    if not body:
        return _Course((), first, first)
    held = walk.inventory(body)
    if held.kinds.isdisjoint(kinds):
        return _Course((), first, first + held.size)
    visits: list[_Visit] = []
    last = number = first
    for stmt in body:
        kind, after = type(stmt), number + 1
        is_visited = kind in kinds and (kind in walk.UNBOUNDED or analysis.concerns(stmt))  # type: ignore[arg-type]
        blocks: tuple[_Course, ...] = ()
        if kind in walk.COMPOUND_KINDS:
            for block in walk.blocks(stmt):
                course = _course(analysis, kinds, block, after)
                blocks += (course,)
                after = course.end
                is_visited = is_visited or bool(course.visits)
        if is_visited:
            visits.append(_Visit(last, number, stmt, blocks))
            last = after
        number = after
    return _Course(tuple(visits), last, number)


@dataclass(slots=True)
class _Exits(Generic[State]):
    """The states that `break`s and `continue`s carry out of an iteration, joined by kind."""

    breaks: State | None = None
    continues: State | None = None


class _Solver(Generic[State]):
    """Solves one analysis.

    states: the state before each statement, in program order. loops: index of a loop -> the states around it.
    around: the exits of the loops that are being visited, innermost last.
    """

    def __init__(self, analysis: Analysis[State], count: int) -> None:
        self.analysis = analysis
        self.states: list[State | None] = [None] * count
        self.loops: dict[int, LoopStates[State]] = {}
        self.around: list[_Exits[State]] = []

    def block(self, course: _Course, state: State | None) -> State | None:
        for visit in course.visits:
            if state is None:
                return None
            # skipped statements don't change the state
            self.states[visit.first : visit.number + 1] = [state] * (visit.number + 1 - visit.first)
            stmt = visit.stmt
            if type(stmt) in walk.CONTROL:
                state = self.control(visit, state)
            else:
                state = self.analysis.step(stmt, state)  # type: ignore[arg-type]
        if state is not None:
            self.states[course.last : course.end] = [state] * (course.end - course.last)
        return state

    def control(self, visit: _Visit, state: State) -> State | None:
        stmt = visit.stmt
        if isinstance(stmt, If):
            then, orelse = self.analysis.branch(stmt, state)
            ends = self.joined(self.block(visit.blocks[0], then), self.block(visit.blocks[1], orelse))
            return None if ends is None else self.analysis.merged(stmt, state, ends)
        if isinstance(stmt, (For, Loop)):
            return self.loop(stmt, visit, state)
        assert isinstance(stmt, walk.JUMPS)
        taken = self.analysis.step(stmt, state)
        if isinstance(stmt, Break):
            self.around[-1].breaks = self.joined(self.around[-1].breaks, taken)
        elif isinstance(stmt, Continue):
            self.around[-1].continues = self.joined(self.around[-1].continues, taken)
        return self.analysis.after_jump(stmt, taken)

    def joined(self, first: State | None, second: State | None) -> State | None:
        if first is None or second is None:
            return second if first is None else first
        return self.analysis.join(first, second)

    def loop(self, stmt: For | Loop, visit: _Visit, before: State) -> State | None:
        solved, head = self.loops.get(visit.number), self.analysis.enter(stmt, before)
        if solved is not None:
            head = self.analysis.join(head, solved.head)
        if solved is None or head != solved.head:
            solved = self.loops[visit.number] = self.fixpoint(stmt, visit.blocks[0], before, head)
        return self.analysis.leave(stmt, replace(solved, before=before))

    def fixpoint(self, stmt: For | Loop, course: _Course, before: State, head: State) -> LoopStates[State]:
        while True:
            exits: _Exits[State] = _Exits()
            self.around.append(exits)
            end = self.block(course, head)
            self.around.pop()
            ends = self.joined(end, exits.continues)
            again = None if ends is None else self.analysis.repeat(stmt, head, ends)
            grown = head if again is None else self.analysis.join(head, again)
            if grown == head:
                return LoopStates(before, head, again, exits.breaks)
            head = grown
