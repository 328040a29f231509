"""Statements: control flow, variables, moves and barriers to LLVM blocks and instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dtypes import int64
from ..ir.arithmetic import facts
from ..ir.nodes import (
    Alloc,
    Assert,
    Assign,
    Break,
    Continue,
    Declare,
    Expr,
    For,
    If,
    Instruction,
    Let,
    Loop,
    Move,
    Op,
    Print,
    Return,
    Stmt,
    Store,
    Sync,
    Var,
    Vector,
    View,
)  # fmt: skip
from ..isa.barriers import BARRIERS
from ..scopes import CTA, SCOPES
from . import memory
from .casts import cast
from .context import Context, Value
from .expressions import evaluate, integer, offset_of, special
from .machine import instruction
from .offsets import by_depth, groups
from .registers import Word
from .report import assertion, printed
from .tensor_memory import cta_barrier
from .types import register_type


def block(ctx: Context, body: Sequence[Stmt]) -> None:
    """Writes statements until one ends the block; what follows it is never reached."""
    for stmt in body:
        if not ctx.writer.open:
            return
        before = ctx.writer.at(stmt.span)
        EMITTERS[type(stmt)](ctx, stmt)
        ctx.writer.restore(before)


# ---- variables ----------------------------------------------------------------------------------------------


def _let(ctx: Context, stmt: Let) -> None:
    var, value = stmt.var, stmt.value
    if not (var.dtype.is_integer and isinstance(value, Op) and value.name == "add"):
        _define(ctx, var, evaluate(ctx, value))
        return
    offset = offset_of(ctx, value)
    if len(groups(ctx, offset.parts)) < 2:
        _define(ctx, var, evaluate(ctx, value))
        return
    ctx.sums[var.name] = by_depth(ctx, offset)
    ctx.constants.pop(var.name, None)


def _define(ctx: Context, var: Var, value: Value) -> None:
    ctx.scalars[var.name] = value
    ctx.sums.pop(var.name, None)
    if value.const is not None and var.dtype.is_integer:
        ctx.constants[var.name] = int(value.const.value)
    else:
        ctx.constants.pop(var.name, None)


def _declare(ctx: Context, stmt: Declare) -> None:
    name = stmt.var.name
    if name not in ctx.slots:
        ctx.slots[name] = Word(ctx.writer.label("%v."), register_type(stmt.var.dtype))
    if stmt.init is not None:
        _assign(ctx, Assign(stmt.var, stmt.init, stmt.span))


def _assign(ctx: Context, stmt: Assign) -> None:
    value = evaluate(ctx, stmt.value)
    slot = ctx.slots[stmt.var.name]
    ctx.writer.write(slot, slot.kind, value.text)


# ---- control flow -------------------------------------------------------------------------------------------


def _if(ctx: Context, stmt: If) -> None:
    condition = evaluate(ctx, stmt.cond)
    if condition.const is not None:
        block(ctx, stmt.then if condition.const.value else stmt.orelse)
        return
    w = ctx.writer
    then, orelse, after = w.label("then"), w.label("else"), w.label("endif")
    known = w.known()
    w.branch(condition.text, then, orelse if stmt.orelse else after)
    w.start(then, known)
    block(ctx, stmt.then)
    reached = w.open or not stmt.orelse
    w.jump(after)
    if stmt.orelse:
        w.start(orelse, known)
        block(ctx, stmt.orelse)
        reached = reached or w.open
        w.jump(after)
    if reached:
        w.start(after, known)


def _for(ctx: Context, stmt: For) -> None:
    if stmt.unrolled:
        _unrolled(ctx, stmt)
        return
    w, var = ctx.writer, stmt.var
    start, stop, step = (evaluate(ctx, e) for e in (stmt.start, stmt.stop, stmt.step))
    dtype = var.dtype if _stays_inside(stmt) else int64
    kind = f"i{dtype.bits}"
    first, last, by = (cast(ctx, x, dtype).text for x in (start, stop, step))
    header, body, latch, after = (w.label(hint) for hint in ("for", "body", "next", "endfor"))
    before, following = w.block, w.label("%i")
    w.enter_loop(header)
    w.start(header, w.known(), loops=True)
    index = w.value(f"phi {kind} [ {first}, %{before} ], [ {following}, %{latch} ]")
    down = step.const is not None and int(step.const.value) < 0
    sign = "u" if dtype.kind == "uint" else "s"
    more = w.value(f"icmp {sign}{'gt' if down else 'lt'} {kind} {index}, {last}")
    known = w.known()
    w.branch(more, body, after)
    w.start(body, known)
    _define(ctx, var, cast(ctx, Value(index, dtype), var.dtype))
    _looped(ctx, stmt.body, latch, after)
    w.start(latch)
    flags = "" if down and sign == "u" else f"n{sign}w "
    w.effect(f"{following} = add {flags}{kind} {index}, {by}")
    w.jump(header)
    w.start(after, w.leave_loop(known))


def _stays_inside(stmt: For) -> bool:
    """Whether the index one step past the loop's end still fits its type."""
    low, high = facts.dtype_range(stmt.var.dtype)
    if stmt.var.dtype.bits == 64:
        return True
    step = facts.bounds(stmt.step)
    stop = facts.bounds(stmt.stop)
    if None in (low, high, step[0], step[1], stop[0], stop[1]):
        return False
    assert low is not None and high is not None and step[0] is not None and step[1] is not None
    assert stop[0] is not None and stop[1] is not None
    # The last index inside is stop - 1 (stop + 1 downwards).
    return stop[1] - 1 + step[1] <= high and stop[0] + 1 + step[0] >= low


