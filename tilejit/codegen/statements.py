"""Statements: control flow, variables, moves and barriers to LLVM blocks and instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dtypes import DType, int32
from ..ir.nodes import (
    Alloc,
    Assert,
    Assign,
    Atomic,
    Break,
    BufferView,
    Continue,
    Declare,
    For,
    If,
    Instruction,
    Let,
    Loop,
    Move,
    Print,
    Return,
    Stmt,
    Store,
    Sync,
    Var,
    Vector,
    WaitPhase,
)
from . import barriers, memory
from .atomics import atomic
from .casts import cast
from .counting import counted, falls, stays_inside
from .emission import Emission, LLVMValue
from .expressions import evaluate, offset_of
from .machine import instruction, view
from .registers import Word
from .report import assertion, printed
from .types import register_type


def block(emission: Emission, body: Sequence[Stmt]) -> None:
    """Writes statements until one ends the block; what follows it is never reached."""
    w = emission.writer
    before, span = w.at(None), None
    for stmt in body:
        if not w.open:
            break
        if stmt.span is not span:
            # unrolled turns have the span of one statement
            span = stmt.span
            if span is None:
                w.restore(before)
            else:
                w.at(span)
        EMITTERS[type(stmt)](emission, stmt)
    w.restore(before)


def _let(emission: Emission, stmt: Let) -> None:
    _define(emission, stmt.var, evaluate(emission, stmt.value))


def _define(emission: Emission, var: Var, value: LLVMValue) -> None:
    emission.scalars[var.name] = value


def _declare(emission: Emission, stmt: Declare) -> None:
    name = stmt.var.name
    if name not in emission.slots:
        emission.slots[name] = Word(emission.writer.label("%v."), register_type(stmt.var.dtype))
    if stmt.init is not None:
        _assign(emission, Assign(stmt.var, stmt.init, stmt.span))


def _assign(emission: Emission, stmt: Assign) -> None:
    value = evaluate(emission, stmt.value)
    slot = emission.slots[stmt.var.name]
    emission.writer.write(slot, slot.kind, value.text)


def _if(emission: Emission, stmt: If) -> None:
    condition, w = evaluate(emission, stmt.cond), emission.writer
    then, orelse, after = w.label("then"), w.label("else"), w.label("endif")
    available = w.available()
    straight = w.path(available)
    w.branch(condition.text, then, orelse if stmt.orelse else after)
    w.start(then, available)
    block(emission, stmt.then)
    paths = [w.path(available), straight]
    w.jump(after)
    if stmt.orelse:
        w.start(orelse, available, paths=[straight])
        block(emission, stmt.orelse)
        paths[1] = w.path(available)
        w.jump(after)
    if any(paths):
        w.start(after, available, paths=paths)


def _for(emission: Emission, stmt: For) -> None:
    assert not stmt.unrolled, "unrolled loops are written out"
    # PTX computes in 32 bits at least
    dtype = stmt.var.dtype if stmt.var.dtype.bits >= 32 else int32
    limits = [cast(emission, evaluate(emission, e), dtype).text for e in (stmt.start, stmt.stop, stmt.step)]
    if stays_inside(stmt, dtype):
        _up_to_the_end(emission, stmt, dtype, *limits)
    else:
        _while_more_remains(emission, stmt, dtype, *limits)


def _up_to_the_end(emission: Emission, stmt: For, dtype: DType, start: str, stop: str, step: str) -> None:
    """Turns until the index reaches the end or passes it."""
    w, kind = emission.writer, f"i{dtype.bits}"
    header, body, latch, after = (w.label(hint) for hint in ("for", "body", "next", "endfor"))
    before, following = w.block, w.label("%i")
    w.jump(header)
    w.start(header, w.available(), loops=True)
    index = w.value(f"phi {kind} [ {start}, %{before} ], [ {following}, %{latch} ]")
    down, sign = falls(stmt), "u" if dtype.kind == "uint" else "s"
    more = w.value(f"icmp {sign}{'gt' if down else 'lt'} {kind} {index}, {stop}")
    available = w.available()
    w.branch(more, body, after)
    w.start(body, available)
    _define(emission, stmt.var, cast(emission, LLVMValue(index, dtype), stmt.var.dtype))
    _looped(emission, stmt.body, latch, after)
    w.start(latch)
    flags = "" if down and sign == "u" else f"n{sign}w "
    w.effect(f"{following} = add {flags}{kind} {index}, {step}")
    w.jump(header)
    w.start(after, available)


def _while_more_remains(emission: Emission, stmt: For, dtype: DType, start: str, stop: str, step: str) -> None:
    """Turns as long as more than a step remains to the end: no index is computed that its type can't hold."""
    w, kind = emission.writer, f"i{dtype.bits}"
    range_ = counted(w, stmt, dtype, start, stop, step)
    entry, header, latch, after = (w.label(hint) for hint in ("loop", "body", "next", "endfor"))
    following, next_left = w.label("%i"), w.label("%left")
    available = w.available()
    w.branch(range_.has_a_turn, entry, after)
    w.start(entry, available)
    w.jump(header)
    w.start(header, w.available(), loops=True)
    index = w.value(f"phi {kind} [ {start}, %{entry} ], [ {following}, %{latch} ]")
    if range_.distance:
        left = w.value(f"phi {kind} [ {range_.distance}, %{entry} ], [ {next_left}, %{latch} ]")
    _define(emission, stmt.var, cast(emission, LLVMValue(index, dtype), stmt.var.dtype))
    _looped(emission, stmt.body, latch, after)
    w.start(latch)
    if range_.distance:
        more = w.value(f"icmp ugt {kind} {left}, {range_.stride}")
        w.effect(f"{next_left} = sub {kind} {left}, {range_.stride}")
    else:
        more = w.value(f"icmp {range_.before} {kind} {index}, {range_.last_to_go_on}")
    w.effect(f"{following} = add {kind} {index}, {step}")
    w.branch(more, header, after)
    w.start(after, available)


