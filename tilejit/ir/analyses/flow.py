"""Forward dataflow over structured statements: what holds before each, as a least fixed point.

An analysis defines what a state is, how two states join, and how a statement changes a state. This module decides the
order of visits and follows loops and jumps.

A loop keeps the state at its head from one visit to the next. When a further turn of an outer loop comes to it again,
it resumes from that state; where the incoming state adds nothing, its body isn't visited again. So a statement is
visited once for each state that the head of its innermost loop takes. These are at most as many as the lattice is
high, however deep the loops are nested: the cost is linear in the code times the lattice's height.

Most statements do nothing to most analyses' states. Which those are, an analysis says once of each, and visits pass
them over: a run of them in one step, a branch or a counted loop of them as a whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from typing import ClassVar, Generic, TypeVar, get_args

from ...dataclass import dataclass, lean
from .. import walk
from ..nodes import Break, Continue, For, If, Jump, Loop, Simple, Stmt
from ..walk import Block

__all__ = ["Analysis", "LoopStates", "solve"]

State = TypeVar("State")


@lean(frozen=True, slots=True)
class LoopStates(Generic[State]):
    """The states around a loop; None where no path goes.

        before ──▶ head ──▶ body ──▶ end of the turn, `continue`
                    ▲        │                │
                    │        └──▶ breaks      │
                    └───────── again ◀────────┘

    head: at the beginning of any turn. again: at the beginning of any turn but the first. breaks: all breaks joined.
    """

    before: State
    head: State
    again: State | None
    breaks: State | None


class Analysis(ABC, Generic[State]):
    """A lattice and its transfer functions.

    States are immutable and compare by value. Every function must be monotone: for a greater state it returns a greater
    one or the same. A state describes one thread, or all threads of a CTA. With one thread, no path goes on behind a
    jump, and the state after a branch or a loop follows from the paths that lead there. With all threads, those that
    didn't jump go on `behind` the jump, and the state after a branch or a loop may use the one `before` it.

    kinds: the classes of the statements that may change a state.
    """

    kinds: ClassVar[frozenset[type[Stmt]]] = frozenset(get_args(Stmt))

    @abstractmethod
    def join(self, first: State, second: State) -> State:
        """The least state that holds on both of two paths."""

    @abstractmethod
    def step(self, stmt: Simple | Jump, state: State) -> State:
        """The state after a statement; of a jump, the state that it carries to its target."""

    def concerns(self, stmt: Simple | If | For) -> bool:
        """Whether a statement of one of the `kinds`, without those in it, may change a state.

        Of one that doesn't, as of one of another kind, `step` returns the state that it is given; `branch` gives it to
        both blocks, and `merged`, `enter`, `repeat` and `leave` are those of this class.
        """
        return True

    def after_jump(self, jump: Jump, state: State) -> State | None:
        """The state of the code behind a jump that carries `state` away; None where no thread goes on there."""
        return None

    def branch(self, stmt: If, state: State) -> tuple[State, State]:
        """The states at the beginnings of a branch's two blocks."""
        return state, state

    def merged(self, stmt: If, before: State, ends: State) -> State:
        """The state after a branch. ends: the states at the ends of its blocks, joined."""
        return ends

    def enter(self, loop: For | Loop, before: State) -> State:
        """The state where the first turn begins."""
        return before

    def repeat(self, loop: For | Loop, head: State, ends: State) -> State:
        """The state where another turn begins. ends: the states at the turn's end and its continues, joined."""
        return ends

    def leave(self, loop: For | Loop, states: LoopStates[State]) -> State | None:
        """The state after a loop."""
        if isinstance(loop, Loop):
            return states.breaks
        return states.head if states.breaks is None else self.join(states.head, states.breaks)


def solve(analysis: Analysis[State], body: Block, start: State) -> list[State | None]:
    """The state before each of `walk.statements(body)`, in that order; None where no path goes."""
    course = _course(analysis, analysis.kinds.union(walk.UNBOUNDED), body, 0)
    solver = _Solver(analysis, course.end)
    solver.block(course, start)
    return solver.states


