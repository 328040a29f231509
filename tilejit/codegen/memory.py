"""Loads, stores and vector moves.

Elements are accessed one by one (`load`, `store`), or as a vector (`read`, `write`). A vector is moved as words, whose
size depends on the sizes of the elements and of the vector:

    elements of 8 bytes                       words of 64 bits     16 bytes are ld.global.v2.b64
    smaller elements, 4 bytes or more in all  words of 32 bits     16 bytes are ld.global.v4.b32
    1 or 2 bytes in all                       one word of 8 or 16 bits

A local buffer lives in a thread's registers if `emission.registers` contains it, otherwise in local memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import gcd
from typing import NamedTuple

from ..dtypes import DType
from ..ir.arithmetic import facts
from ..ir.nodes import Buffer, Const, Move, Vector
from ..isa.access import GLOBAL_256, LOAD, STORE, WIDEST_BITS, GlobalAccess
from .emission import Emission, LLVMValue, OffsetParts
from .registers import Registers, Word
from .types import bits_of, memory_type, pointer_type, register_type

#: size in bytes of the widest access to local memory, and alignment of the buffers there
WIDEST_BYTES = WIDEST_BITS // 8


class WordFormat(NamedTuple):
    """The words that a vector is moved as: `number` values of `bits` bits, of LLVM type `word`."""

    bits: int
    number: int
    word: str

    @property
    def vector(self) -> str:
        return self.word if self.number == 1 else f"<{self.number} x {self.word}>"


@cache
def words_of(dtype: DType, width: int) -> WordFormat:
    """Return the words that a vector of `width` elements is moved as. raises: ValueError if it ends inside a word."""
    total = width * dtype.bits
    bits = 64 if dtype.bits == 64 else min(total, 32)
    if total % bits:
        raise ValueError(f"{width} elements of {dtype} don't fill whole registers")
    # An element that fills a word of 32 or 64 bits keeps its type. If it were accessed as an integer, LLVM would
    # rewrite the access at the first use of its value, with that use's source line.
    word = register_type(dtype) if dtype.bits == bits and dtype.bits >= 32 else f"i{bits}"
    return WordFormat(bits, total // bits, word)


def address(emission: Emission, buffer: Buffer, offset: OffsetParts) -> tuple[str, str]:
    """Return the type and value of a pointer to an element in memory."""
    pointer, (place, past) = pointer_type(buffer.space), _place(emission, buffer, offset)
    if not past:
        return pointer, place
    # each local access gets its own sum, by `fresh`: LLVM folds the constant only into accesses in the same basic block
    # as the sum; for other accesses the sum would remain an addition
    emit = emission.writer.fresh if buffer.space == "local" else emission.writer.value
    return pointer, emit(f"getelementptr i8, {pointer} {place}, i64 {past}")


def locate(emission: Emission, buffer: Buffer, offset: OffsetParts) -> None:
    """Emit the run-time part of an element's address, except in local memory, so that later blocks can share it."""
    if buffer.space != "local":
        _place(emission, buffer, offset)


def _place(emission: Emission, buffer: Buffer, offset: OffsetParts) -> tuple[str, int]:
    """Return the run-time part of an element's address, and the byte offset to add to it."""
    base = emission.base(buffer)
    if offset.part is not None:
        base = element_address(emission, buffer, base, offset.part)
    return base, offset.past * buffer.dtype.bytes


def element_address(emission: Emission, buffer: Buffer, base: str, offset: LLVMValue) -> str:
    """Return the address of the element at `offset` from the address `base`."""
    kind, pointer = memory_type(buffer.dtype), pointer_type(buffer.space)
    return emission.writer.value(f"getelementptr {kind}, {pointer} {base}, i{offset.dtype.bits} {offset.text}")


#: scope of the memory model -> `syncscope` of LLVM, whose default is the system
_SCOPES = {
    "cta": 'syncscope("block") ', "cluster": 'syncscope("cluster") ', "gpu": 'syncscope("device") ', "sys": "",
}


