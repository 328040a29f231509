"""Small random programs with every form of control flow, and all the paths through one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import TypeVar

from hypothesis import strategies as st

from tilejit.dtypes import bool_, int32
from tilejit.ir import nodes as ir
from tilejit.ir import walk
from tilejit.source import Span

COND, N, I = ir.Var("cond", bool_), ir.Var("n", int32), ir.Var("i", int32)  # noqa: E741 - as in kernels
ZERO, ONE, TWO = (ir.Const(value, int32) for value in range(3))

State = TypeVar("State", bound=Hashable)


def programs(
    leaves: st.SearchStrategy[ir.Stmt], depth: int = 3, stops: Sequence[ir.Expr] = (N,)
) -> st.SearchStrategy[walk.Block]:
    """Blocks of leaves, branches, loops and jumps; no two statements have the same span.

    stops: where counted loops end, which start at 0.
    """
    return _blocks(leaves, depth, stops, False).map(numbered)


def _blocks(
    leaves: st.SearchStrategy[ir.Stmt], depth: int, stops: Sequence[ir.Expr], in_loop: bool
) -> st.SearchStrategy[walk.Block]:
    jumps: list[ir.Stmt] = [ir.Return(), ir.Break(), ir.Continue()] if in_loop else [ir.Return()]
    options = [leaves, leaves, leaves]
    if depth > 0:
        inner, body = _blocks(leaves, depth - 1, stops, in_loop), _blocks(leaves, depth - 1, stops, True)
        options += [
            st.builds(lambda then, orelse: ir.If(COND, then, orelse), inner, inner),
            st.builds(lambda then, jump: ir.If(COND, (*then, jump)), inner, st.sampled_from(jumps)),
            st.builds(lambda body: ir.Loop((*body, ir.If(COND, (ir.Break(),)))), body),
            st.builds(lambda stop, body: ir.For(I, ZERO, stop, ONE, body), st.sampled_from(stops), body),
        ]
    return st.lists(st.one_of(options), min_size=1, max_size=4).map(tuple)


def numbered(body: walk.Block) -> walk.Block:
    """The block with lines, which count in the order of the text."""
    lines = count(1)

    def line(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
        number = next(lines)
        yield replace(stmt, span=Span("k.py", number, 0, number, 1, "statement"))

    return walk.rewrite(body, line)


def run(
    body: walk.Block, states: set[State], step: Callable[[ir.Stmt, State], State | None], turns: int = 3
) -> dict[str, set[State]]:
    """The states of all paths through a block, whatever its conditions say, by what they end with.

    step: the state of one path after a statement, None if the path ends. turns: the most iterations of a loop.
    """
    ways: dict[str, set[State]] = {"end": states}
    for stmt in body:
        here = {after for state in ways.pop("end", set()) if (after := step(stmt, state)) is not None}
        if isinstance(stmt, ir.If):
            parts = [run(block, here, step, turns) for block in (stmt.then, stmt.orelse)]
        elif isinstance(stmt, (ir.For, ir.Loop)):
            parts = [_turns(stmt, here, step, turns)]
        else:
            jumps = isinstance(stmt, (ir.Break, ir.Continue, ir.Return))
            parts = [{type(stmt).__name__ if jumps else "end": here}]
        for part in parts:
            for way, found in part.items():
                ways[way] = ways.get(way, set()) | found
        if not ways.get("end"):
            break
    return ways


def _turns(
    loop: ir.For | ir.Loop, states: set[State], step: Callable[[ir.Stmt, State], State | None], turns: int
) -> dict[str, set[State]]:
    ends = isinstance(loop, ir.For)
    left: set[State] = set(states) if isinstance(loop, ir.For) and loop.stop == N else set()
    returned: set[State] = set()
    for _ in range(turns):
        ways = run(loop.body, states, step, turns)
        left |= ways.get("Break", set())
        returned |= ways.get("Return", set())
        states = ways.get("end", set()) | ways.get("Continue", set())
        left |= states if ends else set()
    return {"end": left, "Return": returned}
