"""The writer of LLVM's text: an available value is reused."""

from __future__ import annotations

import time

import pytest

from tilejit.codegen.debug import LineTable
from tilejit.codegen.registers import Word
from tilejit.codegen.writer import Join, Writer


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
    head = w.join("loop")
    w.jump(head)
    w.start(head)
    first = w.call("i32", "tj.floordiv.i32", ("i32", "%p0"), ("i32", "%p1"))
    assert w.call("i32", "tj.floordiv.i32", ("i32", "%p0"), ("i32", "%p1")) == first
    assert w.call("i32", "tj.floordiv.i32", ("i32", "%p1"), ("i32", "%p0")) != first
    assert w.lines()[1:3] == ["loop1:", f"  {first} = call i32 @tj.floordiv.i32(i32 %p0, i32 %p1)"]


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


def test_a_block_knows_what_was_there_where_its_ways_part() -> None:
    w = Writer(LineTable("k", None))
    before = w.value("mul i32 %x, 3")
    then, after = w.join("then"), w.join("after")
    w.branch("%c", then, after)
    w.start(then)
    assert w.value("mul i32 %x, 3") == before
    inside = w.value("mul i32 %x, 4")
    w.jump(after)
    w.start(after)
    assert w.value("mul i32 %x, 3") == before and w.value("mul i32 %x, 4") != inside


def test_a_block_without_a_way_into_it_is_not_written() -> None:
    w = Writer(LineTable("k", None))
    never = w.join("never")
    w.leave()
    w.start(never)
    assert not w.open and w.lines() == ["  ret void"]


def test_a_side_knows_no_word_of_the_other_one() -> None:
    w = Writer(LineTable("k", None))
    kept, changed, unwritten = (Word("i32") for _ in range(3))
    w.write(kept, "i32", "%x")
    w.write(changed, "i32", "%x")
    then, orelse, after = (w.join(hint) for hint in ("then", "else", "after"))
    w.branch("%c", then, orelse)
    for side in (then, orelse):
        w.start(side)
        assert w.read(kept, "i32") == w.read(changed, "i32") == "%x" and w.read(unwritten, "i32") == "undef"
        inside, joined = w.join("inside"), w.join("joined")
        w.branch("%d", inside, joined)
        w.start(inside)
        w.write(changed, "i32", "%y")
        w.write(unwritten, "i32", "%z")
        w.jump(joined)
        w.start(joined)
        assert w.read(kept, "i32") == "%x" and w.read(changed, "i32") not in ("%x", "%y")
        w.jump(after)
    w.start(after)
    assert w.read(kept, "i32") == "%x" and w.read(changed, "i32") not in ("%x", "%y")
    name = w.read(unwritten, "i32")
    assert w.lines()[-1].startswith(f"  {name} = phi i32 [ %") and sum("phi" in line for line in w.lines()) == 6


def test_where_paths_join_a_word_is_a_phi_once_it_is_read() -> None:
    w = Writer(LineTable("k", None))
    changed, unread, same, unknown = (Word("i32") for _ in range(4))
    for word in (changed, unread, same):
        w.write(word, "i32", "%x")
    then, orelse, after = (w.join(hint) for hint in ("then", "else", "after"))
    w.branch("%c", then, orelse)
    w.start(then)
    for word in (changed, unread, unknown):
        w.write(word, "i32", "%y")
    w.jump(after)
    w.start(orelse)
    assert w.read(changed, "i32") == "%x"
    w.write(same, "i32", "%x")
    w.jump(after)
    w.start(after)
    assert w.read(same, "i32") == "%x"
    names = w.read(changed, "i32"), w.read(unknown, "i32")
    assert w.lines()[-2:] == [
        f"  {names[0]} = phi i32 [ %y, %then1 ], [ %x, %else2 ]",
        f"  {names[1]} = phi i32 [ %y, %then1 ], [ undef, %else2 ]",
    ]


