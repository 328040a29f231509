"""The writer of LLVM's text: an available value is not written again."""

from __future__ import annotations

import time

from tilejit.codegen.debug import LineTable
from tilejit.codegen.registers import Word
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


def test_a_call_of_a_function_of_the_module_is_written_once_and_stays_in_its_loop() -> None:
    w = Writer(LineTable("k", None))
    w.jump("loop")
    w.start("loop", w.available(), loops=True)
    first = w.call("i32", "tj.floordiv.i32", ("i32", "%p0"), ("i32", "%p1"))
    assert w.call("i32", "tj.floordiv.i32", ("i32", "%p0"), ("i32", "%p1")) == first
    assert w.call("i32", "tj.floordiv.i32", ("i32", "%p1"), ("i32", "%p0")) != first
    assert w.lines()[1:3] == ["loop:", f"  {first} = call i32 @tj.floordiv.i32(i32 %p0, i32 %p1)"]


def test_a_truncation_of_an_extended_value_is_that_value() -> None:
    w = Writer(LineTable("k", None))
    wide = w.extended("sext", "i32", "%x", "i64")
    assert w.value(f"trunc i64 {wide} to i32") == "%x"
    assert w.value(f"trunc i64 {wide} to i16") != "%x"


def test_what_was_put_into_a_vector_is_what_is_taken_out_of_it() -> None:
    w = Writer(LineTable("k", None))
    parts = "<2 x i16>"
    low = w.value(f"extractelement {parts} %x, i32 0")
    both = w.inserted(parts, w.inserted(parts, "%x", 2, ("i16", "%high"), 1), 2, ("i16", "%other"), 0)
    assert w.value(f"extractelement {parts} {both}, i32 0") == "%other"
    assert w.value(f"extractelement {parts} {both}, i32 1") == "%high"
    kept = w.inserted(parts, "%x", 2, ("i16", "%new"), 1)
    assert w.value(f"extractelement {parts} {kept}, i32 0") == low
    one = w.inserted(parts, "%y", 2, ("i16", "%new"), 1)
    assert w.value(f"extractelement {parts} {one}, i32 0")[1:].isdigit()


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


def test_what_is_known_before_a_branch_is_known_behind_it_and_nothing_that_a_side_found_out() -> None:
    w = Writer(LineTable("k", None))
    kept, changed, read = (Word(f"%a{k}", "i32") for k in range(3))
    w.write(kept, "i32", "%x")
    w.write(changed, "i32", "%x")
    available = w.available()
    w.branch("%c", "then", "else")
    for side in ("then", "else"):
        w.start(side, available)
        assert w.read(kept, "i32") == "%x"
        assert (w.read(changed, "i32") == "%x") == (side == "then")
        assert w.read(read, "i32") == w.read(read, "i32") != "%x"
        inner = w.available()
        w.branch("%d", "inside", "behind")
        w.start("inside", inner)
        w.write(changed, "i32", "%y")
        w.jump("behind")
        w.start("behind", inner)
        assert w.read(kept, "i32") == "%x" != w.read(changed, "i32")
        w.jump("after")
    loads = len([line for line in w.body if "load" in line])
    w.start("after", available)
    assert w.read(kept, "i32") == "%x"
    w.read(changed, "i32")
    w.read(read, "i32")
    assert len([line for line in w.body if "load" in line]) == loads + 2


def test_where_paths_meet_a_word_is_a_phi_once_it_is_read() -> None:
    w = Writer(LineTable("k", None))
    changed, unread, same, unknown = (Word(f"%a{k}", "i32") for k in range(4))
    for word in (changed, unread, same):
        w.write(word, "i32", "%x")
    available = w.available()
    straight = w.path(available)
    w.branch("%c", "then", "else")
    w.start("then", available)
    for word in (changed, unread, unknown):
        w.write(word, "i32", "%y")
    then = w.path(available)
    w.jump("after")
    w.start("else", available, paths=[straight])
    assert w.read(changed, "i32") == "%x"
    w.write(same, "i32", "%x")
    orelse = w.path(available)
    w.jump("after")
    w.start("after", available, paths=[then, orelse])
    assert w.read(same, "i32") == "%x"
    name = w.read(changed, "i32")
    loaded = w.read(unknown, "i32")
    assert w.lines()[-2:] == [
        f"  {name} = phi i32 [ %y, %then ], [ %x, %else ]", f"  {loaded} = load i32, ptr {unknown.address}",
    ]


