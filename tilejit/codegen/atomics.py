"""Atomic updates of one element per thread: one instruction, or a compare-and-swap loop.

Instructions are emitted as inline assembly, because LLVM never selects `red` for `atomicrmw`. Integer constants
become immediate operands: ptxas emits ATOMS.POPC.INC, which merges updates of equal addresses, only for
`red.shared.add.u32` of an immediate 1.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.nodes import Atomic, Vector
from ..isa import Row
from ..isa.atomics import OPERATIONS, row_of, swap_of
from ..ops.atomic import ELEMENTWISE_NAMES
from . import memory
from .casts import cast
from .emission import TYPES, Emission, LLVMValue
from .expressions import evaluate, offset_of
from .machine import converted, shared_address
from .operations import operation
from .registers import Word
from .types import register_type


def atomic(emission: Emission, stmt: Atomic) -> None:
    """Emit an atomic update and bind the statement's variable, if any, to the previous value."""
    assert isinstance(stmt.place, Vector), "lowering leaves no Element"
    dtype, space = stmt.place.buffer.dtype, stmt.place.buffer.space
    values = [evaluate(emission, operand) for operand in stmt.operands]
    row = row_of(stmt.op, dtype, space, stmt.order, emission.target, returns=stmt.var is not None)
    if row is not None:
        before = _instruction(emission, stmt, row, stmt.place, values)
    else:
        before = _by_swaps(emission, stmt, stmt.place, values[0])
    if stmt.var is not None:
        emission.scalars[stmt.var.name] = LLVMValue(before, dtype)


def _instruction(emission: Emission, stmt: Atomic, row: Row, place: Vector, values: list[LLVMValue]) -> str:
    sources = [o for o in row.operands if o.name in OPERATIONS[stmt.op].operands]
    operands = [converted(emission, value, source) for value, source in zip(values, sources, strict=True)]
    address, past = _address(emission, place)
    results = emission.machine(row, address, *operands, past=past, span=stmt.span)
    if not results:
        return ""
    return emission.writer.bitcast(
        TYPES[row.results[0].register.constraint], results[0], register_type(place.buffer.dtype)
    )


def _address(emission: Emission, place: Vector) -> tuple[str, Mapping[int, int]]:
    """Return the run-time part of an address, and its constant part as the argument `past` of `Emission.machine`."""
    if place.buffer.space == "global":
        address, past = memory.global_address(emission, place.buffer, offset_of(emission, place.offset))
    else:
        address, past = shared_address(emission, place)
    return address, {0: past}


def _by_swaps(emission: Emission, stmt: Atomic, place: Vector, value: LLVMValue) -> str:
    """Emit a compare-and-swap loop that updates one element, and return the previous value.

    The loop compares bits: a comparison of floats never finds NaNs equal, so with a NaN the loop would never end.
    """
    w, dtype, kind = emission.writer, place.buffer.dtype, register_type(place.buffer.dtype)
    swap = swap_of(dtype, place.buffer.space, stmt.order)
    address, past = _address(emission, place)
    first = memory.load(emission, place.buffer, offset_of(emission, place.offset), "relaxed.gpu").text
    seen, again = Word(kind), w.join("again")
    w.write(seen, kind, first)
    w.jump(again)
    w.start(again, [seen])
    old = w.read(seen, kind)
    expected = memory.as_bits(emission, LLVMValue(old, dtype))
    if stmt.op != "exch":
        value = operation(emission, ELEMENTWISE_NAMES[stmt.op], dtype, [old, value.text], span=stmt.span)
    desired = memory.as_bits(emission, cast(emission, value, dtype))
    (now,) = emission.machine(swap, address, expected, desired, past=past, span=stmt.span)
    w.write(seen, kind, w.bitcast(f"i{dtype.bits}", now, kind))
    after = w.join("updated")
    w.branch(w.value(f"icmp ne i{dtype.bits} {now}, {expected}"), again, after)
    w.start(after)
    return old
