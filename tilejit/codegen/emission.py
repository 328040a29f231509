"""The state of one kernel's emission, and the values and offsets that it computes with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from ..dataclass import dataclass, field
from ..dtypes import DType
from ..ir.nodes import Assert, Buffer, Const, Kernel
from ..ir.walk import Block
from ..isa import Capability, Direction, Operand, Row
from ..source import Span
from ..target import Target
from .changes import changed
from .registers import Registers, Word, WordRun
from .types import literal
from .view_uses import ViewUses
from .writer import Join, Writer


class LLVMValue(NamedTuple):
    """A scalar in registers: its LLVM text, its type, and the constant it is, if it is one."""

    text: str
    dtype: DType
    const: Const | None = None

    @staticmethod
    def of(const: Const) -> LLVMValue:
        return LLVMValue(literal(const), const.dtype, const)


class OffsetParts(NamedTuple):
    """The offset of an element in its buffer: part + past. part: what is known at run time only, None where all is."""

    part: LLVMValue | None
    past: int


@dataclass(slots=True)
class Emission:
    """The state of one kernel's emission.

    scalars: the value of each variable in scope that has one. varies: what is being evaluated has another value
    elsewhere, as it loads something or names a variable that may change.
    slots: the register of each variable that may change. registers: those of each local buffer that lives in registers.
    moved_on: the local buffers from which something is moved to memory, by name.
    runs: of vectors of registers (`memory.run_of`), by their buffer's name, their first element and their width.
    bases: the address of each other buffer that owns storage, and of each view that starts behind its base.
    numbers: the same as a number of 32 bits, of views in shared memory whose address instructions take.
    is_last: nothing of the kernel comes behind the statement that is being written.
    continues, breaks: where the turns of the enclosing loops end, and the loops, innermost last.
    functions: mathematical functions called, as (operation, "float32" or "float64" or an integer type). used: the
    machine instructions used. strings: text constants, by their name. assertions: each by its code - 1.
    record: the address of an `AssertionsParam`'s record, where assertions are compiled in.
    has_tensor_memory: columns are reserved. tests_first: some loop may end where a turn begins.
    asked: the hardware's numbers that the kernel asks for, by their names.
    ordered: the buffers of which some load is ordered with what other threads write.
    """

    kernel: Kernel
    target: Target
    writer: Writer
    scalars: dict[str, LLVMValue] = field(default_factory=dict)
    varies: bool = False
    slots: dict[str, Word] = field(default_factory=dict)
    registers: dict[str, Registers] = field(default_factory=dict)
    moved_on: set[str] = field(default_factory=set)
    runs: dict[tuple[str, int, int], WordRun | None] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    view_uses: ViewUses = ViewUses()
    is_last: bool = False
    continues: list[Join] = field(default_factory=list)
    breaks: list[Join] = field(default_factory=list)
    functions: dict[tuple[str, str], None] = field(default_factory=dict)
    used: dict[Capability, None] = field(default_factory=dict)
    strings: dict[str, str] = field(default_factory=dict)
    assertions: list[Assert] = field(default_factory=list)
    record: str | None = None
    has_tensor_memory: bool = False
    tests_first: bool = False
    asked: set[str] = field(default_factory=set)
    ordered: set[str] = field(default_factory=set)

    def base(self, buffer: Buffer) -> str:
        """The address at which a buffer starts."""
        return self.bases[buffer.start.name]

    def number(self, buffer: Buffer) -> str:
        """As `base`, of a buffer in shared memory, as a number of 32 bits.

        That of a buffer by itself is a constant, which each use takes for itself: as a value it would hold a register
        from the first use on.
        """
        start = buffer.start
        if start.offset is not None:
            return self.numbers[start.name]
        return f"ptrtoint (ptr addrspace(3) {self.bases[start.name]} to i32)"

    def changed(self, body: Block) -> list[Word]:
        """The values that statements may change, of those variables and buffers that there are already."""
        changes = changed(body)
        words = [self.slots[name] for name in changes.variables if name in self.slots]
        for name in changes.buffers:
            if name in self.registers and not self.registers[name].prefix:
                words += self.registers[name].words
        return words

    def has(self, instruction: Capability) -> bool:
        """Whether the target has the machine instruction."""
        return instruction.missing(self.target) is None

    def machine(
        self, row: Row, *operands: str, past: Mapping[int, int] | None = None, carried: Sequence[Operand] = (),
        named: Sequence[str] = (), span: Span | None = None,
    ) -> list[str]:
        """Writes one instruction of the instruction table; returns its results.

        operands: LLVM values, one for each of the registers that it reads. past: bytes that are added to an operand
        which is an address, by its number. carried: what the first operands are that the row takes any number of.
        named: PTX's names of the registers to which the row adds; () where these are operands.
        raises: DispatchError where the target doesn't have it.
        """
        if row not in self.used:
            row.need(self.target, span)
            self.used[row] = None
        integers = [n for n, o in enumerate(operands) if _is_integer(o)] if row.takes_immediates else []
        call = _call(row, tuple(carried), tuple(named), len(operands), frozenset(integers))
        text = call.text(operands, past or {})
        if not call.results:
            self.writer.effect(text)
            return []
        result = self.writer.fresh(text)
        if call.results == 1:
            return [result]
        self.writer.declarations[call.definition] = None
        return [self.writer.fresh(f"extractvalue {call.result} {result}, {i}") for i in range(call.results)]


TYPES = {"r": "i32", "l": "i64", "h": "i16", "f": "float", "d": "double", "n": "i32", "b": "i1"}


class _AsmCall(NamedTuple):
    """A row as a call of inline assembly, without its operands.

    before, after: the text around the operands. kinds: their types. results: how many registers it returns, and result
    the type of all of them; definition: of that type, where it has a name.
    """

    before: str
    kinds: tuple[str, ...]
    after: str
    results: int
    result: str
    definition: str

    def text(self, operands: tuple[str, ...], past: Mapping[int, int]) -> str:
        """The call with its operands; `past` as `Emission.machine` has it."""
        before = self.before
        for number, count in past.items():
            if count:
                operand = f"${number + self.results}"
                before = before.replace(f"[{operand}]", f"[{operand}+{count}]")
        return before + ", ".join([f"{kind} {x}" for kind, x in zip(self.kinds, operands, strict=True)]) + self.after


def _is_integer(operand: str) -> bool:
    """Whether an operand is an integer known at compile time."""
    return operand.lstrip("-").isdigit()


@lru_cache(1024)
def _call(
    row: Row, carried: tuple[Operand, ...], named: tuple[str, ...], number: int, literals: frozenset[int]
) -> _AsmCall:
    """The call of a row with so many operands. literals: which of them are integers known at compile time."""
    results, arguments = (*carried, *row.results), (*carried, *row.arguments)
    if named:
        results, arguments = row.results_without_sums, row.arguments_without_sums
    if number != len(arguments) or (carried and row.carries is None):
        raise TypeError(f"{row.name} takes {len(arguments)} operands; got {number}")
    types = [TYPES[o.register.constraint] for o in results]
    result, definition = _result_type(types)
    # registers that are both taken and returned come first among the results and among the arguments
    tied = sum(o.direction is Direction.INOUT and o.is_result for o in arguments)
    constraints = [f"={o.register.constraint}" for o in results]
    constraints += map(str, range(tied))
    constraints += [
        "n" if o.is_immediate and k in literals else o.register.constraint for k, o in enumerate(arguments) if k >= tied
    ]
    if row.memory:
        constraints.append("~{memory}")
    effect = "sideeffect " if row.memory or row.convergent else ""
    suffix = " convergent nounwind" if row.convergent else " nounwind"
    before = f'call {result} asm {effect}"{row.assembly(len(carried), named)}", "{",".join(constraints)}"('
    kinds = tuple(TYPES[o.register.constraint] for o in arguments)
    return _AsmCall(before, kinds, f"){suffix}", len(results), result, definition)


def _result_type(types: list[str]) -> tuple[str, str]:
    """The type of values of these types together, and its definition where it has a name.

    Each result is taken out by an instruction that says the type: LLVM parses names of 128 results in half the time.
    """
    if len(types) < 2:
        return (types[0] if types else "void"), ""
    name = "%" + ".".join(f"{kind}.{len(list(alike))}" for kind, alike in groupby(types))
    return name, f"{name} = type {{ {', '.join(types)} }}"
