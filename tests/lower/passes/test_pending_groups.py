"""Work that reads and fills registers, whose waits count groups: the pass knows of it by its rows alone."""

from __future__ import annotations

import pytest

from tilejit.dtypes import bool_, float32, int32
from tilejit.errors import KernelTypeError
from tilejit.ir import nodes as ir
from tilejit.ir import walk
from tilejit.isa import ROWS, WAITS, AsyncWork, Direction, Row
from tilejit.isa.row import F32, carried, constant, register
from tilejit.layout import TileLayout
from tilejit.lower.passes.pending import add_wait_registers

PRODUCTS = AsyncWork("products", "gemm_async", wait="made_up.wait", fills=True, reads=True)


def row(name: str, **fields: object) -> Row:
    return Row(name=name, text=f"{name};", meaning="", since=90, ptx=(8, 0), memory=True, **fields)  # type: ignore[arg-type]


START = row(
    "made_up.mma", operands=(register("acc", F32, Direction.INOUT, 2), register("a", F32, count=2)), starts=PRODUCTS
)
COMMIT = row("made_up.commit", commits=PRODUCTS)
WAIT = row("made_up.wait_group", operands=(carried("registers"), constant("groups")), completes=PRODUCTS)

LAYOUT = TileLayout.row_major((2,))
P, Q, A, B = (ir.Buffer(name, "local", float32, (2,), LAYOUT, 4) for name in "pqab")
OUT = ir.Buffer("out", "global", float32, (2,), ir.Strided((1,), 16), 16)


@pytest.fixture(autouse=True)
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (START, COMMIT, WAIT):
        monkeypatch.setitem(ROWS, each.name, each)
    monkeypatch.setitem(WAITS, PRODUCTS, WAIT)


def whole(buffer: ir.Buffer) -> ir.Vector:
    return ir.Vector(buffer, ir.Const(0, int32), 2)


def product(acc: ir.Buffer, a: ir.Buffer) -> tuple[ir.Stmt, ...]:
    """A group of its own."""
    start = ir.Instruction(START.name, (whole(acc),), (whole(acc), whole(a)))
    return start, ir.Instruction(COMMIT.name)


def wait(groups: int) -> tuple[ir.Stmt, ...]:
    return (ir.Instruction(WAIT.name, (), (ir.Const(groups, int32),)),)


def read(tile: ir.Buffer) -> tuple[ir.Stmt, ...]:
    return (ir.Move(whole(OUT), whole(tile)),)


def write(tile: ir.Buffer) -> tuple[ir.Stmt, ...]:
    return (ir.Move(whole(tile), whole(OUT)),)


def passed(*parts: tuple[ir.Stmt, ...]) -> list[list[str]]:
    """The registers that each wait carries."""
    body = tuple(stmt for part in parts for stmt in part)
    made = add_wait_registers(ir.Kernel("k", (), 128, "sm_90a", (*map(ir.Alloc, (P, Q, A, B)), *body)))
    waits = [s for s in walk.statements(made.body) if isinstance(s, ir.Instruction) and s.name == WAIT.name]
    for stmt in waits:
        *vectors, groups = stmt.inputs
        assert tuple(vectors) == stmt.outputs and isinstance(groups, ir.Const)
    return [[v.buffer.name for v in stmt.outputs] for stmt in waits]


def test_a_wait_carries_the_sums_and_the_factors_of_what_it_completes() -> None:
    assert passed(product(P, A), wait(0), read(P), write(A)) == [["a", "p"]]
    two = product(P, A), product(Q, B)
    assert passed(*two, wait(1), read(P), write(A), wait(0), read(Q)) == [["a", "p"], ["b", "q"]]


def test_what_a_wait_leaves_is_pending() -> None:
    with pytest.raises(KernelTypeError, match=r"q is used before tj.made_up.wait\(0\): gemm_async may not have filled"):
        passed(product(P, A), product(Q, B), wait(1), read(Q))
    with pytest.raises(KernelTypeError, match=r"b is changed before tj.made_up.wait\(0\): gemm_async may not"):
        passed(product(P, A), product(Q, B), wait(1), write(B))
    with pytest.raises(KernelTypeError, match=r"p is used before tj.made_up.wait\(1\)"):
        passed(product(P, A), product(Q, B), read(P))


