"""Lower `Instruction` statements: machine instructions on registers and addresses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ..dataclass import replace
from ..dtypes import DType, bool_, float32, int32
from ..ir.nodes import Buffer, BufferView, Descriptor, Input, Instruction, Vector
from ..isa import ROWS, Kind, Operand, Row
from ..isa.opaque import COPY
from ..isa.row import F32, Register
from . import memory
from .casts import cast
from .emission import TYPES, Emission, LLVMValue
from .expressions import evaluate, offset_of
from .types import register_type

#: mask of a shared address within a CTA; the bits above it select a CTA of the cluster
_WITHIN_CTA = 0x3FFFF


def instruction(emission: Emission, stmt: Instruction) -> None:
    """Emit an instruction. Its first results go to the outputs; the rest form the value of the variable, if any."""
    row = ROWS[stmt.name]
    operands: list[str] = []
    past: dict[int, int] = {}
    carried: list[Operand] = []
    starts: dict[str, str] = {}
    carries = row.carries
    inputs, outputs, named = _values(emission, row, stmt)
    arguments = row.arguments_without_sums if named else row.arguments
    for number, item in enumerate(inputs):
        if carries is not None and isinstance(item, Vector) and number < len(outputs):
            # a float32 vector has float registers
            kind = _as_floats(carries) if item.buffer.dtype == float32 else carries
            values = _vector_operands(emission, item, kind)
            operands += values
            carried += [kind] * len(values)
            continue
        operand = arguments[len(operands) - len(carried)]
        if isinstance(item, Vector):
            if operand.kind is Kind.ADDRESS and item.buffer.space == "shared":
                place, offset = shared_address(emission, item)
                if offset and f"[${operand.name}]" not in row.text:
                    # only an address in brackets takes an offset
                    place, offset = emission.writer.value(f"add i32 {place}, {offset}"), 0
                past[len(operands)] = offset
                operands.append(place)
            else:
                operands += _vector_operands(emission, item, operand)
        elif isinstance(item, Descriptor):
            operands.append(_descriptor(emission, item, starts))
        elif operand.is_bits:
            operands += _words(emission, evaluate(emission, item), operand)
        else:
            operands.append(converted(emission, evaluate(emission, item), operand))
    results = emission.machine(row, *operands, past=past, carried=carried, named=named, span=stmt.span)
    registers = row.results_without_sums if named else (*carried, *row.results)
    at = _store_results(emission, outputs, registers, results)
    if stmt.var is not None:
        value = _joined(emission, results[at:], registers[at], stmt.var.dtype)
        emission.scalars[stmt.var.name] = LLVMValue(value, stmt.var.dtype)


def _values(
    emission: Emission, row: Row, stmt: Instruction
) -> tuple[tuple[Input, ...], tuple[Vector, ...], list[str]]:
    """Return the inputs and outputs that are LLVM values, and the PTX names of accumulators that are named registers.

    Named registers that an instruction such as a wait carries are omitted: LLVM doesn't reorder moves of them with it.
    """
    inputs, outputs = stmt.inputs, stmt.outputs
    if row.accumulates:
        names = memory.names_of(emission, outputs)
        if names:
            return inputs[len(outputs) :], (), names
        assert row.starts is None, "verified: asynchronous instructions fill whole registers"
    if row.carries is None:
        return inputs, outputs, []
    carried = tuple([v for v in outputs if not emission.registers[v.buffer.root.name].prefix])
    return (*carried, *inputs[len(outputs) :]), carried, []


@cache
def _as_floats(operand: Operand) -> Operand:
    return replace(operand, register=F32)


def _descriptor(emission: Emission, descriptor: Descriptor, starts: dict[str, str]) -> str:
    """Return a matrix descriptor: the encoded start address plus a constant.

    starts: encoded start address -> its opaque copy, shared by the descriptors of one instruction. Without the copies
    LLVM would keep the sums live across iterations, each in two registers, and ptxas would move them to the uniform
    registers that wgmma reads; computing a sum there is free. The copies save 16 registers in attention's loop.
    """
    w = emission.writer
    address, past = shared_address(emission, descriptor.place)
    if past:
        address = w.value(f"add i32 {address}, {past}")
    inside = w.value(f"and i32 {address}, {_WITHIN_CTA}")
    units = w.value(f"zext i32 {w.value(f'lshr i32 {inside}, 4')} to i64")
    if units not in starts:
        (starts[units],) = emission.machine(COPY, units)
    signed = descriptor.constant - (descriptor.constant >> 63 << 64)
    return w.value(f"add i64 {starts[units]}, {signed}")


def _vector_operands(emission: Emission, vector: Vector, operand: Operand) -> list[str]:
    """Return the registers of a local vector, or the address of a vector in another memory space, as LLVM values."""
    w = emission.writer
    if vector.buffer.space == "tmem":
        # offsets are in 32-bit columns; adding 65536 advances to the next lane
        column = cast(emission, evaluate(emission, vector.offset), int32)
        return [w.value(f"add i32 {emission.base(vector.buffer)}, {column.text}")]
    offset = offset_of(emission, vector.offset)
    if vector.buffer.space == "local":
        words = memory.words_of(vector.buffer.dtype, vector.width)
        values = memory.read(emission, vector, offset, words)
        return memory.regrouped(emission, values, (words.word, words.bits), _type_and_bits(operand.register))
    pointer, place = memory.address(emission, vector.buffer, offset)
    return [w.value(f"ptrtoint {pointer} {place} to {_type_and_bits(operand.register)[0]}")]


@cache
def _type_and_bits(register: Register) -> tuple[str, int]:
    """Return the LLVM type of a register, and the bits that it takes in a tile, where a predicate takes a byte."""
    return TYPES[register.constraint], register.bits


def shared_address(emission: Emission, vector: Vector) -> tuple[str, int]:
    """Return the run-time part of a vector's 32-bit shared address, and the byte offset to add to it.

    The iterations of an unrolled loop share the run-time part. It is computed in 32 bits; a 64-bit pointer would cost
    two additions and a truncation.
    """
    offset, base = offset_of(emission, vector.offset), emission.number(vector.buffer)
    if offset.part is not None:
        base = _add_offset(emission, vector.buffer, base, offset.part)
    return base, offset.past * vector.buffer.dtype.bytes


def _add_offset(emission: Emission, buffer: Buffer, base: str, offset: LLVMValue) -> str:
    w, size = emission.writer, buffer.dtype.bytes
    scaled = w.value(f"mul i32 {offset.text}, {size}") if size > 1 else offset.text
    return w.value(f"add i32 {base}, {scaled}")


def view(emission: Emission, stmt: BufferView) -> None:
    """Emit the address of a view at an offset, as a pointer; if shared, as an integer, a pointer or both, as used."""
    buffer, base = stmt.buffer, stmt.buffer.base
    if buffer.offset is None or base is None:
        return
    offset = evaluate(emission, buffer.offset)
    if buffer.name in emission.view_uses.taken:
        emission.numbers[buffer.name] = _add_offset(emission, buffer, emission.number(base), offset)
    if buffer.space != "shared" or buffer.name in emission.view_uses.accessed:
        emission.bases[buffer.name] = memory.element_address(emission, buffer, emission.base(base), offset)


def converted(emission: Emission, value: LLVMValue, operand: Operand) -> str:
    """Return a scalar in the type of an operand's register: its bits, zero-extended if the register is wider."""
    kind, width = _type_and_bits(operand.register)
    if register_type(value.dtype) == kind:
        return value.text
    bits = memory.as_bits(emission, value)
    if value.dtype.bits == width:
        return bits
    return emission.writer.value(f"zext i{value.dtype.bits} {bits} to {kind}")


