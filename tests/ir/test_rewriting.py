"""Every kind of statement can be cloned with other names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ir.test_walk import EXPRESSIONS, STATEMENTS, buffer
from tilejit.dtypes import int32
from tilejit.ir import nodes as ir
from tilejit.ir import walk
from tilejit.ir.rewriting import Renaming, Rewriting
from tilejit.source import Span

HERE, THERE = Span("k.py", 1, 2, 1, 3), Span("k.py", 3, 4, 3, 5)


def renaming() -> Renaming:
    buffers = {name: buffer(f"{name}.other", "shared" if name == "d" else "local") for name in "abcd"}
    return Renaming(buffers, lambda name: f"{name}.other", lambda span: THERE if span is HERE else span)


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_names_the_other_buffers(name: str) -> None:
    stmt, read, written = STATEMENTS[name]
    made = renaming().stmt(stmt)
    assert type(made) is type(stmt)
    assert {place.buffer.name for place in walk.reads(made)} == {f"{each}.other" for each in read}
    assert {place.buffer.name for place in walk.writes(made)} == {f"{each}.other" for each in written}
    assert walk.size(made) == walk.size(stmt)


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_has_its_own_span(name: str) -> None:
    assert renaming().stmt(replace(STATEMENTS[name][0], span=HERE)).span is THERE


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_expression_is_the_same_but_for_names(name: str) -> None:
    expr, _ = EXPRESSIONS[name]
    made = renaming().expr(expr)
    assert type(made) is type(expr)
    assert (made == expr) is not isinstance(expr, ir.Load)


def test_what_is_defined_is_used_by_its_new_name() -> None:
    x, zero, one = ir.Var("x", int32, 4, (0, 8)), ir.Const(0, int32), ir.Const(1, int32)
    inner = ir.Store(ir.Vector(buffer("a"), x), ir.Load(ir.Vector(buffer("e"), ir.Op("add", (x, one), int32))))
    (made,) = renaming().block((ir.For(x, zero, ir.Const(8, int32), ir.Const(4, int32), (inner,), unrolled=True),))
    assert isinstance(made, ir.For)
    other = ir.Var("x.other", int32, 4, (0, 8))
    (store,) = made.body
    assert (made.var, made.unrolled) == (other, True)
    assert store == ir.Store(
        ir.Vector(buffer("a.other"), other), ir.Load(ir.Vector(buffer("e"), ir.Op("add", (other, one), int32)))
    )


def test_what_keeps_its_names_is_no_other_object() -> None:
    expr = ir.Op("add", (ir.Var("x", int32), ir.Const(1, int32)), int32)
    place = ir.Vector(buffer("e"), expr)
    assert renaming().expr(expr) is expr
    assert renaming().place(place) is place


@pytest.mark.parametrize("name", STATEMENTS)
def test_what_changes_nothing_is_no_other_object(name: str) -> None:
    stmt = STATEMENTS[name][0]
    body = (stmt, stmt)
    assert Rewriting({"other": buffer("other")}).block(body) is body


@pytest.mark.parametrize("name", ["Let", "Store", "TileOp", "Atomic", "Move", "Instruction"])
def test_the_buffers_of_a_statement_are_changed(name: str) -> None:
    stmt = STATEMENTS[name][0]
    places = (*walk.reads(stmt), *walk.writes(stmt))
    others = {place.buffer.name: buffer(f"{place.buffer.name}.other", place.buffer.space) for place in places}
    changed = Rewriting(others).stmt(stmt)
    for each in (walk.reads, walk.writes):
        assert [p.buffer for p in each(changed)] == [others[p.buffer.name] for p in each(stmt)]
