"""Code generation for `print`, `breakpoint` and assertions: `assert` statements and the checks of checked builds."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ..dtypes import float64, int32, int64, uint32
from ..ir.nodes import Assert, Breakpoint, Print, Region, Vector
from ..ir.params import AssertionsParam
from ..isa.atomics import COMPARE_AND_SWAP
from ..layout import TileLayout
from .casts import cast
from .debug import quoted
from .emission import Emission, LLVMValue, OffsetParts
from .expressions import evaluate, special
from .memory import address, load
from .types import memory_type

#: field of an assertion record -> name of the `Special` whose value it holds
_RECORDED = {"thread": "thread_id", "cta_x": "cta_id.0", "cta_y": "cta_id.1", "cta_z": "cta_id.2"}


class _PrintfArgument(NamedTuple):
    conversion: str
    kind: str
    text: str
    size: int


def printed(emission: Emission, stmt: Print) -> None:
    """Emit a `vprintf` call: integers in decimal, floats as `%g`, bools as True and False."""
    pieces: list[str] = []
    arguments: list[_PrintfArgument] = []
    for part in stmt.parts:
        if isinstance(part, str):
            pieces.append(part.replace("%", "%%"))
            continue
        argument = _argument(emission, evaluate(emission, part))
        pieces.append(argument.conversion)
        arguments.append(argument)
    text = _string(emission, "".join(pieces))
    emission.writer.intrinsic("i32", "vprintf", ("ptr", text), ("ptr", _argument_block(emission, arguments)))


def _argument(emission: Emission, value: LLVMValue) -> _PrintfArgument:
    """Return a value as a variadic argument: an integer of 32 or 64 bits, a double or, for a bool, a string."""
    dtype = value.dtype
    if dtype.kind == "bool":
        names = f"ptr {_string(emission, 'True')}, ptr {_string(emission, 'False')}"
        return _PrintfArgument("%s", "ptr", emission.writer.value(f"select i1 {value.text}, {names}"), 8)
    if dtype.is_float:
        return _PrintfArgument("%g", "double", cast(emission, value, float64).text, 8)
    letter = "u" if dtype.kind == "uint" else "d"
    if dtype.bits == 64:
        return _PrintfArgument(f"%ll{letter}", "i64", value.text, 8)
    return _PrintfArgument(f"%{letter}", "i32", cast(emission, value, uint32 if letter == "u" else int32).text, 4)


def stopped(emission: Emission, stmt: Breakpoint) -> None:
    """Emit a call of the simulator's function `__breakpoint(text, values)`; values: their address, as for `vprintf`.

    The text is the JSON of the span's column in `.loc`, which LLVM drops if it merges calls, of the names, and of a
    description of each value. Of memory, the value is the address.
    """
    arguments: list[_PrintfArgument] = []
    described: list[dict[str, Any]] = []
    for value in stmt.values:
        assert not isinstance(value, Region), "lowering leaves no Region"
        if not isinstance(value, Vector):
            elements, about = [evaluate(emission, value)], dict[str, Any](dtype=value.dtype.name)
        else:
            buffer = value.buffer
            about = {"dtype": buffer.dtype.name, "space": buffer.space, "name": buffer.name}
            if isinstance(buffer.layout, TileLayout):
                about |= {"layout": repr(buffer.layout), "shape": buffer.shape, "slots": buffer.slots}
            if buffer.space == "local":
                elements = [load(emission, buffer, OffsetParts(None, k)) for k in range(value.width)]
            else:
                pointer, place = address(emission, buffer, OffsetParts(None, 0))
                number = emission.writer.value(f"ptrtoint {pointer} {place} to i64")
                elements = [LLVMValue(number, int64)]
        described.append({**about, "count": len(elements)})
        arguments += [_raw(emission, element) for element in elements]
    spans = emission.writer.line_table.spans
    column = spans.index(stmt.span) + 1 if stmt.span in spans else 0
    text = _string(emission, json.dumps([column, json.loads(stmt.names), described]))
    emission.writer.intrinsic("i32", "__breakpoint", ("ptr", text), ("ptr", _argument_block(emission, arguments)))


def _raw(emission: Emission, value: LLVMValue) -> _PrintfArgument:
    text = emission.writer.value(f"zext i1 {value.text} to i8") if value.dtype.kind == "bool" else value.text
    return _PrintfArgument("", memory_type(value.dtype), text, value.dtype.bytes)


def _argument_block(emission: Emission, arguments: list[_PrintfArgument]) -> str:
    """Store the arguments for `vprintf`, each aligned to its size, and return their address; null if there are none."""
    if not arguments:
        return "null"
    w = emission.writer
    block = w.alloca(f"[{8 * len(arguments)} x i8]", 8)
    at = 0
    for argument in arguments:
        at = -(-at // argument.size) * argument.size
        place = w.value(f"getelementptr i8, ptr {block}, i64 {at}")
        w.effect(f"store {argument.kind} {argument.text}, ptr {place}, align {argument.size}")
        at += argument.size
    return block


def _string(emission: Emission, text: str) -> str:
    name = f"@text{len(emission.strings)}"
    data = text.encode() + b"\0"
    inside = quoted(text) + "\\00"
    emission.strings[name] = f'{name} = private unnamed_addr addrspace(1) constant [{len(data)} x i8] c"{inside}"'
    return f"addrspacecast (ptr addrspace(1) {name} to ptr)"


def some_thread_failed(emission: Emission) -> str:
    """Return an i1: true if an assertion failed in this launch, or in another of the kernel and wasn't reported yet."""
    w = emission.writer
    code = w.value(f"load volatile i32, ptr addrspace(1) {emission.record}, align 4")
    return w.value(f"icmp ne i32 {code}, 0")


def assertion(emission: Emission, stmt: Assert) -> None:
    """Emit an assertion that ends the thread on failure; the first thread to fail writes the record.

    Nothing is emitted if assertions are not compiled in. The thread exits without a trap, which would destroy the CUDA
    context. Barriers of a CTA, warp or cluster don't wait for threads that have ended, and threads that wait at an
    mbarrier read the record (`barriers.wait`). But threads that wait at a barrier of a warpgroup or of the grid, at a
    named barrier or for a flag don't read it: their launch may never end, and then the host never reads the record.
    """
    if emission.record is None:
        return
    w, record = emission.writer, emission.record
    condition = evaluate(emission, stmt.cond).text
    emission.assertions.append(stmt)
    failed, after = w.join("failed"), w.join("asserted")
    w.branch(condition, after, failed)
    w.start(failed)
    place = w.value(f"ptrtoint ptr addrspace(1) {record} to i64")
    (before,) = emission.machine(COMPARE_AND_SWAP, place, "0", str(len(emission.assertions)))
    first, ended = w.join("first"), w.join("ended")
    w.branch(w.value(f"icmp eq i32 {before}, 0"), first, ended)
    w.start(first)
    for word, name in _RECORDED.items():
        number = cast(emission, special(emission, name), int32).text
        to = w.value(f"getelementptr i32, ptr addrspace(1) {record}, i64 {AssertionsParam.WORDS.index(word)}")
        w.effect(f"store i32 {number}, ptr addrspace(1) {to}, align 4")
    for k, value in enumerate(stmt.values):
        offset = AssertionsParam.WORDS_BYTES + 8 * k
        to = w.value(f"getelementptr i8, ptr addrspace(1) {record}, i64 {offset}")
        w.effect(f"store i64 {evaluate(emission, value).text}, ptr addrspace(1) {to}, align 8")
    w.jump(ended)
    w.start(ended)
    w.leave()
    w.start(after)
