"""Offsets are split by the loops in which their terms change: into views, what changes most often, and a constant."""

from __future__ import annotations

import pytest

from tests.support.example_sizes import EXAMPLES
from tests.support.goldens import ROOT, Golden, joined, read
from tests.support.lane_kernels import array, const, local, pointer, shared
from tilejit.dtypes import float32, int32, int64
from tilejit.ir import walk
from tilejit.ir.arithmetic import build
from tilejit.ir.arithmetic.facts import full_range
from tilejit.ir.nodes import (
    Alloc,
    BufferView,
    Expr,
    For,
    If,
    Instruction,
    Kernel,
    Let,
    Move,
    Op,
    Special,
    Stmt,
    Var,
    Vector,
)
from tilejit.ir.params import ScalarParam
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import expr_text, to_text
from tilejit.ir.verify import verify
from tilejit.lower.passes.split_offsets import split_offsets

A, S, R = array("a", float32, 4096), shared("s", float32, 4096), local("r", float32, 4)
N, M = Var("n", int64), Var("m", int64)
TURN, INNER = Var("turn", int64, bounds=(0, 15)), Var("inner", int64, bounds=(0, 15))
THREAD = build.cast(Special("thread_id"), int64)


@pytest.mark.parametrize("name", sorted(file.name for file in (ROOT / "split_offsets").iterdir()))
def test_offsets_are_split(name: str, golden: Golden) -> None:
    arch, lane, _ = read(f"split_offsets/{name}")
    kernel = from_text(lane)
    made = split_offsets(kernel)
    assert verify(kernel, "lane") == [] == verify(made, "lane") and from_text(to_text(made)) == made
    golden.check(f"split_offsets/{name}", joined(arch, lane, to_text(made)))


def split(*body: Stmt) -> tuple[Stmt, ...]:
    """What the statements become, in the order of the text, without loops."""
    params = (pointer(A, written=True), ScalarParam("n", N), ScalarParam("m", M))
    made = split_offsets(Kernel("k", params, 128, "sm_90", (Alloc(S), Alloc(R), *body)))
    assert verify(made, "lane") == []
    return tuple([stmt for stmt in walk.statements(made.body)[2:] if not isinstance(stmt, For)])


def load(offset: Expr) -> Move:
    return Move(Vector(R, const(0), 4), Vector(A, offset, 4))


def loop(var: Var, *body: Stmt) -> For:
    return For(var, build.const(0, var.dtype), build.const(16, var.dtype), build.const(1, var.dtype), body)


def shown(stmts: tuple[Stmt, ...]) -> list[str]:
    """The views as what they add to which base, and the moves as what is left of their source."""
    lines = []
    for stmt in stmts:
        if isinstance(stmt, BufferView):
            assert stmt.buffer.base is not None and stmt.buffer.offset is not None
            lines.append(f"{stmt.buffer.name} = {stmt.buffer.base.name} + {expr_text(stmt.buffer.offset, int64)}")
        elif isinstance(stmt, Move):
            lines.append(f"{stmt.src.buffer.name}[{expr_text(stmt.src.offset, int64)}]")
    return lines


def test_the_terms_of_outer_loops_come_first_and_the_constant_stays_with_the_access() -> None:
    offset = build.total([INNER, build.mul(TURN, N), THREAD, build.const(64, int64)], int64)
    made = shown(split(loop(TURN, loop(INNER, load(offset)))))
    assert made == ["a.0 = a + int64(%thread_id)", "a.1 = a.0 + turn * n", "a.1[inner + 64]"]


def test_accesses_share_the_view_of_what_they_have_in_common() -> None:
    offsets = [build.total([THREAD, M, build.mul(N, k)], int64) for k in (1, 2, 3)]
    made = shown(split(*map(load, offsets)))
    assert made == ["a.0 = a + int64(%thread_id) + m", "a.0[n]", "a.0[n * 2]", "a.0[n * 3]"]


def test_a_view_of_a_branch_is_not_used_after_it() -> None:
    offset = build.total([THREAD, M], int64)
    both = (build.less(N, 4), (load(offset),), (load(offset),))
    made = shown(split(If(*both), load(offset)))
    assert len([line for line in made if " = " in line]) == 3


def test_a_variable_that_is_a_sum_of_two_loops_is_split_where_it_is_used() -> None:
    place = Var("place", int64)
    made = shown(split(loop(TURN, Let(place, build.total([THREAD, TURN], int64)), load(build.add(place, 8)))))
    assert made == ["a.0 = a + int64(%thread_id)", "a.0[turn + 8]"]


def test_an_access_and_an_instruction_that_takes_the_address_share_a_view() -> None:
    turn, thread = Var("turn", int32, bounds=(0, 15)), Special("thread_id")
    place = Vector(S, build.add(build.mul(thread, 4), build.mul(turn, 64)), 4)
    taken = Instruction("ldmatrix.x4", (Vector(R, const(0), 4),), (place,))
    made = split(loop(turn, Move(Vector(R, const(0), 4), place), taken))
    (view,) = [stmt.buffer for stmt in made if isinstance(stmt, BufferView)]
    assert [stmt.src.buffer for stmt in made if isinstance(stmt, Move)] == [view]
    assert [place.buffer for stmt in made if isinstance(stmt, Instruction) for place in stmt.places] == [view]


def test_a_sum_that_may_wrap_around_in_32_bits_stays_whole() -> None:
    turn, a = Var("turn", int32), Var("a", int32, bounds=full_range(int32))
    offset = build.add(a, turn)
    made = split(Let(a, build.cast(N, int32)), loop(turn, Move(Vector(R, const(0), 1), Vector(S, offset))))
    assert [stmt.src for stmt in made if isinstance(stmt, Move)] == [Vector(S, offset)]


def test_a_sum_whose_parts_may_wrap_around_in_32_bits_stays_whole() -> None:
    """From the left none does: what the loop changes is far below zero, and is between two large terms."""
    turn = Var("turn", int32, bounds=(8, 16))
    a, b = (Var(name, int32, bounds=(2**30, 2**30 + 9)) for name in "ab")
    offset = Op("add", (Op("add", (a, build.mul(turn, -(2**27))), int32), b), int32)
    lets = [Let(var, build.cast(N, int32)) for var in (a, b)]
    made = split(*lets, loop(turn, Move(Vector(R, const(0), 1), Vector(S, offset))))
    assert [stmt.src for stmt in made if isinstance(stmt, Move)] == [Vector(S, offset)]


def test_a_kernel_with_nothing_to_split_stays() -> None:
    plain = Kernel("k", (pointer(A),), 128, "sm_90", (Alloc(R), loop(TURN, load(TURN))))
    assert split_offsets(plain) is plain


@pytest.mark.parametrize("name", ["attention causal 128", "gemm_hopper.gemm", "sum_columns", "matmul"])
def test_what_is_compiled_of_an_example_is_sound_with_views(name: str) -> None:
    made = EXAMPLES[name]().derivation.lane
    assert verify(made, "lane") == []
    assert any(isinstance(s, BufferView) and s.buffer.offset is not None for s in walk.statements(made.body))
