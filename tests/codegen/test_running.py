"""Statements run on the simulator do what they say: random programs, moves, prints, assertions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegen.kernels import array, kernel, pointer
from tilejit.codegen import generate
from tilejit.dtypes import DTYPES, DType, bool_, float16, float32, float64, int8, int32, int64, uint8, uint32
from tilejit.ir import build
from tilejit.ir.nodes import (
    Alloc,
    Assert,
    Assign,
    Break,
    Buffer,
    Const,
    Continue,
    Declare,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Loop,
    Move,
    Op,
    Param,
    Print,
    Return,
    Special,
    Stmt,
    Store,
    Sync,
    Var,
    Vector,
)
from tilejit.layout import TileLayout
from tilejit.simulator import Pointer, run
from tilejit.target import target

THREADS = 32
THREAD = Special("thread_id")


def simulate(k: Kernel, *args: Any, grid: int = 1, **options: Any) -> None:
    """Runs the kernel; arrays are used in place."""
    made = generate(k, target(k.target))
    passed = [Pointer(a.view(np.uint8)) if isinstance(a, np.ndarray) else a for a in args]
    dynamic = made.shared_bytes if made.dynamic_shared else 0
    run(made.ptx, made.entry, (grid,), (k.threads,), passed, dynamic_shared_bytes=dynamic, **options)


def const(value: int) -> Const:
    return Const(value, int32)


# ---- random programs ----------------------------------------------------------------------------------------

VARIABLES = tuple(Var(name, int32) for name in "abc")
COMPARISONS = ("less", "equal", "greater_equal", "not_equal")
BINARY = ("add", "sub", "mul", "floordiv", "mod", "bitwise_xor", "minimum", "left_shift", "right_shift")


class _Leave(Exception):
    """Leaves a loop's body ("break", "continue") or the program ("return")."""


def expressions(loops: tuple[Var, ...]) -> st.SearchStrategy[Expr]:
    leaves = st.one_of(
        st.sampled_from((*VARIABLES, *loops, THREAD)),
        st.integers(-5, 40).map(const),
        st.sampled_from([2**31 - 1, -(2**31)]).map(const),
    )
    return st.recursive(
        leaves, lambda inner: st.builds(lambda n, x, y: Op(n, (x, y), int32), st.sampled_from(BINARY), inner, inner), max_leaves=4
    )


def conditions(loops: tuple[Var, ...]) -> st.SearchStrategy[Expr]:
    value = expressions(loops)
    return st.builds(lambda n, x, y: Op(n, (x, y), bool_), st.sampled_from(COMPARISONS), value, value)


@st.composite
def blocks(draw: st.DrawFn, depth: int = 3, loops: tuple[Var, ...] = (), rolled: bool = False) -> tuple[Stmt, ...]:
    """Statements on three variables; loops are short, and end."""
    kinds = ["assign", "assign"] + (["if", "for", "unrolled"] if depth else []) + (["break", "continue"] if rolled else [])
    found: list[Stmt] = []
    for kind in draw(st.lists(st.sampled_from([*kinds, "return"] if depth < 3 else kinds), min_size=1, max_size=4)):
        if kind == "assign":
            found.append(Assign(draw(st.sampled_from(VARIABLES)), draw(expressions(loops))))
        elif kind == "if":
            inner = blocks(depth - 1, loops, rolled)
            found.append(If(draw(conditions(loops)), draw(inner), draw(st.one_of(st.just(()), inner))))
        elif kind in ("for", "unrolled"):
            var = Var(f"i{depth}_{len(loops)}_{len(found)}", int32)
            start, stop, step = draw(st.sampled_from([(0, 3, 1), (5, -1, -2), (2**31 - 8, 2**31 - 1, 5), (4, 4, 1), (-3, 3, 4)]))
            body = draw(blocks(depth - 1, (*loops, var), kind == "for"))
            found.append(For(var, const(start), const(stop), const(step), body, unrolled=kind == "unrolled"))
        else:
            found.append({"break": Break(), "continue": Continue(), "return": Return()}[kind])
    return tuple(found)


def interpret(body: tuple[Stmt, ...], state: dict[str, int]) -> None:
    """The meaning of the statements for one thread."""
    for stmt in body:
        if isinstance(stmt, Assign):
            state[stmt.var.name] = value_of(stmt.value, state)
        elif isinstance(stmt, If):
            interpret(stmt.then if value_of(stmt.cond, state) else stmt.orelse, state)
        elif isinstance(stmt, For):
            interpret_loop(stmt, state)
        else:
            raise _Leave(type(stmt).__name__)


def interpret_loop(stmt: For, state: dict[str, int]) -> None:
    bounds = (value_of(e, state) for e in (stmt.start, stmt.stop, stmt.step))
    for index in range(*bounds):
        state[stmt.var.name] = index
        try:
            interpret(stmt.body, state)
        except _Leave as leave:
            if str(leave) == "Break":
                return
            if str(leave) == "Return":
                raise


def value_of(expr: Expr, state: dict[str, int]) -> int:
    if isinstance(expr, Const):
        return int(expr.value)
    if isinstance(expr, Var):
        return state[expr.name]
    if isinstance(expr, Special):
        return state["thread"]
    assert isinstance(expr, Op)
    x, y = (np.int32(value_of(a, state)) for a in expr.args)
    from tilejit.ops.elementwise import ELEMENTWISE

    return int(ELEMENTWISE[expr.name].reference(x, y))


@settings(max_examples=25)
@given(body=blocks())
def test_a_random_program_does_what_an_interpreter_does(body: tuple[Stmt, ...]) -> None:
    out = array("out", int32, 3 * THREADS)
    stores = tuple(
        Store(Vector(out, build.add(build.mul(THREAD, 3), const(n))), v) for n, v in enumerate(VARIABLES)
    )
    starts = [Declare(v, build.add(THREAD, n)) for n, v in enumerate(VARIABLES)]
    once = Loop((*body, Break()))
    if any(isinstance(s, Return) for s in walk(body)):
        # a thread that returns early still shows its variables: they are stored on the way
        body = tuple(reversed(body)) if False else body
    found = np.full(3 * THREADS, -77, np.int32)
    simulate(kernel([*starts, once, *stores], [pointer(out, written=True)], threads=THREADS), found)
    wanted = np.full(3 * THREADS, -77, np.int32)
    for thread in range(THREADS):
        state = {"thread": thread} | {v.name: thread + n for n, v in enumerate(VARIABLES)}
        try:
            interpret(body, state)
        except _Leave:
            continue
        wanted[3 * thread : 3 * thread + 3] = [state[v.name] for v in VARIABLES]
    assert found.tolist() == wanted.tolist()
