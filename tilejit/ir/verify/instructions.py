"""Invariants of instructions: number, kinds, sizes, types and spaces of operands, as in the instruction table."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from ...dtypes import DType, bool_
from ...isa import Kind, Operand, Row, nearest
from ...target import TARGETS
from ...wording import counted
from .. import nodes as ir

Item = ir.Input

#: keys of instructions without faults; a key contains all that the faults depend on, except those of `_unequal`
_SOUND: set[tuple[Hashable, ...]] = set()


def instruction_faults(row: Row | None, stmt: ir.Instruction, target: str | None) -> list[str]:
    """Return the faults of an instruction's name and operands, and a fault if `target` (unless None) lacks it.

    row: the instruction's row of the table, or None if it has none.
    """
    limited = stmt.inputs if row is not None and row.limits_constants else ()
    key = (stmt.name, target, *map(_shape, _results(stmt)), "<-", *map(_shape, stmt.inputs), limited)
    if key in _SOUND:
        return list(_unequal(row, stmt)) if row is not None and row.returned is not None else []
    if row is None:
        like = nearest(stmt.name)
        return [f"unknown instruction {stmt.name!r}" + (f"; did you mean {' or '.join(like)}?" if like else "")]
    faults = [f"{row.name}: {fault}" for fault in _operand_faults(row, stmt)]
    missing = row.missing(TARGETS[target]) if target in TARGETS else None
    if missing is not None:
        faults.append(f"{row.name}: {missing}")
    if not faults:
        _SOUND.add(key)
    return faults + list(_unequal(row, stmt))


def cut_inputs(row: Row, stmt: ir.Instruction) -> frozenset[int]:
    """Return the indices of the inputs that are addresses at which other operands may exclude bytes from the access."""
    carried = len(stmt.outputs) if row.carries is not None else 0
    positions = _positions(row.arguments, stmt.inputs[carried:])
    return frozenset(
        carried + k for k, at in enumerate(positions) if at < len(row.arguments) and row.arguments[at].is_cut
    )


def _positions(registers: Sequence[Operand], items: Sequence[Item]) -> Iterator[int]:
    """Yield the index in `registers` of each item's first register. registers: as in `_side_faults`."""
    position = 0
    for item in items:
        yield position
        position += _registers(registers[position], item) if position < len(registers) else 1


def _shape(item: Item) -> Hashable:
    if isinstance(item, ir.Descriptor):
        return "descriptor", _shape(item.place), 0 <= item.constant < 1 << 64
    if isinstance(item, ir.Vector):
        return item.buffer.space, item.buffer.dtype, item.width
    return item.dtype, isinstance(item, ir.Const)


def _results(stmt: ir.Instruction) -> tuple[Item, ...]:
    return stmt.outputs if stmt.var is None else (*stmt.outputs, stmt.var)


def _operand_faults(row: Row, stmt: ir.Instruction) -> Iterator[str]:
    if row.carries is None:
        yield from _side_faults(row.results, _results(stmt), "result")
        yield from _side_faults(row.arguments, stmt.inputs, "operand")
        return
    for item in _results(stmt):
        yield from _item_faults(row.carries, item)
    yield from _side_faults(row.arguments, stmt.inputs[len(stmt.outputs) :], "operand")


def _side_faults(registers: Sequence[Operand], items: Sequence[Item], what: str) -> Iterator[str]:
    """Yield the faults of the results or arguments. registers: for each register, the operand that it is part of.

    One vector may cover several registers, even of several operands.
    """
    position = 0
    for number, item in enumerate(items):
        if position >= len(registers):
            yield f"{counted(len(items) - number, what)} too many, starting with {_shown(item)}"
            return
        count = _registers(registers[position], item)
        for operand in dict.fromkeys(registers[position : position + count]):
            yield from _item_faults(operand, item)
        position += count
    if position > len(registers):
        yield f"{_shown(items[-1])} has {counted(position - len(registers), 'register')} too many"
    if position < len(registers):
        operand, count = registers[position], len(registers) - position
        yield f"{operand.name} must be {_wanted(operand)}; {counted(count, f'{what} value')} missing"


