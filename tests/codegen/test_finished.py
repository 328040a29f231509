"""Which modules go to LLVM's back end without the passes in front of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.lane_kernels import THREAD, array, const, kernel, local, pointer
from tests.support.ptx import made
from tilejit.codegen import target_machine
from tilejit.dtypes import bool_, float32, int32
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Alloc, Assign, Declare, For, If, Let, Load, Op, Stmt, Store, Var, Vector
from tilejit.ir.params import ScalarParam

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


FINISHED: dict[str, Sequence[Stmt]] = {
    "one store": [FIRST],
    "a branch": [If(CONDITION, (FIRST,), ())],
    "branches on different conditions": [If(CONDITION, (FIRST,), (SECOND,)), If(build.equal(THREAD, N), (SECOND,), ())],
    "a branch that does more than set an element": chosen(SECOND),
}
UNFINISHED: dict[str, Sequence[Stmt]] = {
    "a loop": [For(INDEX, const(0), N, const(1), (FIRST,))],
    "a function": [Let(VALUE, Op("sin", (Load(Vector(A, THREAD)),), float32)), Store(Vector(A, THREAD), VALUE)],
    "a variable that a branch sets": [
        Declare(CHANGING, const(0)),
        If(CONDITION, (Assign(CHANGING, const(64)),), ()),
        Store(Vector(A, CHANGING), const(1, float32)),
    ],
    "an element that a branch sets": chosen(),
    "a branch that is never taken": [If(const(0, bool_), (FIRST,), ())],
    "two branches on one condition": [If(CONDITION, (FIRST,), ()), If(CONDITION, (SECOND,), ())],
}


def compiled(body: Sequence[Stmt], monkeypatch: pytest.MonkeyPatch, passes: bool) -> tuple[str, bool]:
    """The PTX of a kernel, and whether its module was finished. passes: they run on it nevertheless."""
    optimise, seen = target_machine._optimise, []

    def watched(module: Any, machine: Any, finished: bool) -> None:
        seen.append(finished)
        optimise(module, machine, finished and not passes)

    with monkeypatch.context() as patched:
        patched.setattr(target_machine, "_optimise", watched)
        ptx = made(kernel(body, [pointer(A, True), ScalarParam("n", N)])).ptx
    (finished,) = seen
    return ptx, finished


@pytest.mark.parametrize("name", FINISHED)
def test_what_the_passes_find_nothing_in_is_the_same_without_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ptx, finished = compiled(FINISHED[name], monkeypatch, passes=False)
    assert finished
    assert compiled(FINISHED[name], monkeypatch, passes=True)[0] == ptx


@pytest.mark.parametrize("name", UNFINISHED)
def test_what_the_passes_change_goes_through_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, finished = compiled(UNFINISHED[name], monkeypatch, passes=False)
    assert not finished