@lean(frozen=True, slots=True)
class _Visit:
    """A statement that visits come to, behind those that they pass over.

    first: the number of the first one passed over. number: that of the statement. blocks: the courses through its
    blocks.
    """

    first: int
    number: int
    stmt: Stmt
    blocks: tuple[_Course, ...]


@lean(frozen=True, slots=True)
class _Course:
    """The way through a block: what is visited; then, from number `last` up to `end`, what is passed over."""

    visits: tuple[_Visit, ...]
    last: int
    end: int


def _course(analysis: Analysis[State], kinds: Set[type[Stmt]], body: Block, first: int) -> _Course:
    """The course through a block whose first statement has this number. kinds: of what may be visited for itself."""
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
class _Solved(Generic[State]):
    """A loop's states as of its last visit."""

    head: State
    again: State | None
    breaks: State | None


@dataclass(slots=True)
class _Exits(Generic[State]):
    """The states that breaks and continues carry out of a loop's turn, each kind joined."""

    breaks: State | None = None
    continues: State | None = None


class _Solver(Generic[State]):
    """Visits statements, which are numbered in the order of the text.

    states: before each statement, by its number. loops: the states of the loops visited, by the loop's number.
    around: the exits of the loops that are being visited, innermost last.
    """

    def __init__(self, analysis: Analysis[State], count: int) -> None:
        self.analysis = analysis
        self.states: list[State | None] = [None] * count
        self.loops: dict[int, _Solved[State]] = {}
        self.around: list[_Exits[State]] = []

    def block(self, course: _Course, state: State | None) -> State | None:
        """The state at the end of a block."""
        for visit in course.visits:
            if state is None:
                return None
            # before those that are passed over, too
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
        """The state behind a statement that is no step to the next one."""
        stmt = visit.stmt
        if isinstance(stmt, If):
            return self.branch(stmt, visit.blocks, state)
        if isinstance(stmt, (For, Loop)):
            return self.loop(stmt, visit, state)
        assert isinstance(stmt, walk.JUMPS)
        return self.jump(stmt, state)

    def joined(self, first: State | None, second: State | None) -> State | None:
        if first is None or second is None:
            return second if first is None else first
        return self.analysis.join(first, second)

    def branch(self, stmt: If, blocks: tuple[_Course, ...], before: State) -> State | None:
        course_of_then, course_of_orelse = blocks
        then, orelse = self.analysis.branch(stmt, before)
        ends = self.joined(self.block(course_of_then, then), self.block(course_of_orelse, orelse))
        return None if ends is None else self.analysis.merged(stmt, before, ends)

    def jump(self, stmt: Jump, state: State) -> State | None:
        taken = self.analysis.step(stmt, state)
        if isinstance(stmt, Break):
            self.around[-1].breaks = self.joined(self.around[-1].breaks, taken)
        elif isinstance(stmt, Continue):
            self.around[-1].continues = self.joined(self.around[-1].continues, taken)
        return self.analysis.after_jump(stmt, taken)

    def loop(self, stmt: For | Loop, visit: _Visit, before: State) -> State | None:
        solved, head = self.loops.get(visit.number), self.analysis.enter(stmt, before)
        if solved is not None:
            head = self.analysis.join(head, solved.head)
        if solved is None or head != solved.head:
            solved = self.loops[visit.number] = self.fixpoint(stmt, visit.blocks[0], head)
        return self.analysis.leave(stmt, LoopStates(before, solved.head, solved.again, solved.breaks))

    def fixpoint(self, stmt: For | Loop, course: _Course, head: State) -> _Solved[State]:
        """Follows a loop's turns until they bring nothing new to its head."""
        while True:
            exits: _Exits[State] = _Exits()
            self.around.append(exits)
            end = self.block(course, head)
            self.around.pop()
            ends = self.joined(end, exits.continues)
            again = None if ends is None else self.analysis.repeat(stmt, head, ends)
            grown = head if again is None else self.analysis.join(head, again)
            if grown == head:
                return _Solved(head, again, exits.breaks)
            head = grown
