"""What a running kernel tells the host: `print` and `assert`."""

from __future__ import annotations

from typing import NamedTuple

from ..dtypes import float64, int32, uint32
from ..ir.nodes import Assert, Print
from ..isa.atomics import COMPARE_AND_SWAP
from .casts import cast
from .context import Context, Value
from .debug import quoted
from .expressions import evaluate, special


class _Argument(NamedTuple):
    """A variadic argument: its conversion in the format, its LLVM type and value, its size in bytes."""

    conversion: str
    kind: str
    text: str
    size: int


def printed(ctx: Context, stmt: Print) -> None:
    """`vprintf` of the parts: integers in decimal, floats as `%g`, bools as True and False."""
    pieces: list[str] = []
    arguments: list[_Argument] = []
    for part in stmt.parts:
        if isinstance(part, str):
            pieces.append(part.replace("%", "%%"))
            continue
        argument = _argument(ctx, evaluate(ctx, part))
        pieces.append(argument.conversion)
        arguments.append(argument)
    text = _string(ctx, "".join(pieces))
    ctx.writer.intrinsic("i32", "vprintf", ("ptr", text), ("ptr", _argument_block(ctx, arguments)))


def _argument(ctx: Context, value: Value) -> _Argument:
    """The value as the variadic argument that C makes of it."""
    dtype = value.dtype
    if dtype.kind == "bool":
        names = f"ptr {_string(ctx, 'True')}, ptr {_string(ctx, 'False')}"
        return _Argument("%s", "ptr", ctx.writer.value(f"select i1 {value.text}, {names}"), 8)
    if dtype.is_float:
        return _Argument("%g", "double", cast(ctx, value, float64).text, 8)
    letter = "u" if dtype.kind == "uint" else "d"
    if dtype.bits == 64:
        return _Argument(f"%ll{letter}", "i64", value.text, 8)
    return _Argument(f"%{letter}", "i32", cast(ctx, value, uint32 if letter == "u" else int32).text, 4)


def _argument_block(ctx: Context, arguments: list[_Argument]) -> str:
    """The address of the arguments in a row, each aligned to its size, as `vprintf` takes them."""
    if not arguments:
        return "null"
    w = ctx.writer
    block = w.alloca(f"[{8 * len(arguments)} x i8]", 8)
    at = 0
    for argument in arguments:
        at = -(-at // argument.size) * argument.size
        place = w.value(f"getelementptr i8, ptr {block}, i64 {at}")
        w.effect(f"store {argument.kind} {argument.text}, ptr {place}, align {argument.size}")
        at += argument.size
    return block


def _string(ctx: Context, text: str) -> str:
    """The generic address of a constant string."""
    name = f"@text{len(ctx.strings)}"
    data = text.encode() + b"\0"
    inside = quoted(text) + "\\00"
    ctx.strings[name] = f'{name} = private unnamed_addr addrspace(1) constant [{len(data)} x i8] c"{inside}"'
    return f"addrspacecast (ptr addrspace(1) {name} to ptr)"


def assertion(ctx: Context, stmt: Assert) -> None:
    """Ends the thread where the condition doesn't hold; the first such thread of a launch leaves a record.

    A trap instruction instead would destroy the CUDA context.
    """
    if ctx.record is None:
        return
    w, record = ctx.writer, ctx.record
    condition = evaluate(ctx, stmt.cond).text
    ctx.messages.append((stmt.message, stmt.span))
    failed, first, ended, after = (w.label(hint) for hint in ("failed", "first", "ended", "asserted"))
    w.branch(condition, after, failed)
    w.start(failed)
    place = w.value(f"ptrtoint ptr addrspace(1) {record} to i64")
    before = ctx.machine(COMPARE_AND_SWAP, place, "0", str(len(ctx.messages)))
    w.branch(w.value(f"icmp eq i32 {before}, 0"), first, ended)
    w.start(first)
    names = ("thread_id", "cta_id.0", "cta_id.1", "cta_id.2")
    for word, name in enumerate(names, start=1):
        number = cast(ctx, special(ctx, name), int32).text
        to = w.value(f"getelementptr i32, ptr addrspace(1) {record}, i64 {word}")
        w.effect(f"store i32 {number}, ptr addrspace(1) {to}, align 4")
    w.jump(ended)
    w.start(ended)
    w.leave()
    w.start(after)
