"""The writer of LLVM's text: an available value is not written again."""

from __future__ import annotations

from tilejit.codegen.debug import LineTable
from tilejit.codegen.writer import Writer


def test_an_equal_instruction_gets_the_name_that_the_first_one_has() -> None:
    w = Writer(LineTable("k", None))
    first = w.value("add i32 %x, 1")
    assert w.value("add i32 %x, 1") == first
    assert w.value("add i32 %x, 2") != first
    assert len(w.body) == 2


def test_loads_and_calls_are_written_each_time() -> None:
    w = Writer(LineTable("k", None))
    for text in ("load i32, ptr %p", "call i32 @f()", "fadd float %a, %b"):
        assert w.value(text) != w.value(text)


def test_a_new_block_knows_only_what_it_is_given() -> None:
    w = Writer(LineTable("k", None))
    before = w.value("mul i32 %x, 3")
    available = w.available()
    w.branch("%c", "then", "after")
    w.start("then", available)
    assert w.value("mul i32 %x, 3") == before
    inside = w.value("mul i32 %x, 4")
    w.jump("after")
    w.start("after", available)
    assert w.value("mul i32 %x, 3") == before and w.value("mul i32 %x, 4") != inside
    w.jump("elsewhere")
    w.start("elsewhere")
    assert w.value("mul i32 %x, 3") != before
