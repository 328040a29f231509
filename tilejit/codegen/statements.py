"""Lower statements to LLVM blocks and instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..dtypes import int32
from ..ir import walk
from ..ir.nodes import (
    Alloc,
    Assert,
    Assign,
    Atomic,
    Break,
    Breakpoint,
    BufferView,
    Continue,
    Declare,
    Expr,
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
    Vector,
    WaitPhase,
)
from ..ir.walk import Block, Place
from ..remember import remembered
from . import barriers, memory
from .atomics import atomic
from .casts import cast
from .counting import counted
from .emission import Emission, LLVMValue
from .expressions import evaluate, offset_of
from .machine import instruction, view
from .registers import Word
from .report import assertion, printed, stopped
from .types import register_type
from .writer import Join


def block(emission: Emission, body: Sequence[Stmt], is_last: bool = False) -> None:
    """Emit `body`, except statements that are unreachable. is_last: the kernel ends after `body`."""
    w = emission.writer
    before, span = w.at(None), None
    last = len(body) if is_last else 0
    for number, stmt in enumerate(body, 1):
        if not w.open:
            break
        emission.is_last = number == last
        if stmt.span is not span:
            # comparing identities is fast and sufficient: the statements of unrolled iterations share `Span` objects
            span = stmt.span
            if span is None:
                w.restore(before)
            else:
                w.at(span)
        EMITTERS[type(stmt)](emission, stmt)
    w.restore(before)


def _let(emission: Emission, stmt: Let) -> None:
    emission.scalars[stmt.var.name] = evaluate(emission, stmt.value)


def _declare(emission: Emission, stmt: Declare) -> None:
    name = stmt.var.name
    if name not in emission.slots:
        emission.slots[name] = Word(register_type(stmt.var.dtype))
    if stmt.init is not None:
        _assign(emission, Assign(stmt.var, stmt.init, stmt.span))


def _assign(emission: Emission, stmt: Assign) -> None:
    value = evaluate(emission, stmt.value)
    slot = emission.slots[stmt.var.name]
    emission.writer.write(slot, slot.kind, value.text)


def _if(emission: Emission, stmt: If) -> None:
    condition, w, is_last = evaluate(emission, stmt.cond), emission.writer, emission.is_last
    after = w.join("endif", is_last)
    leaves = stmt.then[0] if len(stmt.then) == 1 and not stmt.orelse else None
    if isinstance(leaves, (Break, Continue)):
        w.branch(condition.text, _target(emission, leaves), after)
        w.start(after)
        return
    then, orelse = w.join("then"), w.join("else") if stmt.orelse else after
    w.branch(condition.text, then, orelse)
    w.start(then)
    block(emission, stmt.then, is_last)
    w.jump(after)
    if stmt.orelse:
        w.start(orelse)
        block(emission, stmt.orelse, is_last)
        w.jump(after)
    w.start(after)


def _for(emission: Emission, stmt: For) -> None:
    """Emit a counted loop, with a test before the loop if it may have no iteration, and one after each iteration.

    If the body's first compound statement is another exit test and the index can't overflow, there is a test before
    each iteration instead.
    """
    assert not stmt.unrolled, "unrolled loops have been expanded"
    w = emission.writer
    # arithmetic on narrower integers takes more instructions
    dtype = stmt.var.dtype if stmt.var.dtype.bits >= 32 else int32
    start, stop, step = [cast(emission, evaluate(emission, e), dtype).text for e in (stmt.start, stmt.stop, stmt.step)]
    control = counted(w, stmt, dtype, start, stop, step, emission.kernel.threads)
    # if the loop's test comes first, LLVM merges it with the one at the start of the body, and rotates the loop
    tests_first = control.stays_inside and _tests_first(stmt.body)
    index, after = Word(control.kind), w.join("endfor", emission.is_last)
    if control.has_one and not tests_first:
        entry = w.join("loop")
        w.branch(control.has_one, entry, after)
        w.start(entry)
    w.write(index, index.kind, start)
    head = w.join("body")
    w.jump(head)
    w.start(head, [index, *control.words, *_changing(emission, stmt.body)])
    present = w.read(index, index.kind)
    if tests_first:
        emission.tests_first = True
        iteration = w.join("iteration")
        w.branch(control.goes_on(w, present), iteration, after)
        w.start(iteration)
    emission.scalars[stmt.var.name] = cast(emission, LLVMValue(present, dtype), stmt.var.dtype)
    _loop_body(emission, stmt.body, w.join("next"), after)
    if w.open:
        following, more = control.advance(w, present)
        w.write(index, index.kind, following)
        if tests_first:
            w.jump(head)
        else:
            w.branch(more, head, after)
    w.start(after)


def _loop_body(emission: Emission, body: Sequence[Stmt], again: Join, after: Join) -> None:
    emission.continues.append(again)
    emission.breaks.append(after)
    block(emission, body)
    emission.writer.continue_at(again)
    emission.continues.pop()
    emission.breaks.pop()


def _loop(emission: Emission, stmt: Loop) -> None:
    w = emission.writer
    emission.tests_first = emission.tests_first or _tests_first(stmt.body)
    after = w.join("endloop", emission.is_last)
    head = w.join("loop")
    w.jump(head)
    w.start(head, _changing(emission, stmt.body))
    _loop_body(emission, stmt.body, w.join("next"), after)
    w.jump(head)
    w.start(after)


class Changes(NamedTuple):
    """The names of the assigned variables, and of the roots of the written local buffers, as ordered sets."""

    variables: dict[str, None]
    buffers: dict[str, None]


# cached: the result for a loop is part of the result for each loop that encloses it
@remembered
def changed(body: Block) -> Changes:
    """Return the targets of the `Assign`s in `body`, nested ones included, and the local buffers that it writes."""
    variables: dict[str, None] = {}
    buffers: dict[str, None] = {}
    places: list[Place] = []
    for stmt in body:
        # `walk.writes`, inlined: the calls would dominate the cost here
        if isinstance(stmt, Store):
            places.append(stmt.place)
        elif isinstance(stmt, Move):
            places.append(stmt.dst)
        elif isinstance(stmt, Instruction):
            places += stmt.outputs
        elif isinstance(stmt, Assign):
            variables[stmt.var.name] = None
        elif isinstance(stmt, walk.COMPOUND):
            for inner in map(changed, walk.blocks(stmt)):
                variables.update(inner.variables)
                buffers.update(inner.buffers)
    for place in places:
        buffer = place.buffer
        if buffer.space == "local":
            buffers[buffer.name if buffer.base is None else buffer.root.name] = None
    return Changes(variables, buffers)


def _changing(emission: Emission, body: Block) -> list[Word]:
    """Return the words, except named PTX registers, of existing variables and buffers that `body` may change."""
    changes = changed(body)
    words = [emission.slots[name] for name in changes.variables if name in emission.slots]
    for name in changes.buffers:
        if name in emission.registers and not emission.registers[name].prefix:
            words += emission.registers[name].words
    return words


def _tests_first(body: Sequence[Stmt]) -> bool:
    """True if the first compound statement of a loop's body is an `if` with a branch that only breaks."""
    first = next((each for each in body if isinstance(each, walk.COMPOUND)), None)
    return isinstance(first, If) and any(len(b) == 1 and isinstance(b[0], Break) for b in walk.blocks(first))


