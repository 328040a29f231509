"""Registers: values, and phis where paths join."""

from __future__ import annotations

import numpy as np

from tests.codegen.devices import Simulator
from tests.support.lane_kernels import THREAD, array, const, kernel, local, pointer, unrolled
from tests.support.ptx import made
from tilejit.codegen import generate
from tilejit.codegen.debug import LineTable
from tilejit.codegen.registers import Word
from tilejit.codegen.writer import Writer
from tilejit.dtypes import float16, float32, int32, int64, uint8, uint32
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


def test_a_word_is_what_it_was_given() -> None:
    w, word = writer(), Word("i32")
    w.write(word, "i32", "%one")
    assert w.read(word, "i32") == "%one"
    w.write(word, "i32", "%two")
    assert w.read(word, "i32") == "%two" and w.lines() == []


def test_a_word_read_as_another_type_and_back_is_the_same_value() -> None:
    w, word = writer(), Word("i32")
    w.write(word, "float", "%f")
    bits = w.read(word, "i32")
    assert w.lines() == [f"  {bits} = bitcast float %f to i32"]
    w.write(word, "i32", bits)
    assert w.read(word, "float") == "%f"


def test_a_word_that_nothing_wrote_is_undefined_or_zero_of_any_type() -> None:
    w = writer()
    for word, value in ((Word("i32"), "undef"), (Word("i32", zeroed=True), "zeroinitializer")):
        assert w.read(word, "i32") == w.read(word, "<2 x half>") == value
    assert w.lines() == []


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
    assert "alloca" not in text, text
    assert text.count("store") == text.count("load") == 1


def test_a_vector_of_other_words_than_its_registers_is_put_together() -> None:
    """Registers of 32 bits: half a one as two bytes, and two as one number of 64 bits."""
    a, wide = array("A", float32, 4096), array("B", int64, 4096)
    r = local("r", float32, 4)
    bytes_of, pairs_of = (
        Buffer(name, "local", dtype, (16 // dtype.bytes,), TileLayout.row_major((16 // dtype.bytes,)), 4, base=r)
        for name, dtype in (("bytes", uint8), ("pairs", int64))
    )
    body: list[Stmt] = [
        Alloc(r), BufferView(bytes_of), BufferView(pairs_of),
        Move(Vector(r, const(0), 4), Vector(a, build.mul(THREAD, 4), 4)),
        Move(Vector(bytes_of, const(6), 2), Vector(bytes_of, const(12), 2)),
        Store(Vector(wide, build.mul(THREAD, 2)), Load(Vector(pairs_of, const(0)))),
        Store(Vector(pairs_of, const(0)), Const(77, int64)),
        Move(Vector(wide, build.add(build.mul(THREAD, 2), 1)), Vector(pairs_of, const(0))),
    ]
    made_of = kernel(body, [pointer(a), pointer(wide, written=True)], threads=1)
    given, seen = np.arange(4096, dtype=np.float32), np.zeros(4096, np.int64)
    Simulator().run(made_of, [given, seen])
    whole = given[:4].view(np.uint16)
    whole[3] = whole[6]
    assert seen[:2].tolist() == [int(whole[:4].view(np.int64)[0]), 77]


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
    ptx, text = ptx_and_text(body, a)
    assert "alloca" not in text
    assert text.count(" phi ") == 4, "of the index, and of the sum at the head, after the branch, and after the loop"
    assert ".local" not in ptx and ptx.count("add.rn.f32") + ptx.count("add.f32") >= 1