def _registers(operand: Operand, item: Item) -> int:
    """Return the number of registers that an item takes up, the first of which belongs to `operand`."""
    if isinstance(item, ir.Descriptor):
        return 1
    if operand.is_bits and not isinstance(item, ir.Vector):
        return max(1, item.dtype.bits // operand.register.bits)
    if not isinstance(item, ir.Vector) or operand.kind in (Kind.ADDRESS, Kind.CONSTANT):
        return 1
    return max(1, item.width * item.buffer.dtype.bits // operand.register.bits)


def _item_faults(operand: Operand, item: Item) -> Iterator[str]:
    """Yield the faults of an item as `operand`, except a result that isn't in registers, which `kernel` reports."""
    if not _fits(operand, item):
        yield f"{operand.name} must be {_wanted(operand)}; got {_shown(item)}"


def _fits(operand: Operand, item: Item) -> bool:
    if isinstance(item, ir.Descriptor):
        is_in_space = item.place.buffer.space == operand.space
        return operand.kind is Kind.DESCRIPTOR and is_in_space and 0 <= item.constant < 1 << 64
    if operand.kind is Kind.DESCRIPTOR:
        return False
    if operand.kind is Kind.CONSTANT:
        return isinstance(item, ir.Const) and _is_constant(operand, item)
    if not isinstance(item, ir.Vector):
        # an operand that is both read and written can't be a scalar
        is_one_way = not (operand.is_result and operand.is_argument)
        return operand.kind is not Kind.ADDRESS and is_one_way and _is_scalar(operand, item)
    if operand.kind is Kind.ADDRESS:
        size = item.width * item.buffer.dtype.bytes
        return item.buffer.space == operand.space and operand.access_bytes in (0, size)
    return _is_registers(operand, item)


def _is_constant(operand: Operand, item: ir.Const) -> bool:
    has_type = item.dtype.is_integer and item.dtype.bits == operand.register.bits
    return has_type and (operand.among is None or int(item.value) in operand.among)


def _is_registers(operand: Operand, vector: ir.Vector) -> bool:
    dtype = vector.buffer.dtype
    if vector.buffer.space != "local":
        return operand.is_result
    if operand.kind is Kind.PREDICATE:
        # a vector may receive predicate results, each unpacked to a byte, but can't be a predicate argument
        return operand.is_result and dtype == bool_
    return _is_element(operand, dtype) and vector.width * dtype.bits % operand.register.bits == 0


def _is_scalar(operand: Operand, value: ir.Expr) -> bool:
    if operand.kind is Kind.PREDICATE:
        return value.dtype == bool_
    if operand.is_bits:
        return True
    register = operand.register
    if value.dtype.bits != register.bits or not _is_element(operand, value.dtype):
        return False
    # only vectors may hold float32 in integer registers (rounded to tf32 beforehand); a scalar's type must match
    return value.dtype.is_float if register.is_float else value.dtype.is_integer


def _is_element(operand: Operand, dtype: DType) -> bool:
    return operand.element in (None, dtype)


def _unequal(row: Row | None, stmt: ir.Instruction) -> Iterator[str]:
    if row is None or row.returned is None:
        return
    if stmt.outputs != stmt.inputs[: len(stmt.outputs)]:
        yield f"{row.name}: {row.returned.name} must be the same registers in outputs and inputs"


def _wanted(operand: Operand) -> str:
    if operand.kind is Kind.ADDRESS:
        size = f" of {operand.access_bytes} bytes" if operand.access_bytes else ""
        return f"a place{size} in {operand.space} memory"
    if operand.kind is Kind.DESCRIPTOR:
        return f"a 64-bit descriptor of a place in {operand.space} memory"
    if operand.kind is Kind.CONSTANT:
        which = "" if operand.among is None else f", one of {', '.join(map(str, operand.among))}"
        return f"a constant of {operand.register.bits} bits{which}"
    if operand.kind is Kind.PREDICATE:
        return "a predicate"
    what = f"register{'' if operand.count == 1 else 's'} of {operand.register.bits} bits"
    number = "any number of" if operand.count is None else str(operand.count)
    return f"{number} {what}" + ("" if operand.element is None else f" with {operand.element}")


def _shown(item: Item) -> str:
    if isinstance(item, ir.Descriptor):
        return f"a descriptor of {item.place.buffer.name} ({item.place.buffer.space})"
    if isinstance(item, ir.Vector):
        return f"{item.width} x {item.buffer.dtype} of {item.buffer.name} ({item.buffer.space})"
    return f"a {'constant' if isinstance(item, ir.Const) else 'scalar'} of {item.dtype}"