def test_no_word_is_carried_to_where_none_is_read() -> None:
    w = Writer(LineTable("k", None))
    word = Word("i32")
    then, after = w.join("then"), w.join("after", is_last=True)
    w.branch("%c", then, after)
    w.start(then)
    w.write(word, "i32", "%x")
    w.jump(after)
    w.start(after)
    assert [path.held for path in after.paths] == [{}, {}]
    assert w.body[-1] == f"{after.label}:"


def test_a_word_of_one_type_on_one_way_and_of_another_on_the_other_is_cast_at_its_end() -> None:
    w = Writer(LineTable("k", None))
    word, zeroed = Word("i32"), Word("i32", zeroed=True)
    w.write(word, "i32", "%x")
    then, after = w.join("then"), w.join("after")
    w.branch("%c", then, after)
    w.start(then)
    w.write(word, "<2 x half>", "%h")
    w.write(zeroed, "<2 x half>", "%h")
    w.jump(after)
    w.start(after)
    phis = w.read(word, "i32"), w.read(zeroed, "<2 x half>")
    assert "\n".join(w.lines()).splitlines() == [
        "  br i1 %c, label %then1, label %after2",
        "then1:",
        "  %c3 = bitcast <2 x half> %h to i32",
        "  br label %after2",
        "after2:",
        f"  {phis[0]} = phi i32 [ %x, %entry ], [ %c3, %then1 ]",
        f"  {phis[1]} = phi <2 x half> [ zeroinitializer, %entry ], [ %h, %then1 ]",
    ]


def test_a_phi_reads_those_of_the_branches_inside() -> None:
    w = Writer(LineTable("k", None))
    word = Word("i32")
    w.write(word, "i32", "%x")
    for k in range(2000):
        then, after = w.join("then"), w.join("after")
        w.branch(f"%c{k}", then, after)
        w.start(then)
        w.write(word, "i32", f"%y{k}")
        w.jump(after)
        w.start(after)
    w.read(word, "i32")
    assert sum("phi" in line for line in w.lines()) == 2000


def loop(w: Writer, *changing: Word) -> Join:
    """The head of a loop that is entered here."""
    head = w.join("head")
    w.jump(head)
    w.start(head, changing)
    return head


def test_a_word_that_an_iteration_changes_is_a_phi_at_the_head_of_the_loop_once_it_is_read() -> None:
    w = Writer(LineTable("k", None))
    kept, sum_, scratch = (Word("i32") for _ in range(3))
    for word in (kept, sum_, scratch):
        w.write(word, "i32", "%x")
    after = w.join("after")
    head = loop(w, sum_, scratch)
    assert w.read(kept, "i32") == "%x"
    w.write(scratch, "i32", "%y")
    here = w.read(sum_, "i32")
    w.write(sum_, "i32", total := w.value(f"add i32 {here}, {w.read(scratch, 'i32')}"))
    w.branch("%c", head, after)
    w.start(after)
    assert w.read(sum_, "i32") == total and w.read(scratch, "i32") == "%y"
    assert [line for line in w.lines() if "phi" in line] == [f"  {here} = phi i32 [ %x, %entry ], [ {total}, %head2 ]"]


def test_words_that_are_exchanged_read_the_phis_of_each_other() -> None:
    w = Writer(LineTable("k", None))
    a, b = Word("i32"), Word("i32")
    w.write(a, "i32", "%x")
    w.write(b, "i32", "%y")
    after = w.join("after")
    head = loop(w, a, b)
    first, second = w.read(a, "i32"), w.read(b, "i32")
    w.write(a, "i32", second)
    w.write(b, "i32", first)
    w.branch("%c", head, after)
    w.start(after)
    assert (w.read(a, "i32"), w.read(b, "i32")) == (second, first)
    assert w.lines()[2:4] == [
        f"  {first} = phi i32 [ %x, %entry ], [ {second}, %head2 ]",
        f"  {second} = phi i32 [ %y, %entry ], [ {first}, %head2 ]",
    ]