def _ordered(order: str) -> tuple[str, str]:
    """Return the strings that a memory order adds to a `load` or `store`: after the opcode, and after the pointer."""
    if order in ("", "volatile"):
        return (" volatile" if order else ""), ""
    kind, scope = order.split(".")
    # PTX's relaxed is LLVM's monotonic
    return " atomic", f" {_SCOPES[scope]}{'monotonic' if kind == 'relaxed' else kind}"


def load(emission: Emission, buffer: Buffer, offset: OffsetParts, order: str = "") -> LLVMValue:
    """Return the element at `offset`. order: one of `ir.values.ORDERS["load"]`."""
    kind = memory_type(buffer.dtype)
    registers = emission.registers.get(buffer.root.name)
    if registers is not None:
        if registers.bits == buffer.dtype.bits and offset.part is None:
            text = emission.writer.read(registers.words[offset.past], kind)
        else:
            (text,) = _read_registers(emission, buffer, registers, offset, WordFormat(buffer.dtype.bits, 1, kind))
    else:
        pointer, place = address(emission, buffer, offset)
        qualifier, suffix = _ordered(order)
        if order:
            emission.ordered.add(buffer.root.name)
        text = emission.writer.value(f"load{qualifier} {kind}, {pointer} {place}{suffix}, align {buffer.dtype.bytes}")
    if buffer.dtype.kind == "bool":
        text = emission.writer.value(f"icmp ne i8 {text}, 0")
    return LLVMValue(text, buffer.dtype)


def store(emission: Emission, buffer: Buffer, offset: OffsetParts, value: LLVMValue, order: str = "") -> None:
    """Store the element at `offset`. order: one of `ir.values.ORDERS["store"]`."""
    text, kind = value.text, memory_type(buffer.dtype)
    if buffer.dtype.kind == "bool":
        text = emission.writer.value(f"zext i1 {value.text} to i8")
        emission.writer.set_result(f"icmp ne i8 {text}, 0", value.text)
    registers = emission.registers.get(buffer.root.name)
    if registers is not None:
        if registers.bits == buffer.dtype.bits and offset.part is None:
            emission.writer.write(registers.words[offset.past], kind, text)
        else:
            _write_registers(emission, buffer, registers, offset, WordFormat(buffer.dtype.bits, 1, kind), [text])
        return
    pointer, place = address(emission, buffer, offset)
    qualifier, suffix = _ordered(order)
    emission.writer.effect(f"store{qualifier} {kind} {text}, {pointer} {place}{suffix}, align {buffer.dtype.bytes}")


def _read_registers(
    emission: Emission, buffer: Buffer, registers: Registers, offset: OffsetParts, words: WordFormat
) -> list[str]:
    whole_words = _registers(buffer, registers, offset, words)
    if whole_words is not None:
        return [emission.writer.read(word, words.word) for word in whole_words]
    first, part = _parts(buffer, registers, offset, words)
    parts = [_read_part(emission, registers, first + k, part) for k in range(part.number)]
    return regrouped(emission, parts, (part.word, part.bits), (words.word, words.bits))


def _write_registers(
    emission: Emission, buffer: Buffer, registers: Registers, offset: OffsetParts, words: WordFormat, values: list[str]
) -> None:
    whole_words = _registers(buffer, registers, offset, words)
    if whole_words is not None:
        emission.writer.write_all(whole_words, words.word, values)
        return
    first, part = _parts(buffer, registers, offset, words)
    for k, value in enumerate(regrouped(emission, values, (words.word, words.bits), (part.word, part.bits))):
        _write_part(emission, registers, first + k, part, value)


def _registers(buffer: Buffer, registers: Registers, offset: OffsetParts, words: WordFormat) -> list[Word] | None:
    assert offset.part is None, "verified: offsets in registers are constants"
    if words.bits != registers.bits:
        return None
    first, within = divmod(offset.past * buffer.dtype.bits, words.bits)
    return None if within else registers.words[first : first + words.number]