def _store_results(
    emission: Emission, outputs: Sequence[Vector], registers: tuple[Operand, ...], results: list[str]
) -> int:
    w = emission.writer
    at = 0
    for vector in outputs:
        operand = registers[at]
        kind, bits = _type_and_bits(operand.register)
        words = memory.words_of(vector.buffer.dtype, vector.width)
        count = words.bits * words.number // bits
        chosen = results[at : at + count]
        at += count
        if operand.kind is Kind.PREDICATE:
            chosen, kind = [w.value(f"zext i1 {part} to i8") for part in chosen], "i8"
        values = memory.regrouped(emission, chosen, (kind, bits), (words.word, words.bits))
        memory.write(emission, vector, offset_of(emission, vector.offset), words, values)
    return at


def _words(emission: Emission, value: LLVMValue, operand: Operand) -> list[str]:
    """Return a scalar's bits as values for an operand's registers: split over several, or zero-extended to fill one."""
    kind, width = _type_and_bits(operand.register)
    bits = value.dtype.bits
    if bits <= width:
        return [converted(emission, value, operand)]
    source = (register_type(value.dtype), bits)
    return memory.regrouped(emission, [value.text], source, (kind, width))


def _joined(emission: Emission, words: list[str], operand: Operand, dtype: DType) -> str:
    """Return the value of type `dtype` that `words` hold: the inverse of `_words`, or a predicate unchanged."""
    w, (kind, width) = emission.writer, _type_and_bits(operand.register)
    if operand.kind is Kind.PREDICATE:
        return words[0]
    if dtype == bool_:
        return w.value(f"icmp ne {kind} {words[0]}, 0")
    if dtype.bits >= width:
        return memory.regrouped(emission, words, (kind, width), (register_type(dtype), dtype.bits))[0]
    narrow = w.value(f"trunc {kind} {words[0]} to i{dtype.bits}")
    return w.bitcast(f"i{dtype.bits}", narrow, register_type(dtype))