def test_what_continues_and_what_leaves_a_loop_brings_what_words_hold_there() -> None:
    """In each iteration one path continues at once, one breaks, and one reaches the end of the body."""
    w = Writer(LineTable("k", None))
    word, late = Word("i32"), Word("i32")
    w.write(word, "i32", "%x")
    after = w.join("after")
    head = loop(w, word, late)
    here = w.read(word, "i32")
    again = w.join("again")
    skip, on, leave, end = (w.join(hint) for hint in ("skip", "on", "leave", "end"))
    w.branch("%c", skip, on)
    w.start(skip)
    w.write(word, "i32", "%skipped")
    w.jump(again)
    w.start(on)
    assert w.read(word, "i32") == here
    w.write(late, "i32", "%late")
    w.branch("%d", leave, end)
    w.start(leave)
    w.write(word, "i32", "%left")
    w.jump(after)
    w.start(end)
    w.continue_at(again)
    latch = w.read(word, "i32")
    w.branch("%e", head, after)
    w.start(after)
    name, end_of_late = w.read(word, "i32"), w.read(late, "i32")
    phis = [line.strip() for line in w.lines() if "phi" in line]
    late_here, late_latch = phis[1].split()[0], phis[3].split()[0]
    assert phis == [
        f"{here} = phi i32 [ %x, %entry ], [ {latch}, %again3 ]",
        f"{late_here} = phi i32 [ undef, %entry ], [ {late_latch}, %again3 ]",
        f"{latch} = phi i32 [ %skipped, %skip4 ], [ {here}, %end7 ]",
        f"{late_latch} = phi i32 [ {late_here}, %skip4 ], [ %late, %end7 ]",
        f"{name} = phi i32 [ %left, %leave6 ], [ {latch}, %again3 ]",
        f"{end_of_late} = phi i32 [ %late, %leave6 ], [ {late_latch}, %again3 ]",
    ]


def test_a_loop_in_a_loop_reads_the_phis_of_the_outer_one() -> None:
    w = Writer(LineTable("k", None))
    word, inner_only = Word("i32"), Word("i32")
    w.write(word, "i32", "%x")
    outside = w.join("outside")
    outer = loop(w, word, inner_only)
    at_outer = w.read(word, "i32")
    between = w.join("between")
    inner = loop(w, word, inner_only)
    at_inner = w.read(word, "i32")
    w.write(word, "i32", total := w.value(f"add i32 {at_inner}, 1"))
    w.write(inner_only, "i32", "%y")
    w.branch("%c", inner, between)
    w.start(between)
    w.branch("%d", outer, outside)
    w.start(outside)
    assert w.read(word, "i32") == total
    assert [line.strip() for line in w.lines() if "phi" in line] == [
        f"{at_outer} = phi i32 [ %x, %entry ], [ {total}, %between3 ]",
        f"{at_inner} = phi i32 [ {at_outer}, %head2 ], [ {total}, %head4 ]",
    ]


def test_words_keep_their_values_in_a_loop_of_no_iterations() -> None:
    w = Writer(LineTable("k", None))
    word = Word("i32")
    w.write(word, "i32", "%x")
    entry, after = w.join("entry"), w.join("after")
    w.branch("%any", entry, after)
    w.start(entry)
    head = loop(w, word)
    w.write(word, "i32", "%y")
    w.branch("%c", head, after)
    w.start(after)
    name = w.read(word, "i32")
    assert [line.strip() for line in w.lines() if "phi" in line] == [
        f"{name} = phi i32 [ %x, %entry ], [ %y, %head3 ]",
    ]


@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "ends the thread"])
def test_each_block_takes_the_time_that_it_takes_alone(ends: bool) -> None:
    """Thousands of branches, as an unrolled loop has them: copying what is known would take the square of that."""
    def seconds(branches: int) -> float:
        w = Writer(LineTable("k", None))
        w.exit = w.join("exit")
        begin = time.process_time()
        for k in range(branches):
            w.value(f"add i32 %x, {k}")
            w.write(Word("i32"), "i32", "%x")
            then, after = w.join("then"), w.join("after")
            w.branch("%c", then, after)
            w.start(then)
            if ends:
                w.leave()
            w.jump(after)
            w.start(after)
        return time.process_time() - begin

    few, many = (min(seconds(n) for _ in range(3)) for n in (500, 4000))
    assert many < 24 * few
