"""Loop-invariant code moves before its loop; comparisons, divisions and loads stay."""

from __future__ import annotations

import pytest

from tests.support.goldens import ROOT, Golden, joined, read
from tests.support.lane_kernels import THREAD, array, const, local, pointer, shared
from tilejit.dataclass import replace
from tilejit.dtypes import float32, int32, int64
from tilejit.ir import walk
from tilejit.ir.arithmetic import build
from tilejit.ir.arithmetic.facts import bounds, multiple_of
from tilejit.ir.nodes import (
    Alloc,
    Assign,
    Buffer,
    BufferView,
    Declare,
    Expr,
    For,
    If,
    Instruction,
    Kernel,
    Let,
    Load,
    Loop,
    Move,
    Special,
    Stmt,
    Store,
    Var,
    Vector,
)
from tilejit.ir.params import ScalarParam
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import expr_text, to_text
from tilejit.ir.verify import verify
from tilejit.lower.passes.hoist import hoist
from tilejit.lower.passes.split_offsets import split_offsets

A, R, T = array("a", float32, 4096), local("r", float32, 4), shared("t", float32, 4096)
N = Var("n", int32, bounds=(1, 1000))
CTA = Special("cta_id.0")
TURN, INNER = Var("turn", int32, bounds=(0, 15)), Var("inner", int32, bounds=(0, 15))
X, Y = Var("x", int32), Var("y", int32)


@pytest.mark.parametrize("name", sorted(file.name for file in (ROOT / "hoist").iterdir()))
def test_invariant_code_moves_before_loops(name: str, golden: Golden) -> None:
    arch, lane, _ = read(f"hoist/{name}")
    kernel = from_text(lane)
    made = hoist(kernel)
    assert verify(kernel, "lane") == [] == verify(made, "lane") and from_text(to_text(made)) == made
    golden.check(f"hoist/{name}", joined(arch, lane, to_text(made)))


def loop(var: Var, *body: Stmt) -> For:
    return For(var, const(0), const(16), const(1), body)


def kernel(*body: Stmt) -> Kernel:
    params = (pointer(A, written=True), ScalarParam("n", N))
    return Kernel("k", params, 128, "sm_90", (Alloc(R), Declare(X, const(0)), *body))


def hoisted(*body: Stmt) -> tuple[Stmt, ...]:
    made = hoist(kernel(*body))
    assert verify(made, "lane") == []
    return made.body[2:]


def keep(value: Expr) -> Stmt:
    """A statement that stays where it is."""
    return Assign(X, value)


def text(stmt: Stmt) -> str:
    assert isinstance(stmt, (Let, Assign))
    return expr_text(stmt.value, stmt.var.dtype)


def test_an_invariant_part_is_a_variable_before_the_loop() -> None:
    part, whole = hoisted(loop(TURN, keep(build.add(build.mul(THREAD, N), TURN))))
    assert isinstance(part, Let) and text(part) == "%thread_id * n"
    assert isinstance(whole, For) and [text(stmt) for stmt in whole.body] == [f"{part.var.name} + turn"]


def test_in_nested_loops_each_part_moves_before_the_outermost_that_leaves_it_unchanged() -> None:
    total = build.total([INNER, build.mul(TURN, 3), build.mul(N, 5), const(7)], int32)
    outside, outer = hoisted(loop(TURN, loop(INNER, keep(total))))
    assert isinstance(outer, For) and text(outside) == "n * 5"
    between, inner = outer.body
    assert isinstance(inner, For) and text(between) == f"{outside.var.name} + turn * 3"  # type: ignore[union-attr]
    assert [text(stmt) for stmt in inner.body] == [f"{between.var.name} + inner + 7"]  # type: ignore[union-attr]


@pytest.mark.parametrize("with_another", [False, True])
def test_a_number_of_the_cta_and_one_of_the_thread_are_added_with_a_third(with_another: bool) -> None:
    """One instruction adds three numbers; further ones are summed before the loop."""
    terms: list[Expr] = [build.cast(CTA, int32), THREAD, *([N] if with_another else []), TURN]
    *outside, whole = hoisted(loop(TURN, keep(build.total(terms, int32))))
    sums = ["int32(%cta_id.0) + %thread_id + n"] if with_another else ["int32(%cta_id.0)", "%thread_id"]
    assert [text(stmt) for stmt in outside] == sums
    names = [stmt.var.name for stmt in outside]  # type: ignore[union-attr]
    assert isinstance(whole, For) and text(whole.body[0]) == " + ".join([*names, "turn"])


def test_a_variable_in_a_branch_moves_too_and_one_that_reads_what_may_change_stays() -> None:
    moved, stays = Let(Y, build.mul(N, 3)), Let(Var("z", int32), build.mul(X, 3))
    first, whole = hoisted(loop(TURN, If(build.less(TURN, 3), (moved, stays, keep(Y)))))
    assert first == moved
    assert isinstance(whole, For) and isinstance(whole.body[0], If) and whole.body[0].then == (stays, keep(Y))


@pytest.mark.parametrize(
    "value",
    [
        build.cast(build.less(N, 3), int32), build.floordiv(const(100), N), build.mod(const(100), N),
        build.cast(Load(Vector(R, const(0))), int32), build.cast(build.cast(N, float32), int32), build.mul(X, 3),
    ],
    ids=["comparison", "quotient", "remainder", "load", "float", "variable"],
)
def test_what_stays_in_a_loop(value: Expr) -> None:
    body = loop(TURN, keep(build.add(build.bitwise_xor(value, TURN), 1)))
    assert hoisted(body) == (body,)


def test_a_quotient_by_a_positive_constant_moves() -> None:
    part, _ = hoisted(Loop((keep(build.add(X, build.floordiv(N, 3))),)))
    assert text(part) == "n // 3"