def test_what_is_in_no_group_no_wait_completes() -> None:
    start, _ = product(P, A)
    with pytest.raises(KernelTypeError, match=r"p is used before tj.made_up.wait"):
        passed((start,), wait(0), read(P))


def test_sums_go_on_from_product_to_product_and_factors_may_be_read() -> None:
    assert passed(product(P, A), product(P, A), read(A), wait(0), read(P)) == [["a", "p"]]
    with pytest.raises(KernelTypeError, match="p is used before"):
        passed(product(P, A), product(Q, P))


def test_the_latest_group_stays_in_flight_from_iteration_to_iteration_of_a_loop() -> None:
    number = ir.Var("i", int32)
    first, last, step = (ir.Const(n, int32) for n in (0, 8, 1))
    body = (*product(P, A), *wait(1))
    assert passed((ir.For(number, first, last, step, body),), wait(0), read(P)) == [[], ["a", "p"]]
    with pytest.raises(KernelTypeError, match=r"a is changed before tj.made_up.wait\(0\)"):
        passed((ir.For(number, first, last, step, (*write(A), *product(P, A), *wait(1))),), wait(0))


def test_where_paths_join_the_later_start_counts() -> None:
    longer = (*product(P, A), *product(Q, B))
    branch = ir.If(ir.Op("equal", (ir.Special("warp_id"), ir.Const(0, int32)), bool_), longer, (*product(P, A),))
    with pytest.raises(KernelTypeError, match="p is used before"):
        passed((branch,), wait(1), read(P))
    assert passed((branch,), wait(0), read(P)) == [["a", "b", "p", "q"]]


STEPS, OTHER = ir.Var("steps", int32), ir.Var("other", int32)
TURN = ir.Var("turn", int32)


def number(value: int) -> ir.Const:
    return ir.Const(value, int32)


def turns(*body: ir.Stmt, start: int = 0) -> tuple[ir.Stmt, ...]:
    return (ir.For(TURN, number(start), STEPS, number(1), (*product(P, A), *wait(1), *body)),)


def compared(name: str, value: int, var: ir.Var = STEPS) -> ir.Expr:
    return ir.Op(name, (var, number(value)), bool_)


KNOWN = (
    ir.Declare(STEPS, ir.Special("cta_id.0")),
    ir.Let(OTHER, ir.Special("cta_id.1")),
)
SAYS = [
    compared("greater", 0), compared("greater_equal", 1), compared("not_equal", 0),
    ir.Op("logical_not", (compared("less", 1),), bool_),
]


@pytest.mark.parametrize("cond", SAYS)
def test_without_turns_nothing_is_pending_but_all_paths_wait(cond: ir.Expr) -> None:
    both = [[], ["a", "p"], ["a", "p"]]
    assert passed(KNOWN, turns(), (ir.If(cond, wait(0), ()),), read(P)) == both
    absent = ir.Op("logical_not", (cond,), bool_)
    assert passed(KNOWN, turns(), (ir.If(absent, write(P), wait(0)),), read(P)) == both
    # all of it again, for the next tile
    again = (ir.Loop((*turns(), ir.If(cond, wait(0), write(P)), *read(P))),)
    assert passed(KNOWN, again) == both


UNSURE = [
    (turns(), compared("greater", 1)),
    (turns(), compared("greater", 0, OTHER)),
    # it may come to that side though there were turns
    (turns(), ir.Op("logical_and", (compared("greater", 0), compared("greater", 0, OTHER)), bool_)),
    # it isn't what it was
    ((*turns(), ir.Assign(STEPS, number(0))), compared("greater", 0)),
    (turns(ir.Assign(STEPS, number(0))), compared("greater", 0)),
    # from before the loop
    ((*product(P, A), *turns()), compared("greater", 0)),
]


@pytest.mark.parametrize(("body", "cond"), UNSURE)
def test_what_may_be_pending_on_the_other_side_is_refused(body: tuple[ir.Stmt, ...], cond: ir.Expr) -> None:
    with pytest.raises(KernelTypeError, match="p is used before"):
        passed(KNOWN, body, (ir.If(cond, wait(0), ()),), read(P))


def test_a_branch_that_waits_on_no_side_gets_no_wait() -> None:
    """Not all threads may come there."""
    one = ir.If(compared("equal", 0), write(B), ())
    assert passed(KNOWN, turns(), (one,), wait(0), read(P)) == [[], ["a", "p"]]