def test_a_phi_reads_those_of_the_branches_inside() -> None:
    w = Writer(LineTable("k", None))
    word = Word("%a", "i32")
    w.write(word, "i32", "%x")
    for k in range(2000):
        available = w.available()
        straight = w.path(available)
        w.branch(f"%c{k}", f"then{k}", f"after{k}")
        w.start(f"then{k}", available)
        w.write(word, "i32", f"%y{k}")
        paths = [w.path(available), straight]
        w.jump(f"after{k}")
        w.start(f"after{k}", available, paths=paths)
    assert not any("phi" in line for line in w.lines())
    w.read(word, "i32")
    assert sum("phi" in line for line in w.lines()) == 2000


def test_what_a_path_loads_or_a_loop_on_it_writes_is_not_known_behind_it() -> None:
    w = Writer(LineTable("k", None))
    loaded, looped = (Word(f"%a{k}", "i32") for k in range(2))
    w.write(looped, "i32", "%x")
    available = w.available()
    straight = w.path(available)
    w.branch("%c", "then", "after")
    w.start("then", available)
    w.read(loaded, "i32")
    w.write(loaded, "i32", "%y")
    inner = w.available()
    w.jump("head")
    w.start("head", w.available(), loops=True)
    w.write(looped, "i32", "%z")
    w.branch("%d", "head", "behind")
    w.start("behind", inner)
    paths = [w.path(available), straight]
    w.jump("after")
    w.start("after", available, paths=paths)
    for word in (loaded, looped):
        w.read(word, "i32")
        assert w.lines()[-1].endswith(f"load i32, ptr {word.address}")


def test_what_an_inner_branch_loads_is_not_known_where_the_outer_one_begins() -> None:
    w = Writer(LineTable("k", None))
    word = Word("%a", "i32")
    available = w.available()
    straight = w.path(available)
    w.branch("%c", "then", "after")
    w.start("then", available)
    inner = w.available()
    paths = [w.path(inner)]
    w.branch("%d", "inside", "behind")
    w.start("inside", inner)
    w.read(word, "i32")
    w.write(word, "i32", "%x")
    paths += [w.path(inner)]
    w.jump("behind")
    w.start("behind", inner, paths=paths)
    w.write(word, "i32", "%y")
    paths = [w.path(available), straight]
    w.jump("after")
    w.start("after", available, paths=paths)
    w.read(word, "i32")
    assert w.lines()[-1].endswith(f"load i32, ptr {word.address}")


def test_a_loop_knows_no_word_and_behind_it_those_before_it_that_nothing_wrote() -> None:
    w = Writer(LineTable("k", None))
    kept, changed = (Word(f"%a{k}", "i32") for k in range(2))
    for word in (kept, changed):
        w.write(word, "i32", "%x")
    available = w.available()
    w.branch("%c", "then", "after")
    w.start("then", available)
    w.jump("head")
    w.start("head", w.available(), loops=True)
    assert w.read(kept, "i32") != "%x"
    w.write(changed, "i32", "%y")
    w.jump("head")
    w.start("after", available)
    assert w.read(kept, "i32") == "%x" != w.read(changed, "i32")


def test_each_block_takes_the_time_that_it_takes_alone() -> None:
    """Thousands of branches, as an unrolled loop has them: copying what is known would take the square of that."""
    def seconds(branches: int) -> float:
        w = Writer(LineTable("k", None))
        begin = time.process_time()
        for k in range(branches):
            w.value(f"add i32 %x, {k}")
            w.write(Word(f"%a{k}", "i32"), "i32", "%x")
            available = w.available()
            w.branch("%c", "then", "after")
            w.start("then", available)
            w.jump("after")
            w.start("after", available)
        return time.process_time() - begin

    few, many = (min(seconds(n) for _ in range(3)) for n in (500, 4000))
    assert many < 24 * few
