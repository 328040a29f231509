"""What a loop's turns don't change is written before the loop."""

from __future__ import annotations

import re

import numpy as np

import tilejit as tj
from tests.support.lane_kernels import THREAD, array, const, kernel, pointer
from tilejit.codegen import generate
from tilejit.codegen.debug import LineTable
from tilejit.codegen.writer import Writer
from tilejit.dtypes import float32, int32, int64
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import (
    Assign,
    Declare,
    For,
    Let,
    Load,
    Stmt,
    Store,
    Var,
    Vector,
)
from tilejit.ir.params import (
    ScalarParam,
)
from tilejit.target import target


def writer() -> Writer:
    return Writer(LineTable("k", None))


def in_a_loop(w: Writer, head: str = "loop") -> str:
    """Enters a loop; returns a value that changes with its turns."""
    w.enter_loop(head)
    w.start(head, w.available(), loops=True)
    return w.fresh("phi i32 [ 0, %entry ], [ %next, %loop ]")


def test_a_value_that_no_turn_changes_stands_before_the_jump_into_the_loop() -> None:
    w = writer()
    outside = w.value("add i32 %p0, 1")
    index = in_a_loop(w)
    twice = w.value(f"mul i32 {outside}, 2")
    both = w.value(f"add i32 {twice}, {index}")
    w.jump("loop")
    w.start("after", w.leave_loop(w.available()))
    assert w.lines() == [
        f"  {outside} = add i32 %p0, 1",
        f"  {twice} = mul i32 {outside}, 2",
        "  br label %loop",
        "loop:",
        f"  {index} = phi i32 [ 0, %entry ], [ %next, %loop ]",
        f"  {both} = add i32 {twice}, {index}",
        "  br label %loop",
        "after:",
    ]


def test_in_nested_loops_a_value_stands_before_the_outermost_that_does_not_change_it() -> None:
    w = writer()
    outer = in_a_loop(w, "outer")
    inner = in_a_loop(w, "inner")
    w.value("add i32 %p0, 1")
    w.value(f"add i32 {outer}, 1")
    w.value(f"add i32 {inner}, 1")
    w.jump("inner")
    w.start("between", w.leave_loop(w.available()))
    w.jump("outer")
    w.start("after", w.leave_loop(w.available()))
    text = "\n".join(w.lines())
    order = ["add i32 %p0, 1", "%outer\n", f"add i32 {outer}, 1", "%inner\n", f"add i32 {inner}, 1"]
    assert [text.index(x) for x in order] == sorted(text.index(x) for x in order)


def test_what_stands_before_a_loop_is_available_in_all_of_it_and_behind_it() -> None:
    w = writer()
    w.enter_loop("loop")
    before = w.available()
    w.start("loop", before, loops=True)
    w.branch("%c", "then", "else")
    w.start("then", w.available())
    first = w.value("shl i32 %p0, 3")
    w.jump("else")
    w.start("else", before)
    assert w.value("shl i32 %p0, 3") == first
    w.jump("loop")
    w.start("after", w.leave_loop(before))
    assert w.value("shl i32 %p0, 3") == first
    assert "\n".join(w.lines()).count("shl i32 %p0, 3") == 1


def test_comparisons_divisions_and_what_has_effects_stay_in_the_loop() -> None:
    w = writer()
    in_a_loop(w)
    for text in ("icmp slt i32 %p0, 3", "udiv i32 %p0, %p1", "urem i32 %p0, %p1", "load i32, ptr %p2"):
        w.value(text)
    w.call("float", "tj.exp.f32", ("float", "%p3"))
    lines = w.lines()
    assert all(lines.index(line) > lines.index("loop:") for line in lines if "= " in line)


def test_an_intrinsic_is_pure_and_a_function_of_ours_is_not_taken_for_one() -> None:
    w = writer()
    assert w.intrinsic("i32", "llvm.smin.i32", ("i32", "%a"), ("i32", "%b")) == w.intrinsic(
        "i32", "llvm.smin.i32", ("i32", "%a"), ("i32", "%b")
    )
    assert w.intrinsic("i32", "vprintf", ("ptr", "%a")) != w.intrinsic("i32", "vprintf", ("ptr", "%a"))


A, B = array("a", float32, 4096), array("b", float32, 4096)
N = Var("n", int64)


def llvm_ir(body: list[Stmt]) -> str:
    params = [pointer(A), pointer(B, written=True), ScalarParam("n", N)]
    return generate(kernel(body, params), target("sm_90a")).llvm_ir


def loop_of(text: str) -> str:
    """The lines of the loop's body."""
    return text[text.index("\nbody") : text.index("\nnext")]


def test_the_part_of_an_address_that_no_turn_changes_is_added_before_the_loop() -> None:
    turn = Var("turn", int32, bounds=(0, 15))
    at = build.add(build.mul(build.cast(THREAD, int64), N), build.cast(turn, int64))
    copy = Store(Vector(B, at, 1), Load(Vector(A, at, 1)))
    text = llvm_ir([For(turn, const(0), const(16), const(1), (copy,))])
    assert "mul" not in loop_of(text) and "mul i64" in text
    assert loop_of(text).count("getelementptr") == 2, "one for each array, by what the turn adds"


def test_a_name_for_a_sum_that_turns_change_in_part_is_added_in_parts() -> None:
    turn, place = Var("turn", int32, bounds=(0, 15)), Var("place", int64)
    total = build.add(build.cast(turn, int64), build.mul(build.cast(THREAD, int64), N))
    copy = (Let(place, total), Store(Vector(B, place, 1), Load(Vector(A, place, 1))))
    text = llvm_ir([For(turn, const(0), const(16), const(1), copy)])
    assert loop_of(text).count("getelementptr") == 2 and "add i64" not in loop_of(text)


def test_an_expression_of_a_variable_that_changes_is_evaluated_anew() -> None:
    x, turn = Var("x", int32), Var("turn", int32, bounds=(0, 1))
    store = Store(Vector(B, build.cast(build.bitwise_xor(x, 3), int64), 1), build.const(1.0, float32))
    loop = For(turn, const(0), const(2), const(1), (store, Assign(x, build.add(x, 5))), unrolled=True)
    text = llvm_ir([Declare(x, THREAD), loop])
    assert len(set(re.findall(r"xor i32 (%v\d+), 3", text))) == 2


def test_a_name_that_unrolled_turns_define_is_another_value_in_each() -> None:
    turn, y = Var("turn", int32, bounds=(0, 2)), Var("y", int32)
    store = Store(Vector(B, build.cast(build.bitwise_xor(y, THREAD), int64), 1), build.const(1.0, float32))
    body = (Let(y, build.add(turn, 4)), store)
    text = llvm_ir([For(turn, const(0), const(3), const(1), body, unrolled=True)])
    assert sorted(set(re.findall(r"xor i32 %v\d+, (\d)", text))) == ["4", "5", "6"]


def test_an_index_that_wraps_around_in_32_bits_is_whole_before_it_becomes_an_address() -> None:
    def reader(A: tj.Tensor, X: tj.Tensor, a: tj.int32):
        s = tj.alloc_shared((8,), tj.int32)
        for i in tj.static_range(8):
            s[i] = i * 10
        for j in range(4):
            A[j] = s[a + X[j]]
        A[4] = s[a + (-2147483648) + 3]

    a, x = np.zeros(5, np.int32), np.full(4, -(2**31), np.int32) + np.arange(4, dtype=np.int32)
    with tj.use_device("sim:sm_90a"):
        tj.kernel(threads=1)(reader)[1](a, x, -(2**31))
    assert a.tolist() == [0, 10, 20, 30, 30]
