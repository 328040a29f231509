"""The dataflow's states are the least fixed point, and it takes no more visits than the lattice is high."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ir.analyses.test_uniformity_is_sound import THREADS, bodies
from tests.ir.paths import COND, ONE, ZERO, N, programs, run
from tests.support.profiles import times
from tilejit.dtypes import int32
from tilejit.ir import nodes as ir
from tilejit.ir import walk
from tilejit.ir.analyses.flow import Analysis, LoopStates, solve
from tilejit.ir.analyses.uniformity import Uniformity

NAMES = ("a", "b", "c", "d")
VARS = {name: ir.Var(name, int32) for name in NAMES}

Names = frozenset[str]


class Tainted(Analysis[Names]):
    """The variables that may hold what `a` held at the start; `visits` of each statement by its line."""

    def __init__(self) -> None:
        self.visits: Counter[int] = Counter()

    def join(self, first: Names, second: Names) -> Names:
        return first | second

    def step(self, stmt: ir.Simple | ir.Jump, state: Names) -> Names:
        if stmt.span is not None:
            self.visits[stmt.span.line] += 1
        return moved(stmt, state)


def moved(stmt: ir.Stmt, state: Names) -> Names:
    if not isinstance(stmt, ir.Assign):
        return state
    source = stmt.value.name if isinstance(stmt.value, ir.Var) else ""
    return state | {stmt.var.name} if source in state else state - {stmt.var.name}


assignments = st.builds(
    ir.Assign, st.sampled_from(list(VARS.values())), st.sampled_from([*VARS.values(), ZERO])
)


class Restarting:
    """The same fixed point in the obvious way: each visit of a loop starts from nothing."""

    def __init__(self, analysis: Analysis[Any]) -> None:
        self.analysis = analysis
        self.states: dict[int, Any] = {}
        self.exits: list[dict[str, Any]] = []

    def joined(self, first: Any, second: Any) -> Any:
        return second if first is None else first if second is None else self.analysis.join(first, second)

    def block(self, body: walk.Block, state: Any, number: int) -> tuple[Any, int]:
        for stmt in body:
            after = number + walk.size(stmt)
            if state is not None:
                self.states[number] = state
                state = self.stmt(stmt, state, number)
            number = after
        return state, number

    def stmt(self, stmt: ir.Stmt, state: Any, number: int) -> Any:
        a = self.analysis
        if isinstance(stmt, ir.If):
            then, orelse = a.branch(stmt, state)
            then, after = self.block(stmt.then, then, number + 1)
            orelse, _ = self.block(stmt.orelse, orelse, after)
            ends = self.joined(then, orelse)
            return None if ends is None else a.merged(stmt, state, ends)
        if isinstance(stmt, (ir.For, ir.Loop)):
            return self.loop(stmt, state, number)
        taken = a.step(stmt, state)
        if not isinstance(stmt, (ir.Break, ir.Continue, ir.Return)):
            return taken
        if not isinstance(stmt, ir.Return):
            word = type(stmt).__name__
            self.exits[-1][word] = self.joined(self.exits[-1].get(word), taken)
        return a.after_jump(stmt, taken)

    def loop(self, stmt: ir.For | ir.Loop, before: Any, number: int) -> Any:
        head = self.analysis.enter(stmt, before)
        while True:
            self.exits.append({})
            end, _ = self.block(stmt.body, head, number + 1)
            exits = self.exits.pop()
            turned = self.joined(end, exits.get("Continue"))
            again = None if turned is None else self.analysis.repeat(stmt, head, turned)
            grown = self.joined(head, again)
            if grown == head:
                return self.analysis.leave(stmt, LoopStates(before, head, again, exits.get("Break")))
            head = grown


def restarted(analysis: Analysis[Any], body: walk.Block, start: Any) -> list[Any]:
    reference = Restarting(analysis)
    _, size = reference.block(body, start, 0)
    return [reference.states.get(number) for number in range(size)]


@given(programs(assignments))
def test_states_are_those_of_all_paths(body: walk.Block) -> None:
    found = solve(Tainted(), body, frozenset({"a"}))
    expected: dict[int, Names] = {}

    def step(stmt: ir.Stmt, state: Names) -> Names:
        assert stmt.span is not None
        expected[stmt.span.line] = expected.get(stmt.span.line, frozenset()) | state
        return moved(stmt, state)

    run(body, {frozenset({"a"})}, step, turns=5)
    assert found == [expected.get(number + 1) for number in range(len(found))]


@given(programs(assignments))
def test_states_are_the_least_fixed_point(body: walk.Block) -> None:
    assert solve(Tainted(), body, frozenset({"a"})) == restarted(Tainted(), body, frozenset({"a"}))


class OfAssignments(Tainted):
    """The same, but notified of assignments only."""

    kinds = frozenset({ir.Assign})

    def step(self, stmt: ir.Simple | ir.Jump, state: Names) -> Names:
        assert isinstance(stmt, (ir.Assign, ir.Break, ir.Continue, ir.Return))
        return super().step(stmt, state)


class OfSomeAssignments(OfAssignments):
    """The same, but not notified of assignments that leave their variable unchanged."""

    def concerns(self, stmt: ir.Stmt) -> bool:
        assert isinstance(stmt, ir.Assign)
        return stmt.value != stmt.var


@pytest.mark.parametrize("analysis", [OfAssignments, OfSomeAssignments])
@given(body=programs(assignments))
def test_what_is_passed_over_changes_no_state(analysis: type[Tainted], body: walk.Block) -> None:
    assert solve(analysis(), body, frozenset({"a"})) == restarted(Tainted(), body, frozenset({"a"}))


@given(bodies())
@settings(max_examples=times(10))
def test_states_of_all_threads_are_the_least_fixed_point(body: walk.Block) -> None:
    start = Uniformity(THREADS).start()
    assert solve(Uniformity(THREADS), body, start) == restarted(Uniformity(THREADS), body, start)


@given(programs(assignments, depth=4))
def test_a_statement_is_visited_no_more_often_than_its_loops_state_grows(body: walk.Block) -> None:
    analysis = Tainted()
    solve(analysis, body, frozenset({"a"}))
    assert max(analysis.visits.values(), default=0) <= len(NAMES) + 1


def nested(depth: int) -> walk.Block:
    """Nested loops: before each one a variable is uniform, at the end of its iterations it isn't."""
    x = ir.Var("x", int32)
    body: walk.Block = ()
    for level in range(depth):
        turn = (*body, ir.Assign(x, ir.Special("lane_id")))
        counted = ir.For(ir.Var(f"i{level}", int32), ZERO, N, ONE, turn)
        loop = ir.Loop((*turn, ir.If(COND, (ir.Break(),)))) if level % 2 else counted
        body = (ir.Assign(x, ZERO), loop)
    return (ir.Declare(x, ZERO), *body)


class Counting(Uniformity):
    visits = 0

    def step(self, stmt: ir.Simple | ir.Jump, state: Any) -> Any:
        self.visits += 1
        return super().step(stmt, state)


@pytest.mark.parametrize("depth", range(1, 9))
def test_visits_grow_with_the_code_and_not_with_the_depth_of_loops(depth: int) -> None:
    body = nested(depth)
    analysis, reference = Counting(THREADS), Counting(THREADS)
    states = solve(analysis, body, analysis.start())
    assert states == restarted(reference, body, analysis.start())
    # the head of a loop takes two states: x is uniform, and x isn't
    assert analysis.visits <= 2 * len(states)
    # the count if each iteration of an outer loop restarted the inner ones
    assert reference.visits >= 2**depth