def _unrolled(ctx: Context, stmt: For) -> None:
    start, stop, step = (_constant(ctx, e) for e in (stmt.start, stmt.stop, stmt.step))
    for index in range(start, stop, step):
        _define(ctx, stmt.var, integer(index, stmt.var.dtype))
        block(ctx, stmt.body)


def _constant(ctx: Context, expr: Expr) -> int:
    value = evaluate(ctx, expr)
    assert value.const is not None, "an unrolled loop has constant bounds"
    return int(value.const.value)


def _loop(ctx: Context, stmt: Loop) -> None:
    w = ctx.writer
    body, after = w.label("loop"), w.label("endloop")
    known = w.known()
    w.enter_loop(body)
    w.start(body, known, loops=True)
    _looped(ctx, stmt.body, body, after)
    w.start(after, w.leave_loop(known))


def _looped(ctx: Context, body: Sequence[Stmt], again: str, after: str) -> None:
    ctx.continues.append(again)
    ctx.breaks.append(after)
    block(ctx, body)
    ctx.writer.jump(again)
    ctx.continues.pop()
    ctx.breaks.pop()


def _break(ctx: Context, stmt: Break) -> None:
    ctx.writer.jump(ctx.breaks[-1])


def _continue(ctx: Context, stmt: Continue) -> None:
    ctx.writer.jump(ctx.continues[-1])


def _return(ctx: Context, stmt: Return) -> None:
    ctx.writer.leave()


# ---- memory -------------------------------------------------------------------------------------------------


def _alloc(ctx: Context, stmt: Alloc) -> None:
    """Storage is laid out before the body is written."""


def _view(ctx: Context, stmt: View) -> None:
    """A view is its root's storage."""


def _store(ctx: Context, stmt: Store) -> None:
    assert isinstance(stmt.place, Vector), "lowering leaves no Element"
    value = evaluate(ctx, stmt.value)
    memory.store(ctx, stmt.place.buffer, offset_of(ctx, stmt.place.offset), value)


def _move(ctx: Context, stmt: Move) -> None:
    words = memory.words_of(stmt.src.buffer.dtype, stmt.src.width)
    predicate = None if stmt.predicate is None else evaluate(ctx, stmt.predicate)
    if predicate is not None and predicate.const is not None:
        if predicate.const.value:
            predicate = None
        else:
            _fill(ctx, stmt, words)
            return
    if predicate is None:
        _transfer(ctx, stmt, words)
        return
    _guarded(ctx, stmt, words, predicate)


def _transfer(ctx: Context, stmt: Move, words: memory.Words) -> None:
    values = memory.read(ctx, stmt.src, offset_of(ctx, stmt.src.offset), words)
    memory.write(ctx, stmt.dst, offset_of(ctx, stmt.dst.offset), words, values)


def _fill(ctx: Context, stmt: Move, words: memory.Words) -> None:
    """What a move whose predicate is false does."""
    if stmt.otherwise is None:
        return
    word = memory.splat(ctx, evaluate(ctx, stmt.otherwise), words)
    memory.write(ctx, stmt.dst, offset_of(ctx, stmt.dst.offset), words, [word] * words.number)


def _guarded(ctx: Context, stmt: Move, words: memory.Words, predicate: Value) -> None:
    """The move in a branch of its own; registers get the alternative where it isn't taken."""
    w = ctx.writer
    then, after = w.label("move"), w.label("moved")
    _fill(ctx, stmt, words)
    known = w.known()
    w.branch(predicate.text, then, after)
    w.start(then, known)
    _transfer(ctx, stmt, words)
    w.jump(after)
    w.start(after, known)


# ---- barriers -----------------------------------------------------------------------------------------------


def _sync(ctx: Context, stmt: Sync) -> None:
    scope = SCOPES[stmt.scope]
    if scope is CTA:
        cta_barrier(ctx, stmt.span)
        return
    barrier, words = BARRIERS[scope], []
    if barrier.arguments and scope.number_id is not None:
        # barrier 0 is the CTA's
        number = special(ctx, scope.number_id.name).text
        words.append(ctx.writer.value(f"add i32 {number}, 1"))
    ctx.machine(barrier, *words, span=stmt.span)


EMITTERS: dict[type, Callable[[Context, Any], None]] = {
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
    View: _view,
    Store: _store,
    Move: _move,
    Sync: _sync,
    Assert: assertion,
    Print: printed,
    Instruction: instruction,
}
