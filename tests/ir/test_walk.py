"""The walk over the IR knows every class of statement and expression, and all that each of them holds."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ir.examples import held
from tests.ir.paths import programs
from tilejit.dtypes import bool_, float32, int32
from tilejit.ir import nodes as ir
from tilejit.ir import walk
from tilejit.layout import TileLayout


def buffer(name: str, space: str = "local") -> ir.Buffer:
    return ir.Buffer(name, space, float32, (8,), TileLayout.row_major((8,)), 4)


def number(value: int) -> ir.Const:
    return ir.Const(value, int32)


def load(name: str) -> ir.Load:
    return ir.Load(ir.Element(buffer(name), (ir.Var(f"at_{name}", int32),)))


def region(name: str) -> ir.Region:
    return ir.Region(buffer(name, "shared"), (ir.Var(f"start_{name}", int32),), (4,))


def vector(name: str, space: str = "local") -> ir.Vector:
    return ir.Vector(buffer(name, space), ir.Var(f"offset_{name}", int32))


X, COND = ir.Var("x", int32), ir.Var("cond", bool_)
ONE, TWO, THREE = ir.Sync("warp"), ir.Sync("cta"), ir.Break()

#: class -> a statement that has all that such statements can have, the buffers that it reads, and those it writes
STATEMENTS: dict[str, tuple[ir.Stmt, set[str], set[str]]] = {
    "Let": (ir.Let(X, load("a")), {"a"}, set()),
    "Declare": (ir.Declare(X, load("a")), {"a"}, set()),
    "Assign": (ir.Assign(X, ir.Cast(load("a"), int32)), {"a"}, set()),
    "Alloc": (ir.Alloc(buffer("a")), set(), set()),
    "BufferView": (ir.BufferView(buffer("a")), set(), set()),
    "Store": (ir.Store(ir.Element(buffer("a"), (number(1), number(2))), load("b")), {"b"}, {"a"}),
    "Atomic": (ir.Atomic("cas", ir.Element(buffer("a"), (number(1),)), (load("b"), X), var=X), {"a", "b"}, {"a"}),
    "If": (ir.If(ir.Op("less", (load("a"), load("b")), bool_), (ONE, TWO), (THREE,)), {"a", "b"}, set()),
    "For": (ir.For(X, number(0), load("a"), number(1), (ONE, TWO)), {"a"}, set()),
    "Loop": (ir.Loop((ONE, THREE)), set(), set()),
    "Break": (ir.Break(), set(), set()),
    "Continue": (ir.Continue(), set(), set()),
    "Return": (ir.Return(), set(), set()),
    "Sync": (ir.Sync("cta"), set(), set()),
    "Arrive": (ir.Arrive(ir.Element(buffer("a"), (number(1),)), "warp", load("b")), {"b"}, set()),
    "WaitPhase": (ir.WaitPhase(ir.Element(buffer("a"), (load("b"),)), number(4), X), {"b"}, set()),
    "Expect": (ir.Expect(ir.Element(buffer("a"), (number(1),)), load("b")), {"b"}, set()),
    "Assert": (ir.Assert(COND, "no"), set(), set()),
    "Print": (ir.Print(("x is", X, load("a"))), {"a"}, set()),
    "Breakpoint": (ir.Breakpoint("[]", (X, load("a"), vector("b"), vector("d", "shared"))), {"a", "b"}, set()),
    "TileOp": (ir.TileOp("add", "warp", (region("a"), region("b"), number(3))), {"b"}, {"a"}),
    "Move": (ir.Move(vector("a"), vector("b", "global"), COND, load("c")), {"b", "c"}, {"a"}),
    "Instruction": (
        ir.Instruction(
            "any",
            (vector("a"), vector("b")),
            (number(4), vector("c"), vector("d", "shared"), ir.Descriptor(vector("e", "shared"), 9)),
            var=X,
        ),
        {"c"},
        {"a", "b"},
    ),
}

EXPRESSIONS: dict[str, tuple[ir.Expr, int]] = {
    "Const": (number(1), 0),
    "Var": (X, 0),
    "Special": (ir.Special("lane_id"), 0),
    "Op": (ir.Op("where", (COND, number(1), number(2)), int32), 3),
    "Cast": (ir.Cast(number(1), float32), 1),
    "Load": (ir.Load(ir.Element(buffer("a"), (number(1), number(2)))), 2),
}


def names(union: object) -> list[str]:
    return [member.__name__ for member in get_args(union)]


@pytest.mark.parametrize("name", names(ir.Stmt))
def test_every_class_of_statement_is_walked(name: str) -> None:
    assert name in STATEMENTS, f"{name} has no example here"
    stmt, read, written = STATEMENTS[name]
    assert type(stmt).__name__ == name
    blocks = [part for part in held(stmt) if isinstance(part, tuple)]
    assert list(walk.blocks(stmt)) == blocks
    assert isinstance(stmt, walk.COMPOUND) == bool(blocks)
    assert list(walk.expressions(stmt)) == [part for part in held(stmt) if not isinstance(part, tuple)]
    assert {place.buffer.name for place in walk.reads(stmt)} == read
    assert {place.buffer.name for place in walk.writes(stmt)} == written
    assert walk.size(stmt) == 1 + sum(map(len, blocks))
    held_in = walk.inventory((stmt,))
    assert (held_in.size, held_in.kinds) == (walk.size(stmt), {type(each) for each in walk.statements((stmt,))})
    in_memory = {(place.buffer.name, False) for place in walk.reads(stmt) if place.buffer.space != "local"}
    in_memory |= {(place.buffer.name, True) for place in walk.writes(stmt) if place.buffer.space != "local"}
    assert {(place.buffer.name, writes) for place, writes in walk.in_memory(stmt)} == in_memory


def test_a_view_computes_where_it_starts() -> None:
    view = replace(buffer("v"), base=buffer("a"), offset=X)
    assert list(walk.expressions(ir.BufferView(view))) == [X]


@pytest.mark.parametrize("name", names(ir.Stmt))
def test_every_class_of_statement_gets_its_blocks_changed(name: str) -> None:
    stmt = STATEMENTS[name][0]
    changed = walk.with_blocks(stmt, lambda block: (*block, ir.Return()))
    assert list(walk.blocks(changed)) == [(*block, ir.Return()) for block in walk.blocks(stmt)]
    assert walk.with_blocks(changed, lambda block: block[:-1]) == stmt
    assert walk.with_blocks(stmt, lambda block: block) is stmt


@pytest.mark.parametrize("name", names(ir.Stmt))
def test_every_class_of_statement_says_what_it_names(name: str) -> None:
    stmt = STATEMENTS[name][0]
    named = getattr(stmt, "var", None) or getattr(stmt, "buffer", None)
    assert walk.defines(stmt) == (None if isinstance(stmt, ir.Assign) else named)


@pytest.mark.parametrize("name", names(ir.Expr))
def test_every_class_of_expression_is_walked(name: str) -> None:
    assert name in EXPRESSIONS, f"{name} has no example here"
    expr, count = EXPRESSIONS[name]
    assert type(expr).__name__ == name
    assert list(walk.operands(expr)) == list(held(expr))
    assert len(walk.operands(expr)) == count


@pytest.mark.parametrize("place", [vector("a"), region("a"), ir.Element(buffer("a"), (X, number(1)))])
def test_a_place_has_its_indices(place: walk.Place) -> None:
    assert list(walk.indices(place)) == list(held(place))


def test_an_operation_that_updates_its_destination_reads_it() -> None:
    product = ir.TileOp("gemm", "warp", (region("c"), region("a"), region("b")))
    assert [place.buffer.name for place in walk.reads(product)] == ["c", "a", "b"]
    assert [place.buffer.name for place in walk.writes(product)] == ["c"]


def test_subexpressions_come_from_the_left() -> None:
    inner = ir.Op("add", (X, number(1)), int32)
    outer = ir.Op("mul", (ir.Cast(inner, int32), number(2)), int32)
    assert list(walk.subexpressions(outer)) == [outer, outer.args[0], inner, X, number(1), number(2)]


def test_inputs_are_variables_ids_and_loads_each_once_from_the_left() -> None:
    read, lane = load("a"), ir.Special("lane_id")
    (at,) = walk.indices(read.place)
    outer = ir.Op("add", (ir.Op("mul", (ir.Cast(read, int32), X), int32), ir.Op("add", (lane, X), int32)), int32)
    assert walk.inputs(outer) == (read, at, X, lane)
    assert walk.loads(outer) == [read]
    assert walk.inputs(X) == (X,) and walk.inputs(number(1)) == ()


def test_statements_come_in_the_order_of_the_text() -> None:
    inner = ir.If(COND, (ONE,), (TWO,))
    loop = ir.Loop((inner, THREE))
    assert list(walk.statements((loop, ONE))) == [loop, inner, ONE, TWO, THREE, ONE]
    assert walk.assigned((ir.Loop((ir.If(COND, (), (ir.Assign(X, X),)),)),)) == {"x"}


def test_what_is_loaded_and_updated_is_in_memory() -> None:
    place = ir.Element(buffer("a", "shared"), (X,))
    assert list(walk.in_memory(ir.Let(X, ir.Load(place)))) == [(place, False)]
    assert list(walk.in_memory(ir.Store(place, X))) == [(place, True)]
    assert list(walk.in_memory(ir.Atomic("add", place, (X,)))) == [(place, False), (place, True)]


def test_statements_of_a_class_come_with_their_numbers() -> None:
    body: walk.Block = (ir.Loop((ir.If(COND, (ONE,), (TWO,)), THREE)), ONE)
    every = walk.statements(body)
    for kind in (ir.Loop, ir.If, ir.Sync, ir.Break, ir.Return):
        expected = [(k, stmt) for k, stmt in enumerate(every) if type(stmt) is kind]
        assert list(walk.numbered(body, kind)) == expected
        assert walk.each(body, kind) == [stmt for _, stmt in expected]


def test_statements_are_edited_by_their_numbers() -> None:
    kept = ir.Loop((ir.If(COND, (ONE,), (TWO,)), THREE))
    branch = ir.If(COND, (ONE,), (TWO,))
    body: walk.Block = (kept, branch, ir.Loop((ONE, THREE)), ONE)
    assert walk.edited(body, {}) is body
    edited = walk.edited(body, {5: (TWO, branch), 7: (), 9: (TWO, ONE), 11: (THREE, TWO)})
    assert edited == (kept, TWO, ir.If(COND, (ONE,), ()), ir.Loop((TWO, ONE, THREE)), THREE, TWO)
    assert edited[0] is kept


@given(programs(st.sampled_from([ONE, TWO])), st.data())
def test_edits_by_numbers_are_those_of_a_walk(body: walk.Block, data: st.DataObject) -> None:
    every = list(walk.statements(body))
    chosen = data.draw(st.sets(st.integers(0, len(every) - 1))) if every else set()
    numbers = count()

    def change(stmt: ir.Stmt) -> tuple[ir.Stmt, ...]:
        return (ir.Print(("edit",)), stmt) if next(numbers) in chosen else (stmt,)

    edits = {n: (ir.Print(("edit",)), every[n]) for n in chosen}
    assert walk.edited(body, edits) == walk.rewrite(body, change)


def test_what_is_rewritten_as_it_was_stays_the_same_object() -> None:
    kept = ir.Loop((ir.If(COND, (ONE, TWO), ()), THREE))
    body = (kept, ir.Loop((ONE,)))
    assert walk.rewrite(body, lambda stmt: (stmt,)) is body
    changed = walk.rewrite(body, lambda stmt: (TWO, stmt) if stmt is body[1] else (stmt,))
    assert changed == (kept, TWO, body[1]) and changed[0] is kept and changed[2] is body[1]


def test_rewriting_asks_in_the_order_of_the_text_and_rewrites_what_it_gets() -> None:
    body: walk.Block = (ir.Loop((ir.If(COND, (ONE,), (TWO,)), THREE)), ONE)
    asked: list[ir.Stmt] = []

    def change(stmt: ir.Stmt) -> tuple[ir.Stmt, ...]:
        asked.append(stmt)
        return () if stmt == TWO else (stmt, stmt) if stmt == ONE else (stmt,)

    assert walk.rewrite(body, change) == (ir.Loop((ir.If(COND, (ONE, ONE), ()), THREE)), ONE, ONE)
    assert asked == list(walk.statements(body))
