"""Loads, stores and vector moves.

A buffer's elements are touched one by one (`load`, `store`) or as a vector in one access (`read`, `write`). A
vector travels as words, whatever its elements are: of 64 bits for 8-byte elements, else of 32 bits, or one of 16 or
8 bits if the vector is no larger. So 16 bytes are `ld.global.v4.b32` or `.v2.b64`.

A local buffer is a thread's registers, or local memory like any other: `ctx.registers` knows which.
"""

from __future__ import annotations

from functools import cache
from math import gcd
from typing import NamedTuple

from ..dtypes import DType
from ..ir.arithmetic import facts
from ..ir.nodes import Buffer, Vector
from ..isa.access import GLOBAL_256
from .context import Context, Offset, Value
from .offsets import stages, whole
from .registers import Registers, Word
from .types import ADDRESS_SPACES, bits_of, memory_type, register_type

#: the widest access of local memory, to which its buffers are aligned
WIDEST_BYTES = 16


class Words(NamedTuple):
    """How a vector travels: `number` values of `bits` bits, of LLVM type `word`."""

    bits: int
    number: int
    word: str

    @property
    def vector(self) -> str:
        return self.word if self.number == 1 else f"<{self.number} x {self.word}>"


@cache
def words_of(dtype: DType, width: int) -> Words:
    """The words that a vector of `width` elements travels as."""
    total = width * dtype.bits
    bits = 64 if dtype.bits == 64 else min(total, 32)
    if total % bits:
        raise ValueError(f"{width} elements of {dtype} don't fill whole registers")
    # An element that is a word keeps its type: else LLVM rewrites the access where its value is first used, and
    # the access gets that line.
    return Words(bits, total // bits, register_type(dtype) if dtype.bits == bits and dtype.bits >= 32 else f"i{bits}")


def address(ctx: Context, buffer: Buffer, offset: Offset) -> tuple[str, str]:
    """The type and value of the pointer to an element in memory."""
    pointer = f"ptr addrspace({ADDRESS_SPACES[buffer.space]})"
    place, past = _place(ctx, buffer, offset, pointer, ctx.base(buffer))
    if buffer.space == "local" and past:
        # written for each access, the constant becomes a part of it; known from another block it is an addition
        return pointer, ctx.writer.fresh(f"getelementptr i8, {pointer} {place}, i64 {past}")
    return pointer, _past(ctx, pointer, place, past)


def _place(ctx: Context, buffer: Buffer, offset: Offset, pointer: str, base: str) -> tuple[str, int]:
    """An address from `base` on, and the bytes from there to the element.

    Addresses have 64 bits: a sum that wraps around in 32 must be whole before it becomes one.
    """
    if offset.wraps:
        offset = whole(ctx, offset)
    for part in stages(ctx, offset):
        index = f"i{part.dtype.bits} {part.text}"
        base = ctx.writer.value(f"getelementptr {memory_type(buffer.dtype)}, {pointer} {base}, {index}")
    return base, offset.past * buffer.dtype.bytes


def _past(ctx: Context, pointer: str, place: str, count: int) -> str:
    """The address `count` bytes further."""
    return ctx.writer.value(f"getelementptr i8, {pointer} {place}, i64 {count}") if count else place


def load(ctx: Context, buffer: Buffer, offset: Offset) -> Value:
    """The element at `offset`."""
    kind = memory_type(buffer.dtype)
    if _in_registers(ctx, buffer):
        text = _load_register(ctx, buffer, offset, kind)
    else:
        pointer, place = address(ctx, buffer, offset)
        text = ctx.writer.value(f"load {kind}, {pointer} {place}, align {buffer.dtype.bytes}")
    if buffer.dtype.kind == "bool":
        text = ctx.writer.value(f"icmp ne i8 {text}, 0")
    return Value(text, buffer.dtype)


def store(ctx: Context, buffer: Buffer, offset: Offset, value: Value) -> None:
    """Writes the element at `offset`."""
    text, kind = value.text, memory_type(buffer.dtype)
    if buffer.dtype.kind == "bool":
        text = ctx.writer.value(f"zext i1 {text} to i8")
    if _in_registers(ctx, buffer):
        _store_register(ctx, buffer, offset, kind, text)
        return
    pointer, place = address(ctx, buffer, offset)
    ctx.writer.effect(f"store {kind} {text}, {pointer} {place}, align {buffer.dtype.bytes}")


def _in_registers(ctx: Context, buffer: Buffer) -> bool:
    """Whether a buffer's elements are registers, which have no addresses."""
    return buffer.root.name in ctx.registers


# ---- registers ------------------------------------------------------------------------------------------------


def _load_register(ctx: Context, buffer: Buffer, offset: Offset, kind: str) -> str:
    """The element of a local buffer at `offset`.

    One that is a part of a register is taken out of it, and put into it, as a vector's component, which becomes one
    `mov`. As an access of its own size it would become shifts and masks once LLVM makes registers of the stack.
    """
    registers = ctx.registers[buffer.root.name]
    count = registers.bits // buffer.dtype.bits
    if offset.parts or count <= 1:
        return _read_registers(ctx, buffer, offset, Words(buffer.dtype.bits, 1, kind))[0]
    parts = f"<{count} x {kind}>"
    number, part = divmod(offset.past, count)
    whole = ctx.writer.read(registers.words[number], parts)
    return ctx.writer.value(f"extractelement {parts} {whole}, i32 {part}")


def _store_register(ctx: Context, buffer: Buffer, offset: Offset, kind: str, text: str) -> None:
    """Writes the element of a local buffer at `offset`."""
    w, registers = ctx.writer, ctx.registers[buffer.root.name]
    count = registers.bits // buffer.dtype.bits
    if offset.parts or count <= 1:
        _write_registers(ctx, buffer, offset, Words(buffer.dtype.bits, 1, kind), [text])
        return
    parts = f"<{count} x {kind}>"
    number, part = divmod(offset.past, count)
    word = registers.words[number]
    word.zeroed = True
    changed = w.value(f"insertelement {parts} {w.read(word, parts)}, {kind} {text}, i32 {part}")
    w.write(word, parts, changed)


def _read_registers(ctx: Context, buffer: Buffer, offset: Offset, words: Words) -> list[str]:
    """The words of a vector of a local buffer."""
    w, registers = ctx.writer, ctx.registers[buffer.root.name]
    found = _registers(buffer, registers, offset, words)
    if found is not None:
        return [w.read(word, words.word) for word in found]
    w.save(registers.words)
    places = _stack_places(ctx, buffer, registers, offset, words)
    return [w.value(f"load {words.word}, ptr {place}, align {buffer.dtype.bytes}") for place in places]


def _write_registers(ctx: Context, buffer: Buffer, offset: Offset, words: Words, values: list[str]) -> None:
    """Writes the words of a vector of a local buffer."""
    w, registers = ctx.writer, ctx.registers[buffer.root.name]
    found = _registers(buffer, registers, offset, words)
    if found is not None:
        for word, value in zip(found, values, strict=True):
            w.write(word, words.word, value)
        return
    w.save(registers.words)
    places = _stack_places(ctx, buffer, registers, offset, words)
    for place, value in zip(places, values, strict=True):
        w.effect(f"store {words.word} {value}, ptr {place}, align {buffer.dtype.bytes}")
    w.forget(registers.words)


def _registers(buffer: Buffer, registers: Registers, offset: Offset, words: Words) -> list[Word] | None:
    """The registers that a vector's words are, or None where they aren't whole ones or it is unknown which."""
    if offset.parts or words.bits != registers.bits:
        return None
    first, within = divmod(offset.past * buffer.dtype.bits, words.bits)
    return None if within else registers.words[first : first + words.number]


def _stack_places(ctx: Context, buffer: Buffer, registers: Registers, offset: Offset, words: Words) -> list[str]:
    """The addresses of a vector's words in the registers' array."""
    registers.indexed, size = True, words.bits // 8
    place, past = _place(ctx, buffer, offset, "ptr", registers.address)
    return [_past(ctx, "ptr", place, past + index * size) for index in range(words.number)]


# ---- vectors --------------------------------------------------------------------------------------------------


def read(ctx: Context, vector: Vector, offset: Offset, words: Words) -> list[str]:
    """The words of a vector, which is at `offset`: one access of memory, or registers."""
    w, buffer = ctx.writer, vector.buffer
    if _in_registers(ctx, buffer):
        return _read_registers(ctx, buffer, offset, words)
    access, align = _access(ctx, vector, words)
    values: list[str] = []
    for first in range(0, words.number, access.number):
        pointer, place = address(ctx, buffer, _further(buffer, offset, first * words.bits))
        loaded = w.value(f"load {access.vector}, {pointer} {place}, align {align}")
        if access.number == 1:
            values.append(loaded)
            continue
        values += [w.value(f"extractelement {access.vector} {loaded}, i32 {i}") for i in range(access.number)]
    return values


def write(ctx: Context, vector: Vector, offset: Offset, words: Words, values: list[str]) -> None:
    """Writes the words of a vector, which is at `offset`: one access of memory, or registers."""
    w, buffer = ctx.writer, vector.buffer
    if _in_registers(ctx, buffer):
        _write_registers(ctx, buffer, offset, words, values)
        return
    access, align = _access(ctx, vector, words)
    for first in range(0, words.number, access.number):
        stored = values[first]
        if access.number > 1:
            stored = "poison"
            for i, value in enumerate(values[first : first + access.number]):
                stored = w.value(f"insertelement {access.vector} {stored}, {access.word} {value}, i32 {i}")
        pointer, place = address(ctx, buffer, _further(buffer, offset, first * words.bits))
        w.effect(f"store {access.vector} {stored}, {pointer} {place}, align {align}")


def _further(buffer: Buffer, offset: Offset, bits: int) -> Offset:
    """The offset of what lies so many bits further."""
    return offset._replace(past=offset.past + bits // buffer.dtype.bits) if bits else offset


def _access(ctx: Context, vector: Vector, words: Words) -> tuple[Words, int]:
    """The words that one access moves, and the bytes that its address is a multiple of.

    It moves the whole vector, but for local memory: what is a vector of registers may begin at any of them.
    """
    if vector.buffer.space != "local":
        return words, _access_bytes(ctx, vector.buffer, words)
    align = gcd(WIDEST_BYTES, facts.multiple_of(vector.offset) * vector.buffer.dtype.bytes)
    number = gcd(words.number, max(align * 8 // words.bits, 1))
    return words._replace(number=number), min(align, number * words.bits // 8)


def _access_bytes(ctx: Context, buffer: Buffer, words: Words) -> int:
    """The access's size, which its address is a multiple of; notes what PTX version it needs."""
    size = words.bits * words.number // 8
    if size & (size - 1):
        raise ValueError(f"no access of {buffer.name} moves {size} bytes at once")
    if size == 32 and buffer.space == "global" and ctx.has(GLOBAL_256):
        ctx.used[GLOBAL_256] = None
    return size


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
