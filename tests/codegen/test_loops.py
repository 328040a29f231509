"""What a loop's turns don't change is written before the loop, and what they share once."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilejit as tj
from tests.codegen.devices import Simulator
from tests.support.lane_kernels import THREAD, array, const, kernel, local, pointer
from tilejit.codegen import generate
from tilejit.codegen.debug import LineTable
from tilejit.codegen.writer import Writer
from tilejit.dtypes import DTYPES, DType, float32, int32, int64
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import (
    Alloc,
    Assign,
    Declare,
    For,
    Let,
    Load,
    Move,
    Stmt,
    Store,
    Var,
    Vector,
)
from tilejit.ir.params import (
    ScalarParam,
)
from tilejit.target import target


def test_an_intrinsic_is_pure_and_a_function_of_ours_is_not_taken_for_one() -> None:
    w = Writer(LineTable("k", None))
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
    return text[text.index("\nbody") : text.index("\nendfor")]


def test_the_invariant_part_of_an_address_is_added_before_the_loop() -> None:
    turn = Var("turn", int32, bounds=(0, 15))
    at = build.add(build.mul(build.cast(THREAD, int64), N), build.cast(turn, int64))
    x = Var("x", float32)
    copy = (Let(x, Load(Vector(A, at, 1))), Store(Vector(B, at, 1), x))
    text = llvm_ir([For(turn, const(0), const(16), const(1), copy)])
    assert "mul" not in loop_of(text) and "mul i64" in text
    assert loop_of(text).count("getelementptr") == 2, "one for each array, by what the turn adds"


def test_a_name_for_a_sum_that_turns_change_in_part_is_added_in_parts() -> None:
    turn, place = Var("turn", int32, bounds=(0, 15)), Var("place", int64)
    total, x = build.add(build.cast(turn, int64), build.mul(build.cast(THREAD, int64), N)), Var("x", float32)
    copy = (Let(place, total), Let(x, Load(Vector(A, place, 1))), Store(Vector(B, place, 1), x))
    text = llvm_ir([For(turn, const(0), const(16), const(1), copy)])
    assert loop_of(text).count("getelementptr") == 2 and "add i64" not in loop_of(text)


def test_an_expression_of_a_variable_that_changes_is_evaluated_anew() -> None:
    x, turn = Var("x", int32), Var("turn", int32, bounds=(0, 1))
    store = Store(Vector(B, build.cast(build.bitwise_xor(x, 3), int64), 1), build.const(1.0, float32))
    loop = For(turn, const(0), const(2), const(1), (store, Assign(x, build.add(x, 5))), unrolled=True)
    text = llvm_ir([Declare(x, THREAD), loop])
    assert len(set(re.findall(r"xor i32 (%\d+), 3", text))) == 2


def test_a_name_that_unrolled_turns_define_is_another_value_in_each() -> None:
    turn, y = Var("turn", int32, bounds=(0, 2)), Var("y", int32)
    store = Store(Vector(B, build.cast(build.bitwise_xor(y, THREAD), int64), 1), build.const(1.0, float32))
    body = (Let(y, build.add(turn, 4)), store)
    text = llvm_ir([For(turn, const(0), const(3), const(1), body, unrolled=True)])
    assert sorted(set(re.findall(r"xor i32 %\d+, (\d)", text))) == ["4", "5", "6"]


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


def test_a_vector_in_local_memory_is_no_better_aligned_than_the_view_that_it_is_of() -> None:
    n, turn = Var("n", int32, bounds=(0, 15)), Var("turn", int32, bounds=(0, 3))
    element = Var("element", int32, bounds=(0, 63))
    tile, registers, x = local("t", float32, 64), local("r", float32, 4), Var("x", float32)
    fill = (Let(x, Load(Vector(A, build.cast(element, int64)))), Store(Vector(tile, element), x))
    out = Vector(B, build.cast(build.mul(turn, 4), int64), 4)
    copy = (
        Move(Vector(registers, const(0), 4), Vector(tile, build.total([n, build.mul(turn, 4)], int32), 4)),
        Move(out, Vector(registers, const(0), 4)),
    )
    body: list[Stmt] = [
        Alloc(tile, addressed=True), Alloc(registers), For(element, const(0), const(64), const(1), fill),
        For(turn, const(0), const(4), const(1), copy),
    ]
    made = kernel(body, [pointer(A), pointer(B, written=True), ScalarParam("n", n)], threads=1)
    a, b = np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32)
    Simulator().run(made, [a, b, np.int32(3)])
    assert b[:16].tolist() == a[3:19].tolist()


def test_variables_that_iterations_swap_skip_and_leave_unchanged() -> None:
    """In Python and compiled: loops of no, one and many turns, `continue` and `break` in branches of loops in loops."""

    def walk(A: tj.Tensor, n: tj.int32, m: tj.int32):
        a, b, last, skipped = 0, 1, -1, 0
        for i in range(n):
            a, b = b, (a + b) % 1000
            if i % 3 == 1:
                skipped += i
                continue
            for j in range(i, m):
                if j > i + 2:
                    if j % 2 == 0:
                        break
                    skipped += 1
                    continue
                last = j
            if a > 900:
                last += 1000
                break
            b += 1
        k = n
        while k > 0:
            k -= 1
            if k == 2:
                break
            a, last = last, a
        A[0] = a
        A[1] = b
        A[2] = last
        A[3] = skipped
        A[4] = k

    compiled = tj.kernel(threads=1)(walk)
    for n in (0, 1, 2, 3, 7, 30):
        for m in (0, 4, 40):
            expected, seen = [0] * 5, np.zeros(5, np.int32)
            walk(expected, n, m)  # type: ignore[arg-type]
            with tj.use_device("sim:sm_90a"):
                compiled[1](seen, n, m)
            assert seen.tolist() == expected, (n, m)


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2, -3])
@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.is_integer], ids=str)
def test_a_loop_to_the_end_of_its_type_counts_as_pythons(dtype: DType, step: int) -> None:
    """Constant ends at and beside the end of the type, which the index must not pass."""
    low, high = int(np.iinfo(dtype.numpy).min), int(np.iinfo(dtype.numpy).max)

    @tj.kernel(threads=8)
    def count(out: tj.Tensor, starts: tj.Tensor, stop: tj.constexpr, step: tj.constexpr) -> None:
        number = 0
        for _ in range(starts[tj.thread_id()], stop, step):
            number += 1
            if number > 20:
                break
        out[tj.thread_id()] = number

    for beside in range(abs(step) + 1):
        stop = high - beside if step > 0 else low + beside
        starts = [stop - distance if step > 0 else stop + distance for distance in range(8)]
        out = np.zeros(8, np.int32)
        with tj.use_device("sim"):
            count[1](out, np.array(starts, dtype.numpy), stop, step)
        assert out.tolist() == [len(range(start, stop, step)) for start in starts], (stop, step)
