"""Registers: values within a block, places on the stack between blocks."""

from __future__ import annotations

from tests.support.lane_kernels import THREAD, array, const, kernel, local, pointer, unrolled
from tests.support.ptx import made
from tilejit.codegen import generate
from tilejit.codegen.debug import LineTable
from tilejit.codegen.registers import Registers, Word
from tilejit.codegen.writer import Writer
from tilejit.dtypes import float16, float32, int32, uint32
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import (
    Alloc,
    Buffer,
    BufferView,
    Const,
    Declare,
    For,
    If,
    Load,
    Move,
    Stmt,
    Store,
    Var,
    Vector,
)
from tilejit.layout import TileLayout
from tilejit.target import target


def writer() -> Writer:
    return Writer(LineTable("k", None))


def test_a_word_is_what_it_was_given_without_loads_or_stores() -> None:
    w, word = writer(), Word("%x", "i32")
    w.write(word, "i32", "%one")
    assert w.read(word, "i32") == "%one"
    w.write(word, "i32", "%two")
    assert w.read(word, "i32") == "%two" and w.lines() == [] and word.entry() == []


def test_a_word_read_as_another_type_and_back_is_the_same_value() -> None:
    w, word = writer(), Word("%x", "i32")
    w.write(word, "float", "%f")
    bits = w.read(word, "i32")
    assert w.lines() == [f"  {bits} = bitcast float %f to i32"]
    w.write(word, "i32", bits)
    assert w.read(word, "float") == "%f"


def test_a_block_stores_what_a_later_one_loads() -> None:
    w, word, unread = writer(), Word("%x", "i32"), Word("%y", "i32")
    w.write(word, "i32", "1")
    w.write(word, "i32", "2")
    w.write(unread, "i32", "3")
    w.jump("next")
    w.start("next")
    value = w.read(word, "i32")
    assert w.read(word, "i32") == value, "it is loaded once"
    assert w.lines() == ["  store i32 2, ptr %x", "  br label %next", "next:", f"  {value} = load i32, ptr %x"]
    assert word.entry() == ["  %x = alloca i32"] and unread.entry() == []


def test_a_thread_that_ends_stores_nothing() -> None:
    w, word = writer(), Word("%x", "i32", placed=True)
    w.write(word, "i32", "1")
    w.leave()
    assert w.lines() == ["  ret void"]


def test_behind_a_branch_a_word_is_known_unless_a_side_wrote_it() -> None:
    w, kept, changed = writer(), Word("%x", "i32"), Word("%y", "i32")
    w.write(kept, "i32", "1")
    w.write(changed, "i32", "2")
    available = w.available()
    w.branch("%c", "then", "after")
    w.start("then", available)
    assert w.read(changed, "i32") == "2"
    w.write(changed, "i32", "3")
    w.jump("after")
    w.start("after", available)
    assert w.read(kept, "i32") == "1" and w.read(changed, "i32") not in ("2", "3")


def test_a_block_that_is_jumped_back_to_knows_no_word() -> None:
    w, word = writer(), Word("%x", "i32")
    w.write(word, "i32", "1")
    w.jump("loop")
    w.start("loop", w.available(), loops=True)
    assert w.read(word, "i32") != "1"


def test_an_array_stands_on_the_stack_only_where_an_access_needs_it() -> None:
    registers = Registers("%r", 4, 32, "i32", shared=True)
    assert registers.entry() == []
    registers.words[2].placed = registers.words[2].zeroed = True
    assert registers.entry() == ["  %r.2 = alloca i32", "  store i32 zeroinitializer, ptr %r.2"]
    registers.index()
    assert registers.entry()[0] == "  %r = alloca [4 x i32], align 16" and len(registers.entry()) == 6


def ptx_and_text(body: list[Stmt], a: Buffer) -> tuple[str, str]:
    k = kernel(body, [pointer(a, written=True)])
    return made(k).ptx, generate(k, target(k.target)).llvm_ir


def test_straight_code_holds_no_accesses_of_registers() -> None:
    a, r, i = array("A", float16, 4096), local("r", float16, 8), Var("i", int32)
    whole = Vector(r, const(0), 8)
    body: list[Stmt] = [
        Alloc(r),
        Move(whole, Vector(a, build.mul(THREAD, 8), 8)),
        unrolled(i, 8, Store(Vector(r, i), build.op("mul", Load(Vector(r, i)), Load(Vector(r, i))))),
        Move(Vector(a, build.mul(THREAD, 8), 8), whole),
    ]
    _, text = ptx_and_text(body, a)
    assert "alloca" not in text and text.count("store") == text.count("load") == 1


def test_a_place_known_at_run_time_sees_what_was_written_before_and_is_seen_behind() -> None:
    a, r = array("A", int32, 4096), local("r", int32, 4)
    place = build.mod(THREAD, 4)
    body: list[Stmt] = [
        Alloc(r),
        *(Store(Vector(r, const(n)), const(10 + n)) for n in range(4)),
        Store(Vector(r, place), const(77)),
        Store(Vector(a, THREAD), Load(Vector(r, const(2)))),
    ]
    ptx, text = ptx_and_text(body, a)
    stores = [line.split(",")[0].strip() for line in text.splitlines() if "store i32" in line]
    assert stores[:5] == [f"store i32 {n}" for n in (10, 11, 12, 13, 77)]
    assert "ld.local" in ptx, "the third register may be the one that was written"


def test_a_register_that_a_loop_changes_is_carried_without_memory() -> None:
    a, r, i = array("A", uint32, 4096), local("r", float32, 2), Var("i", int32)
    bits = Buffer("bits", "local", uint32, (2,), TileLayout.row_major((2,)), 4, base=r)
    sums, total = Vector(r, const(1)), Var("total", uint32)
    body: list[Stmt] = [
        Alloc(r),
        BufferView(bits),
        Store(sums, Const(0.0, float32)),
        Declare(total, Const(0, uint32)),
        For(i, const(0), THREAD, const(1), (
            Store(sums, build.op("add", Load(sums), Const(1.5, float32))),
            If(build.less(i, 3), (Store(sums, Const(2.5, float32)),)),
        )),
        Store(Vector(a, THREAD), Load(Vector(bits, const(1)))),
    ]
    ptx, _ = ptx_and_text(body, a)
    assert ".local" not in ptx and ptx.count("add.rn.f32") + ptx.count("add.f32") >= 1