def whole_registers(emission: Emission, vector: Vector) -> list[Word] | None:
    """Return the registers of a vector, or None if it is in memory or a word of it isn't a whole register."""
    registers, at = emission.registers.get(vector.buffer.root.name), vector.offset
    if registers is None or not isinstance(at, Const):
        return None
    words = words_of(vector.buffer.dtype, vector.width)
    return _registers(vector.buffer, registers, OffsetParts(None, int(at.value)), words)


def names_of(emission: Emission, vectors: Sequence[Vector]) -> list[str]:
    """Return the PTX names of the registers of `vectors`, all of one buffer, or [] unless all are named registers."""
    names: list[str] = []
    for vector in vectors:
        words = whole_registers(emission, vector)
        if words is None or not words[0].name:
            return []
        names += [word.name for word in words]
    return names


def _parts(
    buffer: Buffer, registers: Registers, offset: OffsetParts, words: WordFormat
) -> tuple[int, WordFormat]:
    """Divide a vector into parts of registers: return the first part's index in the buffer, and the parts' format."""
    begin = offset.past * buffer.dtype.bits
    bits = gcd(begin, words.bits, registers.bits)
    kind = words.word if bits == words.bits else f"i{bits}"
    return begin // bits, WordFormat(bits, words.number * words.bits // bits, kind)


