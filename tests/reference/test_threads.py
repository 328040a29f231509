"""The meaning of statements refuses what has none, and takes each thread its own way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.reference.threads import Threads
from tilejit.dtypes import bool_, int32, uint32
from tilejit.ir import nodes as ir
from tilejit.layout import TileLayout

X, I = ir.Var("x", int32), ir.Var("i", int32)  # noqa: E741 - as in kernels
LANE = ir.Special("lane_id")
ZERO, ONE, FOUR = (ir.Const(n, int32) for n in (0, 1, 4))
SHARED = ir.Buffer("s", "shared", int32, (8,), TileLayout.row_major((8,)), 128)
LOCAL = ir.Buffer("r", "local", int32, (8,), TileLayout.row_major((8,)), 4)


def carried_out(*body: ir.Stmt, numbers: Sequence[int] | None = None) -> Threads:
    return Threads(ir.Kernel("k", (), 32, "sm_90a", body), {}, {}, numbers=numbers)


def less(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return ir.Op("less", (a, b), bool_)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ((ir.Declare(X, None), ir.Assign(X, X)), "x has no value"),
        ((ir.If(less(LANE, FOUR), (ir.Let(X, ONE),)), ir.Assign(X, X)), "x has no value"),
        ((ir.Let(ir.Var("x", int32, 4), ONE),), "x"),
        ((ir.Let(ir.Var("x", int32, 1, (2, 3)), ONE),), "x"),
        ((ir.Let(X, less(ONE, FOUR)),), "bool_, not int32"),
        ((ir.Let(X, ir.Op("add", (ONE, ir.Cast(ONE, bool_)), int32)),), "mixes"),
        ((ir.Alloc(SHARED), ir.Store(ir.Vector(SHARED, LANE), ONE)), "leaves the buffer"),
        ((ir.Alloc(SHARED), ir.Store(ir.Element(SHARED, (LANE,)), ONE)), "leaves the buffer"),
        ((ir.Alloc(SHARED), ir.Move(ir.Vector(LOCAL, ZERO, 2), ir.Vector(SHARED, ONE, 2))), "misaligned"),
        ((ir.Loop((ir.Let(X, ONE),)),), "doesn't end"),
        ((ir.Assert(less(LANE, FOUR), "few lanes"),), "few lanes"),
        ((ir.TileOp("fill", "warp", ()),), "can't carry out"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_has_no_meaning_is_refused(body: tuple[ir.Stmt, ...], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        carried_out(ir.Alloc(LOCAL), *body)


def test_each_thread_leaves_a_loop_in_its_own_turn() -> None:
    sync = ir.Sync("warp")
    leaves = (
        ir.If(less(LANE, I), (ir.Break(),)),
        ir.If(ir.Op("equal", (I, ONE), bool_), (ir.Continue(),)),
        ir.If(ir.Op("equal", (LANE, FOUR), bool_), (ir.Return(),)),
    )
    loop = ir.For(I, ZERO, FOUR, ONE, (*leaves, ir.Assign(X, ir.Op("add", (X, ONE), int32)), sync))
    threads = carried_out(ir.Declare(X, ZERO), loop, ir.Sync("cta"), numbers=(0, 1, 3, 4))
    assert threads.values["x"].tolist() == [1, 1, 3, 0]
    assert [[scope for scope, _ in came] for came in threads.barriers] == [
        ["warp", "cta"], ["warp", "cta"], ["warp"] * 3 + ["cta"], [],
    ]


def test_an_element_of_a_thread_lies_where_the_layout_says() -> None:
    layout = TileLayout.from_iters([(2, 1, "m"), (4, 2, "m")])
    place = ir.Element(ir.Buffer("r", "local", int32, (2, 4), layout, 4), (ONE, ONE))
    threads = carried_out(ir.Alloc(place.buffer), ir.Store(place, LANE), numbers=(5,))
    assert np.flatnonzero(threads.registers["r"][0]).tolist() == [3]


def test_atomic_updates_come_one_after_another() -> None:
    before = ir.Var("before", int32)
    place, shared = ir.Vector(SHARED, ONE), ir.Alloc(SHARED)
    made = carried_out(shared, ir.Atomic("add", place, (ONE,), var=before))
    assert list(made.values["before"]) == list(range(32)) and made.memory["s"][1] == 32
    made = carried_out(shared, ir.Atomic("cas", place, (ZERO, FOUR), var=before))
    assert list(made.values["before"]) == [0] + [4] * 31


def test_lanes_exchange_what_they_hold() -> None:
    taken, votes = ir.Var("taken", int32), ir.Var("votes", uint32)
    made = carried_out(
        ir.Instruction("shfl.up", (), (LANE, FOUR), var=taken),
        ir.Instruction("vote.ballot", (), (less(LANE, FOUR),), var=votes),
    )
    assert list(made.values["taken"]) == [*range(4), *range(28)]
    assert set(made.values["votes"]) == {15}
    with pytest.raises(AssertionError, match="a part of a warp"):
        carried_out(ir.If(less(LANE, FOUR), (ir.Instruction("vote.any", (), (less(LANE, FOUR),), var=X),)))
