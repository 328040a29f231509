"""`Instruction` statements: machine instructions whose operands are registers and addresses."""

from __future__ import annotations

from ..dtypes import int32
from ..ir.nodes import Instruction, Vector
from . import memory
from .casts import cast
from .context import TYPES, Context, Value
from .expressions import evaluate, index_value, offset_of
from .instructions import TABLE
from .offsets import stages
from .types import register_type

#: bits in memory of an operand of each constraint; a predicate is a byte
_BITS = {"r": 32, "l": 64, "h": 16, "f": 32, "d": 64, "n": 32, "b": 8}


def instruction(ctx: Context, stmt: Instruction) -> None:
    """One instruction of the table; its results go to the statement's output registers."""
    entry = TABLE[stmt.name]
    operands: list[str] = []
    past: dict[int, int] = {}
    for item in stmt.inputs:
        letter = "r" if entry.tied else entry.inputs[len(operands)]
        if isinstance(item, Vector) and item.buffer.space == "shared" and letter == "r":
            place, past[len(operands)] = _shared_address(ctx, item)
            operands.append(place)
        elif isinstance(item, Vector):
            operands += _vector_operands(ctx, item, letter)
        else:
            operands.append(_converted(ctx, evaluate(ctx, item), letter))
    result = ctx.machine(stmt.name, *operands, past=past, span=stmt.span)
    _store_results(ctx, stmt, entry.outputs if not entry.tied else "r" * len(operands), result)


def _vector_operands(ctx: Context, vector: Vector, letter: str) -> list[str]:
    """A local vector's registers, or another vector's address.

    In tensor memory the offset counts 32-bit columns, and 65536 a lane.
    """
    w = ctx.writer
    if vector.buffer.space == "tmem":
        column = cast(ctx, index_value(ctx, vector.offset), int32)
        return [w.value(f"add i32 {ctx.base(vector.buffer)}, {column.text}")]
    offset = offset_of(ctx, vector.offset)
    if vector.buffer.space == "local":
        words = memory.words_of(vector.buffer.dtype, vector.width)
        values = memory.read(ctx, vector.buffer, offset, words)
        return _regrouped(ctx, values, (words.word, words.bits), (TYPES[letter], _BITS[letter]))
    pointer, place = memory.address(ctx, vector.buffer, offset)
    return [w.value(f"ptrtoint {pointer} {place} to {TYPES[letter]}")]


def _regrouped(ctx: Context, values: list[str], source: tuple[str, int], target: tuple[str, int]) -> list[str]:
    """The same bits in registers of another type and size; both are (LLVM type, bits)."""
    w = ctx.writer
    (kind, bits), (to, to_bits) = source, target
    if kind == to:
        return values
    if bits == to_bits:
        return [w.bitcast(kind, v, to) for v in values]
    if bits > to_bits:
        parts = f"<{bits // to_bits} x {to}>"
        split = [w.bitcast(kind, v, parts) for v in values]
        return [w.value(f"extractelement {parts} {v}, i32 {i}") for v in split for i in range(bits // to_bits)]
    count = to_bits // bits
    vector, joined = f"<{count} x {kind}>", []
    for at in range(0, len(values), count):
        group = "poison"
        for i, value in enumerate(values[at : at + count]):
            group = w.value(f"insertelement {vector} {group}, {kind} {value}, i32 {i}")
        joined.append(w.bitcast(vector, group, to))
    return joined


def _shared_address(ctx: Context, vector: Vector) -> tuple[str, int]:
    """A 32-bit address, computed in 32 bits: pointers have 64, which would cost two additions and a truncation.

    returns: what all turns of an unrolled loop have in common, and the bytes that one adds.
    """
    w, size = ctx.writer, vector.buffer.dtype.bytes
    offset = offset_of(ctx, vector.offset)
    base = w.value(f"ptrtoint ptr addrspace(3) {ctx.base(vector.buffer)} to i32")
    for part in stages(ctx, offset):
        scaled = w.value(f"mul i32 {part.text}, {size}") if size > 1 else part.text
        base = w.value(f"add i32 {base}, {scaled}")
    return base, offset.past * size


def _converted(ctx: Context, value: Value, letter: str) -> str:
    """A scalar as the operand's constraint wants it: its pattern, zero-extended to a register."""
    kind = TYPES[letter]
    if register_type(value.dtype) == kind:
        return value.text
    bits = memory.as_bits(ctx, value)
    return ctx.writer.value(f"zext i{value.dtype.bits} {bits} to {kind}")


def _store_results(ctx: Context, stmt: Instruction, letters: str, result: str) -> None:
    w = ctx.writer
    if len(letters) > 1:
        kind = "{ " + ", ".join(TYPES[letter] for letter in letters) + " }"
        parts = [w.fresh(f"extractvalue {kind} {result}, {i}") for i in range(len(letters))]
    else:
        parts = [result] if letters else []
    at = 0
    for vector in stmt.outputs:
        words, letter = memory.words_of(vector.buffer.dtype, vector.width), letters[at]
        count = words.bits * words.number // _BITS[letter]
        chosen = parts[at : at + count]
        if letter == "b":
            chosen = [w.value(f"zext i1 {part} to i8") for part in chosen]
        made = _regrouped(
            ctx, chosen, ("i8" if letter == "b" else TYPES[letter], _BITS[letter]), (words.word, words.bits)
        )
        memory.write(ctx, vector.buffer, offset_of(ctx, vector.offset), words, made)
        at += count
