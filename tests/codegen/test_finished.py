"""Modules that skip LLVM's optimization passes and go straight to its back end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.lane_kernels import THREAD, array, const, kernel, local, pointer
from tests.support.ptx import instructions, made
from tilejit.codegen import target_machine
from tilejit.codegen.target_machine import FrontPasses
from tilejit.dtypes import bool_, float32, int32
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import (
    Alloc,
    Assign,
    Break,
    Continue,
    Declare,
    For,
    If,
    Let,
    Load,
    Loop,
    Op,
    Stmt,
    Store,
    Var,
    Vector,
)
from tilejit.ir.params import ScalarParam

INLINING, FOLDING = FrontPasses(inlines=True, folds=False), FrontPasses(inlines=False, folds=True)
A = array("A", float32, 4096)
N = Var("n", int32)
INDEX, CHANGING, VALUE = Var("i", int32), Var("c", int32), Var("v", float32)
FIRST = Store(Vector(A, THREAD), const(1, float32))
SECOND = Store(Vector(A, build.add(THREAD, 128)), const(2, float32))
CONDITION = build.less(THREAD, N)
TILE = local("x", float32, 4)
SECOND_ELEMENT = Vector(TILE, const(1))


def chosen(*effects: Stmt) -> Sequence[Stmt]:
    """An element of a tile that a branch sets."""
    branch = If(CONDITION, (Store(SECOND_ELEMENT, const(2, float32)), *effects), ())
    write = (Let(VALUE, Load(SECOND_ELEMENT)), Store(Vector(A, THREAD), VALUE))
    return [Alloc(TILE), Store(SECOND_ELEMENT, const(1, float32)), branch, *write]


def counted(*body: Stmt) -> For:
    return For(INDEX, const(0), N, const(1), body)


FINISHED: dict[str, Sequence[Stmt]] = {
    "one store": [FIRST],
    "a branch": [If(CONDITION, (FIRST,), ())],
    "branches on different conditions": [If(CONDITION, (FIRST,), (SECOND,)), If(build.equal(THREAD, N), (SECOND,), ())],
    "two branches on one condition that are far from each other": [
        If(CONDITION, (FIRST,), ()),
        *(Store(Vector(A, build.add(THREAD, k)), const(k, float32)) for k in range(128, 140)),
        If(CONDITION, (SECOND,), ()),
    ],
    "a branch that does more than set an element": chosen(SECOND),
    "a loop": [counted(FIRST)],
    "a loop that changes a variable": [
        Declare(CHANGING, const(0)),
        counted(Assign(CHANGING, build.add(CHANGING, INDEX))),
        Store(Vector(A, CHANGING), const(1, float32)),
    ],
    "loops that are left": [
        counted(counted(FIRST, If(CONDITION, (SECOND, Break()), ())), If(CONDITION, (Continue(),), ()), SECOND),
    ],
    "a loop that ends in the middle of an iteration": [
        Loop((If(build.equal(THREAD, N), (FIRST,), ()), If(CONDITION, (Break(),), ()), SECOND)),
    ],
}
UNFINISHED: dict[str, tuple[FrontPasses, Sequence[Stmt]]] = {
    "a function": (
        INLINING, [Let(VALUE, Op("sin", (Load(Vector(A, THREAD)),), float32)), Store(Vector(A, THREAD), VALUE)],
    ),
    "a variable that a branch sets": (FOLDING, [
        Declare(CHANGING, const(0)),
        If(CONDITION, (Assign(CHANGING, const(64)),), ()),
        Store(Vector(A, CHANGING), const(1, float32)),
    ]),
    "an element that a branch sets": (FOLDING, chosen()),
    "a branch that is never taken": (FOLDING, [If(const(0, bool_), (FIRST,), ())]),
    "two branches on one condition": (FOLDING, [If(CONDITION, (FIRST,), ()), If(CONDITION, (SECOND,), ())]),
    "a loop that ends at the start of an iteration": (FOLDING, [Loop((If(CONDITION, (Break(),), ()), FIRST))]),
    "a counted loop that ends at the start of an iteration": (FOLDING, [counted(If(CONDITION, (Break(),), ()), FIRST)]),
}


def compiled(body: Sequence[Stmt], monkeypatch: pytest.MonkeyPatch, every: bool) -> tuple[str, FrontPasses]:
    """The PTX of a kernel, and the passes that its module needs. every: all run on it nevertheless."""
    optimise, seen = target_machine._optimise, []

    def watched(module: Any, machine: Any, passes: FrontPasses) -> None:
        seen.append(passes)
        optimise(module, machine, FrontPasses(True, True) if every else passes)

    with monkeypatch.context() as patched:
        patched.setattr(target_machine, "_optimise", watched)
        ptx = made(kernel(body, [pointer(A, True), ScalarParam("n", N)])).ptx
    (passes,) = seen
    return ptx, passes


@pytest.mark.parametrize("name", FINISHED)
def test_what_the_passes_find_nothing_in_is_as_long_without_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ptx, passes = compiled(FINISHED[name], monkeypatch, every=False)
    assert passes == FrontPasses()
    assert len(instructions(compiled(FINISHED[name], monkeypatch, every=True)[0])) >= len(instructions(ptx))


@pytest.mark.parametrize("name", UNFINISHED)
def test_what_a_pass_changes_goes_through_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, body = UNFINISHED[name]
    _, passes = compiled(body, monkeypatch, every=False)
    assert passes == expected
