"""Unrolled loops are written out: each iteration with its constants, and with separate names for what it defines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.example_sizes import EXAMPLES
from tests.support.goldens import ROOT, Golden, joined, read
from tests.support.lane_kernels import array, const, local, pointer, unrolled
from tilejit.dtypes import float32, int32, int64
from tilejit.ir import walk
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    BufferView,
    Declare,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Move,
    Special,
    Stmt,
    Store,
    Var,
    Vector,
)
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import to_text
from tilejit.ir.verify import verify
from tilejit.lower.passes.unroll import unroll_loops

TURN = Var("turn", int32, bounds=(0, 3))
A, R = array("a", float32, 4096), local("r", float32, 4)
THREAD = Special("thread_id")
PLACE = build.cast(build.add(THREAD, build.mul(TURN, 128)), int64)


@pytest.mark.parametrize("name", sorted(file.name for file in (ROOT / "unroll").iterdir()))
def test_loops_are_written_out(name: str, golden: Golden) -> None:
    arch, lane, _ = read(f"unroll/{name}")
    kernel = from_text(lane)
    made = unroll_loops(kernel)
    assert verify(kernel, "lane") == [] == verify(made, "lane") and from_text(to_text(made)) == made
    golden.check(f"unroll/{name}", joined(arch, lane, to_text(made)))


def kernel(*body: Stmt) -> Kernel:
    return Kernel("k", (pointer(A, written=True),), 128, "sm_90", body)


def turns(*body: Stmt) -> tuple[Stmt, ...]:
    """What four turns become, in which `outside` may be assigned."""
    made = unroll_loops(kernel(Alloc(R), Declare(Var("outside", int32), const(0)), unrolled(TURN, 4, *body)))
    assert verify(made, "lane") == []
    return made.body[2:]


@pytest.mark.parametrize("name", ["attention causal 128", "gemm_hopper.gemm", "softmax_of_unaligned_rows", "matmul"])
def test_what_is_compiled_of_an_example_is_sound_and_has_no_unrolled_loop(name: str) -> None:
    made = EXAMPLES[name]().derivation.lane
    assert verify(made, "lane") == []
    assert not any(isinstance(stmt, For) and stmt.unrolled for stmt in walk.statements(made.body))


def test_a_kernel_without_unrolled_loops_stays() -> None:
    rolled = kernel(For(TURN, const(0), const(4), const(1), (Store(Vector(A, PLACE), const(1.0, float32)),)))
    assert unroll_loops(rolled) is rolled


def test_a_move_that_happens_in_any_case_has_no_predicate() -> None:
    def moved(limit: int, otherwise: Expr | None) -> tuple[Stmt, ...]:
        return turns(Move(Vector(R, TURN), Vector(A, PLACE), build.less(TURN, limit), otherwise))

    sure, _, filled, _ = moved(2, const(2.0, float32))
    assert sure == Move(Vector(R, const(0)), Vector(A, build.cast(THREAD, int64)))
    assert filled == Store(Vector(R, const(2)), const(2.0, float32))
    assert len(moved(3, None)) == 3, "the last doesn't happen"


def test_a_branch_that_an_iteration_decides_is_one_of_its_sides() -> None:
    one, other = (Store(Vector(R, TURN), const(value, float32)) for value in (1.0, 2.0))
    made = turns(If(build.equal(TURN, 1), (one,), (other,)))
    assert [stmt.value.value for stmt in made] == [2.0, 1.0, 2.0, 2.0]  # type: ignore[union-attr]


def test_definitions_have_another_name_in_each_iteration() -> None:
    x, before = Var("x", float32), Var("before", float32)
    place = Vector(A, PLACE)
    made = turns(Let(x, Load(place)), Atomic("add", place, (x,), var=before), Store(Vector(R, TURN), before))
    names = [named.name for stmt in made if (named := walk.defines(stmt)) is not None]
    assert len(set(names)) == len(names) == 8
    assert [stmt.value.name for stmt in made if isinstance(stmt, Store)] == names[1::2]  # type: ignore[union-attr]


def test_a_variable_declared_in_an_iteration_is_private_and_one_from_outside_is_shared() -> None:
    inside, outside = Var("inside", int32), Var("outside", int32)
    made = turns(
        Declare(inside, build.mul(TURN, 3)),
        Assign(inside, build.add(inside, 1)),
        Assign(outside, build.add(outside, inside)),
    )
    declared = [stmt for stmt in made if isinstance(stmt, Declare)]
    names = [stmt.var.name for stmt in declared]
    assert len(set(names)) == 4 and [stmt.init for stmt in declared] == [const(3 * turn) for turn in range(4)]
    assigned = [stmt.var.name for stmt in made if isinstance(stmt, Assign)]
    assert assigned == [each for name in names for each in (name, "outside")]
    sums = [stmt.value for stmt in made if isinstance(stmt, Assign) and stmt.var == outside]
    assert sums == [build.add(outside, stmt.var) for stmt in declared]


def test_what_lives_as_long_as_the_kernel_is_made_once() -> None:
    scratch = local("scratch", float32, 1)
    view = replace(local("view", float32, 1), base=scratch)
    made = turns(Alloc(scratch), BufferView(view), Store(Vector(scratch, const(0)), const(0.0, float32)))
    assert [type(stmt) for stmt in made] == [Alloc, BufferView, Store, Store, Store, Store]