def _read_part(emission: Emission, registers: Registers, number: int, part: WordFormat) -> str:
    """Return part `number` of a buffer: a register, or an element of a register viewed as a vector (one `mov`).

        32-bit register, float16 as <2 x half>:   | element 1 | element 0 |
                                                  31         16          0
    """
    count = registers.bits // part.bits
    if count == 1:
        return emission.writer.read(registers.words[number], part.word)
    parts = f"<{count} x {part.word}>"
    register = emission.writer.read(registers.words[number // count], parts)
    return emission.writer.value(f"extractelement {parts} {register}, i32 {number % count}")


def _write_part(emission: Emission, registers: Registers, number: int, part: WordFormat, value: str) -> None:
    w, count = emission.writer, registers.bits // part.bits
    word = registers.words[number // count]
    if count == 1:
        w.write(word, part.word, value)
        return
    word.zeroed, parts = True, f"<{count} x {part.word}>"
    w.write(word, parts, w.inserted(parts, w.read(word, parts), count, (part.word, value), number % count))


class Guard(NamedTuple):
    """The predicate of a global access, an LLVM value. otherwise: a loaded word's value if the predicate is false."""

    predicate: str
    otherwise: str = ""


def takes_guard(emission: Emission, move: Move) -> bool:
    """True if a predicated move should be a predicated access to global memory rather than a branch.

    It must be unordered, from or to registers. A load must have a value for a false predicate, and its registers must
    be copied to memory by some move: ptxas would delay a load whose values are used in computations, which makes
    `examples/bias_gelu.py` 3 % slower.
    """
    place = move.memory
    if place.buffer.space != "global" or move.order:
        return False
    registers = (move.dst if place is move.src else move.src).buffer.root.name
    if registers not in emission.registers:
        return False
    return place is move.dst or (move.otherwise is not None and registers in emission.moved_on)


def read(
    emission: Emission, vector: Vector, offset: OffsetParts, words: WordFormat, order: str = "", cache: str = "",
    guard: Guard | None = None,
) -> list[str]:
    """Return the words of a vector at `offset`, read from registers or loaded from memory.

    order: one of `ir.values.ORDERS["move"]`. cache: the cache policy of a global access; ordered accesses ignore it.
    guard: only for moves for which `takes_guard` is true.
    """
    w, buffer = emission.writer, vector.buffer
    registers = emission.registers.get(buffer.root.name)
    if registers is not None:
        return _read_registers(emission, buffer, registers, offset, words)
    if guard or (cache and buffer.space == "global" and not order):
        return _read_by_row(emission, buffer, offset, words, cache, guard)
    access, align = _access(emission, vector, words)
    qualifier, _ = _ordered(order)
    if order:
        emission.ordered.add(buffer.root.name)
    kind = access.vector
    values: list[str] = []
    for first in range(0, words.number, access.number):
        pointer, place = address(emission, buffer, _further(buffer, offset, first * words.bits))
        loaded = w.value(f"load{qualifier} {kind}, {pointer} {place}, align {align}")
        if access.number == 1:
            values.append(loaded)
            continue
        values += [w.value(f"extractelement {kind} {loaded}, i32 {i}") for i in range(access.number)]
    return values


def write(
    emission: Emission, vector: Vector, offset: OffsetParts, words: WordFormat, values: list[str], order: str = "",
    cache: str = "", guard: Guard | None = None,
) -> None:
    """Write the words of a vector at `offset` to registers or memory; the inverse of `read`, with its parameters."""
    w, buffer = emission.writer, vector.buffer
    registers = emission.registers.get(buffer.root.name)
    if registers is not None:
        _write_registers(emission, buffer, registers, offset, words, values)
        return
    if guard or (cache and buffer.space == "global" and not order):
        _write_by_row(emission, buffer, offset, words, values, cache, guard)
        return
    access, align = _access(emission, vector, words)
    kind = access.vector
    for first in range(0, words.number, access.number):
        stored = values[first]
        if access.number > 1:
            stored = _gathered(emission, kind, access.word, values[first : first + access.number])
        pointer, place = address(emission, buffer, _further(buffer, offset, first * words.bits))
        w.effect(f"store{_ordered(order)[0]} {kind} {stored}, {pointer} {place}, align {align}")


def _read_by_row(
    emission: Emission, buffer: Buffer, offset: OffsetParts, words: WordFormat, cache: str, guard: Guard | None
) -> list[str]:
    """Return the words of a vector in global memory, loaded by instructions that LLVM doesn't select."""
    form = _form(emission, words, cache, guard)
    row, values = LOAD.row(form), list[str]()
    guarded = () if guard is None else (guard.predicate,)
    otherwise = () if guard is None else _as_registers(emission, words, [guard.otherwise]) * form.number
    for first in range(0, words.number, form.number):
        place, past = global_address(emission, buffer, _further(buffer, offset, first * words.bits))
        values += emission.machine(row, *otherwise, place, *guarded, past={len(otherwise): past})
    if words.bits == 8:
        return [emission.writer.value(f"trunc i16 {value} to {words.word}") for value in values]
    return values


def _write_by_row(
    emission: Emission, buffer: Buffer, offset: OffsetParts, words: WordFormat, values: list[str], cache: str,
    guard: Guard | None,
) -> None:
    form = _form(emission, words, cache, guard)
    stored, predicate = _as_registers(emission, words, values), () if guard is None else (guard.predicate,)
    for first in range(0, words.number, form.number):
        place, past = global_address(emission, buffer, _further(buffer, offset, first * words.bits))
        parts = stored[first : first + form.number]
        emission.machine(STORE.row(form), place, *parts, *predicate, past={0: past})


def _form(emission: Emission, words: WordFormat, cache: str, guard: Guard | None) -> GlobalAccess:
    """Return the form of an access that moves all words, or the widest form if that moves fewer."""
    widest = 2 * WIDEST_BITS if not cache and emission.has(GLOBAL_256) else WIDEST_BITS
    number = min(words.number, widest // words.bits)
    return GlobalAccess(words.bits, number, not words.word.startswith("i"), cache, guarded=guard is not None)


def _as_registers(emission: Emission, words: WordFormat, values: list[str]) -> list[str]:
    if words.bits > 8:
        return values
    return [emission.writer.value(f"zext {words.word} {value} to i16") for value in values]


def global_address(emission: Emission, buffer: Buffer, offset: OffsetParts) -> tuple[str, int]:
    """Return the run-time part of an element's global address as an i64, and the byte offset to add to it."""
    place, past = _place(emission, buffer, offset)
    return emission.writer.value(f"ptrtoint {pointer_type(buffer.space)} {place} to i64"), past


def _further(buffer: Buffer, offset: OffsetParts, bits: int) -> OffsetParts:
    return OffsetParts(offset.part, offset.past + bits // buffer.dtype.bits) if bits else offset


def _access(emission: Emission, vector: Vector, words: WordFormat) -> tuple[WordFormat, int]:
    """Return the words that one access moves, and its alignment in bytes.

    It moves the whole vector, except perhaps in local memory, where a vector may be aligned to less than its size.
    """
    if vector.buffer.space != "local":
        return words, _access_bytes(emission, vector.buffer, words)
    offset_bytes = facts.multiple_of(vector.offset) * vector.buffer.dtype.bytes
    align = gcd(WIDEST_BYTES, _root_offset_divisor(vector.buffer), offset_bytes)
    number = gcd(words.number, max(align * 8 // words.bits, 1))
    return words._replace(number=number), min(align, number * words.bits // 8)


def _root_offset_divisor(buffer: Buffer) -> int:
    """Return a divisor of a buffer's offset in bytes from its root; 0 if the offset is zero."""
    number, view = 0, buffer
    while view.base is not None:
        if view.offset is not None:
            number = gcd(number, facts.multiple_of(view.offset) * view.dtype.bytes)
        view = view.base
    return number


def _access_bytes(emission: Emission, buffer: Buffer, words: WordFormat) -> int:
    """Return the size of an access in bytes, which is also its alignment; record the use of a 32-byte global access.

    raises: ValueError if the size isn't a power of two.
    """
    size = words.bits * words.number // 8
    if size & (size - 1):
        raise ValueError(f"no single access to {buffer.name} moves {size} bytes")
    if size == 32 and buffer.space == "global" and emission.has(GLOBAL_256):
        emission.used[GLOBAL_256] = None
    return size


def splat(emission: Emission, value: LLVMValue, words: WordFormat) -> str:
    """Return the word whose elements all equal `value`."""
    dtype = value.dtype
    if dtype.bits == words.bits and register_type(dtype) == words.word:
        return value.text
    # a word in which bit 0 of each element is set
    ones = ((1 << words.bits) - 1) // ((1 << dtype.bits) - 1)
    if value.const is not None:
        return str(bits_of(value.const) * ones)
    bits_text = as_bits(emission, value)
    if dtype.bits == words.bits:
        return bits_text
    wide = emission.writer.value(f"zext i{dtype.bits} {bits_text} to {words.word}")
    return emission.writer.value(f"mul {words.word} {wide}, {ones}")


def as_bits(emission: Emission, value: LLVMValue) -> str:
    """Return the value's bits in memory as an integer of the same width."""
    dtype, kind = value.dtype, register_type(value.dtype)
    if dtype.kind == "bool":
        return emission.writer.value(f"zext i1 {value.text} to i8")
    if kind.startswith("i"):
        return value.text
    return emission.writer.value(f"bitcast {kind} {value.text} to i{dtype.bits}")


def regrouped(emission: Emission, values: list[str], source: tuple[str, int], target: tuple[str, int]) -> list[str]:
    """Return the bits of `values` in registers of another type and size. source, target: (LLVM type, bits)."""
    w = emission.writer
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
    vector = f"<{count} x {kind}>"
    groups = (values[at : at + count] for at in range(0, len(values), count))
    return [w.bitcast(vector, _gathered(emission, vector, kind, group), to) for group in groups]


def _gathered(emission: Emission, vector: str, kind: str, values: list[str]) -> str:
    """Return a vector of the LLVM type `vector` whose elements are `values`, of type `kind`."""
    made = "poison"
    for i, value in enumerate(values):
        made = emission.writer.value(f"insertelement {vector} {made}, {kind} {value}, i32 {i}")
    return made
