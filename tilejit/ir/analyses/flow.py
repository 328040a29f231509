"""Forward dataflow over structured statements: what holds before each, as a least fixed point.

An analysis defines what a state is, how two states join, and how a statement changes a state. This module decides the
order of visits and follows loops and jumps.

A loop keeps the state at its head from one visit to the next. When a further turn of an outer loop comes to it again,
it resumes from that state; where the incoming state adds nothing, its body isn't visited again. So a statement is
visited once for each state that the head of its innermost loop takes. These are at most as many as the lattice is
high, however deep the loops are nested: the cost is linear in the code times the lattice's height.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from ...dataclass import dataclass
from .. import walk
from ..nodes import Break, Continue, For, If, Jump, Loop, Return, Simple
from ..walk import Block

__all__ = ["Analysis", "LoopStates", "solve"]

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
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
    """

    @abstractmethod
    def join(self, first: State, second: State) -> State:
        """The least state that holds on both of two paths."""

    @abstractmethod
    def step(self, stmt: Simple | Jump, state: State) -> State:
        """The state after a statement; of a jump, the state that it carries to its target."""

    def behind(self, jump: Jump, state: State) -> State | None:
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

    def leave(self, loop: For | Loop, turns: LoopStates[State]) -> State | None:
        """The state after a loop."""
        if isinstance(loop, Loop):
            return turns.breaks
        return turns.head if turns.breaks is None else self.join(turns.head, turns.breaks)


def solve(analysis: Analysis[State], body: Block, start: State) -> list[State | None]:
    """The state before each of `walk.statements(body)`, in that order; None where no path goes."""
    solver = _Solver(analysis, len(walk.statements(body)))
    solver.block(body, start, 0)
    return solver.states


@dataclass(slots=True)
class _Solved(Generic[State]):
    """A loop's states as of its last visit. end: the number of the statement behind it."""

    head: State
    again: State | None
    breaks: State | None
    end: int


@dataclass(slots=True)
class _Exits(Generic[State]):
    """The states that breaks and continues carry out of a loop's turn, each kind joined."""

    breaks: State | None = None
    continues: State | None = None


#: the statements that are no step to the next one: few of a kernel's
_CONTROL = (If, For, Loop, Break, Continue, Return)


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

    def block(self, body: Block, state: State | None, number: int) -> tuple[State | None, int]:
        """The state at the end of a block whose first statement has this number, and the number behind it."""
        for stmt in body:
            if state is None:
                number += walk.size(stmt)
                continue
            self.states[number] = state
            if not isinstance(stmt, _CONTROL):
                state, number = self.analysis.step(stmt, state), number + 1
                continue
            match stmt:
                case If():
                    state, number = self.branch(stmt, state, number)
                case For() | Loop():
                    state, number = self.loop(stmt, state, number)
                case Break() | Continue() | Return():
                    state, number = self.jump(stmt, state), number + 1
        return state, number

    def joined(self, first: State | None, second: State | None) -> State | None:
        if first is None or second is None:
            return second if first is None else first
        return self.analysis.join(first, second)

    def branch(self, stmt: If, before: State, number: int) -> tuple[State | None, int]:
        then, orelse = self.analysis.branch(stmt, before)
        end_of_then, number = self.block(stmt.then, then, number + 1)
        end_of_orelse, number = self.block(stmt.orelse, orelse, number)
        ends = self.joined(end_of_then, end_of_orelse)
        return None if ends is None else self.analysis.merged(stmt, before, ends), number

    def jump(self, stmt: Jump, state: State) -> State | None:
        taken = self.analysis.step(stmt, state)
        if isinstance(stmt, Break):
            self.around[-1].breaks = self.joined(self.around[-1].breaks, taken)
        elif isinstance(stmt, Continue):
            self.around[-1].continues = self.joined(self.around[-1].continues, taken)
        return self.analysis.behind(stmt, taken)

    def loop(self, stmt: For | Loop, before: State, number: int) -> tuple[State | None, int]:
        solved, head = self.loops.get(number), self.analysis.enter(stmt, before)
        if solved is not None:
            head = self.analysis.join(head, solved.head)
        if solved is None or head != solved.head:
            solved = self.loops[number] = self.turns(stmt, head, number)
        turns = LoopStates(before, solved.head, solved.again, solved.breaks)
        return self.analysis.leave(stmt, turns), solved.end

    def turns(self, stmt: For | Loop, head: State, number: int) -> _Solved[State]:
        """Follows a loop's turns until they bring nothing new to its head."""
        while True:
            exits: _Exits[State] = _Exits()
            self.around.append(exits)
            end, behind = self.block(stmt.body, head, number + 1)
            self.around.pop()
            turned = self.joined(end, exits.continues)
            again = None if turned is None else self.analysis.repeat(stmt, head, turned)
            grown = head if again is None else self.analysis.join(head, again)
            if grown == head:
                return _Solved(head, again, exits.breaks, behind)
            head = grown
