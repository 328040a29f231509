"""Loads, stores and vector moves.

A buffer's elements are touched one by one (`load`, `store`) or as a vector in one access (`read`, `write`). A
vector travels as words, whatever its elements are: of 64 bits for 8-byte elements, else of 32 bits, or one of 16 or
8 bits if the vector is no larger. So 16 bytes are `ld.global.v4.b32` or `.v2.b64`.
"""

from __future__ import annotations

from typing import NamedTuple

from ..dtypes import DType
from ..ir.nodes import Buffer
from .context import Context, Value
from .instructions import WIDE_ACCESS
from .types import ADDRESS_SPACES, bits_of, memory_type, register_type


class Words(NamedTuple):
    """How a vector travels: `number` values of `bits` bits, of LLVM type `word`."""

    bits: int
    number: int
    word: str

    @property
    def vector(self) -> str:
        return self.word if self.number == 1 else f"<{self.number} x {self.word}>"


def words_of(dtype: DType, width: int) -> Words:
    """The words that a vector of `width` elements travels as."""
    total = width * dtype.bits
    bits = 64 if dtype.bits == 64 else min(total, 32)
    if total % bits:
        raise ValueError(f"{width} elements of {dtype} don't fill whole registers")
    # An element that is a word keeps its type: else LLVM rewrites the access where its value is first used, and
    # the access gets that line.
    return Words(bits, total // bits, register_type(dtype) if dtype.bits == bits and dtype.bits >= 32 else f"i{bits}")


def address(ctx: Context, buffer: Buffer, offset: Value, extra_bytes: int = 0) -> tuple[str, str]:
    """The type and value of the pointer to an element (`offset` in elements)."""
    pointer = f"ptr addrspace({ADDRESS_SPACES[buffer.space]})" if buffer.space != "local" else "ptr"
    base = ctx.base(buffer)
    if offset.const is not None:
        at_bytes = int(offset.const.value) * buffer.dtype.bytes + extra_bytes
        if at_bytes == 0:
            return pointer, base
        return pointer, ctx.writer.value(f"getelementptr i8, {pointer} {base}, i64 {at_bytes}")
    index = f"i{offset.dtype.bits} {offset.text}"
    place = ctx.writer.value(f"getelementptr {memory_type(buffer.dtype)}, {pointer} {base}, {index}")
    if extra_bytes:
        place = ctx.writer.value(f"getelementptr i8, {pointer} {place}, i64 {extra_bytes}")
    return pointer, place


def load(ctx: Context, buffer: Buffer, offset: Value) -> Value:
    """The element at `offset`."""
    if _shares_a_word(buffer, offset):
        text = _load_component(ctx, buffer, offset)
    else:
        pointer, place = address(ctx, buffer, offset)
        text = ctx.writer.value(f"load {memory_type(buffer.dtype)}, {pointer} {place}, align {buffer.dtype.bytes}")
    if buffer.dtype.kind == "bool":
        text = ctx.writer.value(f"icmp ne i8 {text}, 0")
    return Value(text, buffer.dtype)


def store(ctx: Context, buffer: Buffer, offset: Value, value: Value) -> None:
    """Writes the element at `offset`."""
    text = value.text
    if buffer.dtype.kind == "bool":
        text = ctx.writer.value(f"zext i1 {text} to i8")
    if _shares_a_word(buffer, offset):
        _store_component(ctx, buffer, offset, text)
        return
    pointer, place = address(ctx, buffer, offset)
    ctx.writer.effect(f"store {memory_type(buffer.dtype)} {text}, {pointer} {place}, align {buffer.dtype.bytes}")


# ---- registers of less than 32 bits ---------------------------------------------------------------------------


def _shares_a_word(buffer: Buffer, offset: Value) -> bool:
    """Whether the element is part of a 32-bit register, as vectors move it.

    Such an element is taken out of and put into its word as a vector's component, which becomes one `mov`. As an
    access of its own size it would become shifts and masks once LLVM makes registers of the array.
    """
    return buffer.space == "local" and buffer.dtype.bits < 32 and offset.const is not None


def _word(ctx: Context, buffer: Buffer, offset: Value) -> tuple[str, str, str, int]:
    """The word's address and value, as a vector of elements: its type; and which component the element is."""
    assert offset.const is not None
    w = ctx.writer
    first, at = divmod(int(offset.const.value) * buffer.dtype.bytes, 4)
    place = ctx.base(buffer) if first == 0 else w.value(f"getelementptr i8, ptr {ctx.base(buffer)}, i64 {4 * first}")
    kind = f"<{32 // buffer.dtype.bits} x {memory_type(buffer.dtype)}>"
    word = w.value(f"load i32, ptr {place}, align 4")
    return place, w.value(f"bitcast i32 {word} to {kind}"), kind, at // buffer.dtype.bytes


def _load_component(ctx: Context, buffer: Buffer, offset: Value) -> str:
    _, parts, kind, index = _word(ctx, buffer, offset)
    return ctx.writer.value(f"extractelement {kind} {parts}, i32 {index}")


def _store_component(ctx: Context, buffer: Buffer, offset: Value, text: str) -> None:
    w = ctx.writer
    place, parts, kind, index = _word(ctx, buffer, offset)
    changed = w.value(f"insertelement {kind} {parts}, {memory_type(buffer.dtype)} {text}, i32 {index}")
    w.effect(f"store i32 {w.value(f'bitcast {kind} {changed} to i32')}, ptr {place}, align 4")


# ---- vectors --------------------------------------------------------------------------------------------------


def read(ctx: Context, buffer: Buffer, offset: Value, words: Words) -> list[str]:
    """The words of the vector at `offset`: one access of memory, or registers."""
    w = ctx.writer
    if buffer.space == "local":
        return [_read_register(ctx, buffer, offset, words, i) for i in range(words.number)]
    pointer, place = address(ctx, buffer, offset)
    align = _access_bytes(ctx, buffer, words)
    vector = w.value(f"load {words.vector}, {pointer} {place}, align {align}")
    if words.number == 1:
        return [vector]
    return [w.value(f"extractelement {words.vector} {vector}, i32 {i}") for i in range(words.number)]


def write(ctx: Context, buffer: Buffer, offset: Value, words: Words, values: list[str]) -> None:
    """Writes the words of the vector at `offset`: one access of memory, or registers."""
    w = ctx.writer
    if buffer.space == "local":
        for i, value in enumerate(values):
            pointer, place = address(ctx, buffer, offset, i * words.bits // 8)
            w.effect(f"store {words.word} {value}, {pointer} {place}, align {_register_align(buffer, offset, words)}")
        return
    vector = values[0]
    if words.number > 1:
        vector = "poison"
        for i, value in enumerate(values):
            vector = w.value(f"insertelement {words.vector} {vector}, {words.word} {value}, i32 {i}")
    align = _access_bytes(ctx, buffer, words)
    pointer, place = address(ctx, buffer, offset)
    w.effect(f"store {words.vector} {vector}, {pointer} {place}, align {align}")


def _access_bytes(ctx: Context, buffer: Buffer, words: Words) -> int:
    """The access's size, which its address is a multiple of; notes what PTX version it needs."""
    size = words.bits * words.number // 8
    if size & (size - 1):
        raise ValueError(f"no access of {buffer.name} moves {size} bytes at once")
    if size == 32 and buffer.space == "global" and ctx.has(WIDE_ACCESS):
        ctx.used[WIDE_ACCESS] = None
    return size


def _read_register(ctx: Context, buffer: Buffer, offset: Value, words: Words, index: int) -> str:
    pointer, place = address(ctx, buffer, offset, index * words.bits // 8)
    return ctx.writer.value(f"load {words.word}, {pointer} {place}, align {_register_align(buffer, offset, words)}")


def _register_align(buffer: Buffer, offset: Value, words: Words) -> int:
    """Bytes that divide the word's place: registers are stored in a 16-byte aligned array until LLVM removes it."""
    known = offset.const is not None and int(offset.const.value) * buffer.dtype.bytes % (words.bits // 8) == 0
    return words.bits // 8 if known else buffer.dtype.bytes


def splat(ctx: Context, value: Value, words: Words) -> str:
    """The word whose elements are all `value`."""
    dtype = value.dtype
    if dtype.bits == words.bits and register_type(dtype) == words.word:
        return value.text
    if value.const is not None:
        pattern, bits = bits_of(value.const), dtype.bits
        return str(sum(pattern << at for at in range(0, words.bits, bits)))
    bits_text = as_bits(ctx, value)
    if dtype.bits == words.bits:
        return bits_text
    wide = ctx.writer.value(f"zext i{dtype.bits} {bits_text} to {words.word}")
    ones = sum(1 << at for at in range(0, words.bits, dtype.bits))
    return ctx.writer.value(f"mul {words.word} {wide}, {ones}")


def as_bits(ctx: Context, value: Value) -> str:
    """The value's pattern in memory, as an integer of its width."""
    dtype, kind = value.dtype, register_type(value.dtype)
    if dtype.kind == "bool":
        return ctx.writer.value(f"zext i1 {value.text} to i8")
    if kind.startswith("i"):
        return value.text
    return ctx.writer.value(f"bitcast {kind} {value.text} to i{dtype.bits}")