def _target(emission: Emission, stmt: Break | Continue) -> Join:
    return (emission.breaks if isinstance(stmt, Break) else emission.continues)[-1]


def _leave_iteration(emission: Emission, stmt: Break | Continue) -> None:
    emission.writer.jump(_target(emission, stmt))


def _return(emission: Emission, stmt: Return) -> None:
    emission.writer.leave()


def _alloc(emission: Emission, stmt: Alloc) -> None:
    """Emit nothing: storage is laid out before the body."""


def _store(emission: Emission, stmt: Store) -> None:
    assert isinstance(stmt.place, Vector), "lowering leaves no Element"
    value = evaluate(emission, stmt.value)
    memory.store(emission, stmt.place.buffer, offset_of(emission, stmt.place.offset), value, stmt.order)


def _move(emission: Emission, stmt: Move) -> None:
    words, guard = memory.words_of(stmt.src.buffer.dtype, stmt.src.width), None
    if stmt.predicate is not None:
        predicate = evaluate(emission, stmt.predicate)
        # LLVM folds a branch on a constant
        if predicate.const is not None or not memory.takes_guard(emission, stmt):
            _branched(emission, stmt, words, predicate)
            return
        otherwise = "" if stmt.otherwise is None else _otherwise(emission, stmt.otherwise, words)
        guard = memory.Guard(predicate.text, otherwise)
    values = memory.read(emission, stmt.src, offset_of(emission, stmt.src.offset), words, stmt.order, stmt.cache, guard)
    memory.write(emission, stmt.dst, offset_of(emission, stmt.dst.offset), words, values, stmt.order, stmt.cache, guard)


def _otherwise(emission: Emission, value: Expr, words: memory.WordFormat) -> str:
    return memory.splat(emission, evaluate(emission, value), words)


def _branched(emission: Emission, stmt: Move, words: memory.WordFormat, predicate: LLVMValue) -> None:
    """Emit a predicated move as a branch; a value for a false predicate is first written to the destination."""
    w = emission.writer
    if stmt.otherwise is not None:
        otherwise = [_otherwise(emission, stmt.otherwise, words)] * words.number
        memory.write(emission, stmt.dst, offset_of(emission, stmt.dst.offset), words, otherwise)
    # addresses are computed before the branch, so that other moves can share them
    src = offset_of(emission, stmt.src.offset)
    memory.locate(emission, stmt.src.buffer, src)
    dst = offset_of(emission, stmt.dst.offset)
    memory.locate(emission, stmt.dst.buffer, dst)
    then, after = w.join("move"), w.join("moved")
    w.branch(predicate.text, then, after)
    w.start(then)
    values = memory.read(emission, stmt.src, src, words, stmt.order, stmt.cache)
    memory.write(emission, stmt.dst, dst, words, values, stmt.order, stmt.cache)
    w.jump(after)
    w.start(after)


EMITTERS: dict[type, Callable[[Emission, Any], None]] = {
    Let: _let,
    Declare: _declare,
    Assign: _assign,
    If: _if,
    For: _for,
    Loop: _loop,
    Break: _leave_iteration,
    Continue: _leave_iteration,
    Return: _return,
    Alloc: _alloc,
    BufferView: view,
    Store: _store,
    Atomic: atomic,
    Move: _move,
    Sync: barriers.sync,
    Assert: assertion,
    Print: printed,
    Breakpoint: stopped,
    Instruction: instruction,
    WaitPhase: barriers.wait,
}
