"""`Instruction` statements: machine instructions whose operands are registers and addresses."""

from __future__ import annotations

from ..dtypes import int32
from ..ir.nodes import Instruction, Vector
from . import memory
from .casts import cast
from .context import TYPES, Context, Value
from .expressions import evaluate
from .instructions import TABLE
from .types import register_type

#: bits in memory of an operand of each constraint; a predicate is a byte
_BITS = {"r": 32, "l": 64, "h": 16, "f": 32, "d": 64, "n": 32, "b": 8}


def instruction(ctx: Context, stmt: Instruction) -> None:
    """One instruction of the table; its results go to the statement's output registers."""
    entry = TABLE[stmt.name]
    operands: list[str] = []
    for item in stmt.inputs:
        letters = entry.inputs[len(operands) :] if not entry.tied else "r" * _total_words(item)
        if isinstance(item, Vector):
            operands += _vector_operands(ctx, item, letters)
        else:
            operands.append(_converted(ctx, evaluate(ctx, item), letters[0]))
    result = ctx.machine(stmt.name, *operands, span=stmt.span)
    _store_results(ctx, stmt, entry.outputs if not entry.tied else "r" * len(operands), result)


def _total_words(item: object) -> int:
    return item.width * item.buffer.dtype.bits // 32 if isinstance(item, Vector) else 1


def _vector_operands(ctx: Context, vector: Vector, letters: str) -> list[str]:
    """A local vector's registers, or another vector's address.

    In tensor memory the offset counts 32-bit columns, and 65536 a lane.
    """
    w = ctx.writer
    offset = evaluate(ctx, vector.offset)
    if vector.buffer.space == "tmem":
        return [w.value(f"add i32 {ctx.base(vector.buffer)}, {cast(ctx, offset, int32).text}")]
    if vector.buffer.space == "local":
        total = vector.width * vector.buffer.dtype.bits
        bits = _BITS[letters[0]]
        words = memory.Words(bits, total // bits, f"i{bits}")
        values = memory.read(ctx, vector.buffer, offset, words)
        kinds = (TYPES[letter] for letter in letters)
        return [
            v if k == words.word else w.value(f"bitcast {words.word} {v} to {k}")
            for v, k in zip(values, kinds, strict=False)
        ]
    pointer, place = memory.address(ctx, vector.buffer, offset)
    return [w.value(f"ptrtoint {pointer} {place} to {TYPES[letters[0]]}")]


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
        parts = [w.value(f"extractvalue {kind} {result}, {i}") for i in range(len(letters))]
    else:
        parts = [result] if letters else []
    at = 0
    for vector in stmt.outputs:
        bits = _BITS[letters[at]]
        count = vector.width * vector.buffer.dtype.bits // bits
        words = memory.Words(bits, count, f"i{bits}")
        chosen = [_as_word(ctx, p, letters[at]) for p in parts[at : at + count]]
        memory.write(ctx, vector.buffer, evaluate(ctx, vector.offset), words, chosen)
        at += count


def _as_word(ctx: Context, text: str, letter: str) -> str:
    kind = TYPES[letter]
    if letter == "b":
        return ctx.writer.value(f"zext i1 {text} to i8")
    return text if kind.startswith("i") else ctx.writer.value(f"bitcast {kind} {text} to i{_BITS[letter]}")