def test_a_comparison_keeps_the_constant_that_is_added_to_what_it_compares() -> None:
    """The constant becomes a part of the comparison, so that all iterations of an unrolled loop share one register."""
    stored = Store(Vector(R, const(0)), const(1.0, float32))
    part, whole = hoisted(loop(TURN, If(build.less(build.add(build.mul(N, 3), 5), TURN), (stored,))))
    assert isinstance(whole, For) and isinstance(whole.body[0], If)
    assert text(part) == "n * 3" and expr_text(whole.body[0].cond) == f"{part.var.name} + 5 < turn"  # type: ignore[union-attr]


def test_a_variable_in_front_knows_what_is_known_of_its_value() -> None:
    value = build.mul(N, 8)
    part, _ = hoisted(loop(TURN, keep(build.bitwise_xor(value, TURN))))
    assert isinstance(part, Let)
    assert (part.var.bounds, part.var.multiple_of) == (bounds(value), multiple_of(value)) == ((8, 8000), 8)


def test_equal_parts_are_one_variable() -> None:
    value = build.mul(N, 8)
    made = hoisted(loop(TURN, keep(build.bitwise_xor(value, TURN)), keep(build.bitwise_or(value, TURN))))
    assert [type(stmt) for stmt in made] == [Let, For]


def test_views_move_and_those_of_two_branches_become_one() -> None:
    place = build.cast(THREAD, int64)
    store = Store(Vector(A, build.add(build.mul(place, 4), build.cast(TURN, int64))), const(1.0, float32))
    made = hoist(split_offsets(kernel(loop(TURN, If(build.less(TURN, 3), (store,), (store,))))))
    assert verify(made, "lane") == []
    *_, view, whole = made.body
    assert isinstance(view, BufferView) and isinstance(whole, For) and isinstance(whole.body[0], If)
    assert [stmt.place.buffer for stmt in (*whole.body[0].then, *whole.body[0].orelse)] == [view.buffer] * 2  # type: ignore[union-attr]


def loaded(buffer: Buffer) -> Move:
    """A move from an invariant offset plus one that depends on the iteration."""
    return Move(Vector(R, const(0), 4), Vector(buffer, build.add(build.mul(THREAD, 4), build.mul(TURN, 64)), 4))


@pytest.mark.parametrize("defined", [Alloc(T), BufferView(replace(T, name="v", base=T))], ids=["alloc", "view"])
def test_a_view_does_not_move_before_its_base(defined: Alloc | BufferView) -> None:
    before = () if isinstance(defined, Alloc) else (Alloc(T),)
    turn = loop(TURN, If(build.less(TURN, 3), (defined, loaded(defined.buffer))))
    made = hoist(split_offsets(kernel(*before, turn)))
    assert verify(made, "lane") == []
    *_, again, view, whole = made.body
    assert again == defined and isinstance(view, BufferView) and view.buffer.base == defined.buffer
    assert isinstance(whole, For)


def test_views_of_two_views_that_become_one_are_of_that_one() -> None:
    first = replace(T, name="first", base=T, offset=build.mul(THREAD, 4), align=16)
    branches: list[tuple[Stmt, ...]] = []
    for start in (first, replace(first, name="second")):
        view = replace(start, name=f"{start.name}.view", base=start, offset=None)
        place = Vector(view, build.mul(TURN, 64), 4)
        branches.append((BufferView(start), BufferView(view), Move(Vector(R, const(0), 4), place)))
    made = hoist(kernel(Alloc(T), loop(TURN, If(build.less(TURN, 3), branches[0], branches[1]))))
    assert verify(made, "lane") == []
    views = [stmt.buffer for stmt in walk.each(made.body, BufferView)]
    assert {view.name: view.base.name for view in views if view.base is not None} == {
        "first": "t", "first.view": "first", "second.view": "first",
    }


def test_an_instruction_fills_registers_by_a_sum_that_is_no_longer_defined() -> None:
    at = Var("at", int32)
    tile, place = local("q", float32, 2048), Vector(T, build.mul(THREAD, 4), 4)
    fill = Instruction("ldmatrix.x4", (Vector(tile, at, 4),), (place,))
    made = hoist(kernel(Alloc(T), Alloc(tile, addressed=True), loop(TURN, Let(at, build.add(N, TURN)), fill)))
    assert verify(made, "lane") == []
    (filled,) = [stmt.outputs[0].offset for stmt in walk.each(made.body, Instruction)]
    assert expr_text(filled) == "n + turn"


def test_what_holds_of_a_variable_in_a_branch_is_not_said_where_others_need_its_value() -> None:
    value = build.mul(N, 3)
    few = Var("few", int32, multiple_of=12, bounds=(0, 36))
    branch = If(build.less(TURN, 3), (Let(few, value), keep(build.bitwise_xor(few, TURN))))
    made = hoisted(loop(TURN, branch, keep(build.bitwise_or(value, TURN))))
    first, other, whole = made
    assert first == Let(few, value)
    assert isinstance(other, Let) and (other.var.bounds, other.var.multiple_of) == ((3, 3000), 3)
    assert isinstance(whole, For) and text(whole.body[1]) == f"{other.var.name} | turn"


def test_a_kernel_without_loops_stays() -> None:
    plain = kernel(keep(build.add(X, N)))
    assert hoist(plain) is plain


def test_statements_that_stay_as_they_are_are_the_same_objects() -> None:
    body = Move(Vector(R, const(0), 4), Vector(A, build.const(0, int64), 4))
    made = hoisted(loop(TURN, body))
    assert isinstance(made[0], For) and made[0].body[0] is body
    assert len(walk.statements(made)) == 2