def _loop(emission: Emission, stmt: Loop) -> None:
    w = emission.writer
    body, after = w.label("loop"), w.label("endloop")
    available = w.available()
    w.jump(body)
    w.start(body, available, loops=True)
    _looped(emission, stmt.body, body, after)
    w.start(after, available)


def _looped(emission: Emission, body: Sequence[Stmt], again: str, after: str) -> None:
    emission.continues.append(again)
    emission.breaks.append(after)
    block(emission, body)
    emission.writer.jump(again)
    emission.continues.pop()
    emission.breaks.pop()


def _break(emission: Emission, stmt: Break) -> None:
    emission.writer.jump(emission.breaks[-1])


def _continue(emission: Emission, stmt: Continue) -> None:
    emission.writer.jump(emission.continues[-1])


def _return(emission: Emission, stmt: Return) -> None:
    emission.writer.leave()


def _alloc(emission: Emission, stmt: Alloc) -> None:
    """Storage is laid out before the body is written."""


def _store(emission: Emission, stmt: Store) -> None:
    assert isinstance(stmt.place, Vector), "lowering leaves no Element"
    value = evaluate(emission, stmt.value)
    memory.store(emission, stmt.place.buffer, offset_of(emission, stmt.place.offset), value, stmt.order)


def _move(emission: Emission, stmt: Move) -> None:
    words = memory.words_of(stmt.src.buffer.dtype, stmt.src.width)
    if stmt.predicate is not None:
        _guarded(emission, stmt, words, evaluate(emission, stmt.predicate))
        return
    values = memory.read(emission, stmt.src, offset_of(emission, stmt.src.offset), words, stmt.order, stmt.cache)
    memory.write(emission, stmt.dst, offset_of(emission, stmt.dst.offset), words, values, stmt.order, stmt.cache)


def _fill(emission: Emission, stmt: Move, words: memory.WordFormat) -> None:
    """What a move whose predicate is false does."""
    if stmt.otherwise is None:
        return
    word = memory.splat(emission, evaluate(emission, stmt.otherwise), words)
    memory.write(emission, stmt.dst, offset_of(emission, stmt.dst.offset), words, [word] * words.number)


def _guarded(emission: Emission, stmt: Move, words: memory.WordFormat, predicate: LLVMValue) -> None:
    """The move in a branch of its own; registers get the alternative where it isn't taken."""
    w = emission.writer
    then, after = w.label("move"), w.label("moved")
    _fill(emission, stmt, words)
    # in front of the branch, so that other moves share the addresses
    src = offset_of(emission, stmt.src.offset)
    memory.locate(emission, stmt.src.buffer, src)
    dst = offset_of(emission, stmt.dst.offset)
    memory.locate(emission, stmt.dst.buffer, dst)
    available = w.available()
    straight = w.path(available)
    w.branch(predicate.text, then, after)
    w.start(then, available)
    values = memory.read(emission, stmt.src, src, words, stmt.order, stmt.cache)
    memory.write(emission, stmt.dst, dst, words, values, stmt.order, stmt.cache)
    moved = w.path(available)
    w.jump(after)
    w.start(after, available, paths=[moved, straight])


EMITTERS: dict[type, Callable[[Emission, Any], None]] = {
    Let: _let,
    Declare: _declare,
    Assign: _assign,
    If: _if,
    For: _for,
    Loop: _loop,
    Break: _break,
    Continue: _continue,
    Return: _return,
    Alloc: _alloc,
    BufferView: view,
    Store: _store,
    Atomic: atomic,
    Move: _move,
    Sync: barriers.sync,
    Assert: assertion,
    Print: printed,
    Instruction: instruction,
    WaitPhase: barriers.wait,
}
