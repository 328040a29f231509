"""`Emission`: the state of code generation for one kernel, with the method that emits machine instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from ..dataclass import dataclass, field
from ..dtypes import DType
from ..ir.nodes import Assert, Buffer, Const, Kernel
from ..isa import Capability, Direction, Operand, Row
from ..source import Span
from ..target import Target
from .registers import Registers, Word
from .storage import ViewUses
from .writer import Join, Writer


class LLVMValue(NamedTuple):
    """A scalar value: its name or literal in LLVM IR, its type, and the constant that it is known to equal, or None."""

    text: str
    dtype: DType
    const: Const | None = None


class OffsetParts(NamedTuple):
    """An offset in elements, part + past. part: the run-time part, None if there is none. past: the constant part."""

    part: LLVMValue | None
    past: int


@dataclass(slots=True)
class Emission:
    """The state of code generation for one kernel."""

    kernel: Kernel
    target: Target
    writer: Writer
    view_uses: ViewUses
    #: values of the immutable variables, by name
    scalars: dict[str, LLVMValue] = field(default_factory=dict)
    #: True if the current expression contains a load or a mutable variable, so that its value must not be cached
    is_impure: bool = False
    #: the `Word`s of the mutable variables, by name
    slots: dict[str, Word] = field(default_factory=dict)
    #: registers of the local buffers that live in registers, by name
    registers: dict[str, Registers] = field(default_factory=dict)
    #: names of the local buffers that some move copies to memory
    moved_on: set[str] = field(default_factory=set)
    #: addresses of the buffers in memory, and of the views that start at an offset in their base, by name
    bases: dict[str, str] = field(default_factory=dict)
    #: 32-bit addresses, by name, of the shared views that have an offset and whose addresses are instruction operands
    numbers: dict[str, str] = field(default_factory=dict)
    #: True if the kernel ends after the statement being emitted
    is_last: bool = False
    #: the targets of `continue` and `break`, innermost last
    continues: list[Join] = field(default_factory=list)
    breaks: list[Join] = field(default_factory=list)
    #: functions of the module that are called, as (operation, name of the type)
    functions: dict[tuple[str, str], None] = field(default_factory=dict)
    #: machine instructions and other features of the target that are used
    used: dict[Capability, None] = field(default_factory=dict)
    strings: dict[str, str] = field(default_factory=dict)
    #: assertions, in the order of their codes
    assertions: list[Assert] = field(default_factory=list)
    #: address of the assertion record, None if assertions are not compiled in
    record: str | None = None
    #: True if some loop tests for its exit at the start of an iteration
    tests_first: bool = False
    specials: set[str] = field(default_factory=set)
    #: names of the root buffers that some load or move reads as volatile or with a memory order
    ordered: set[str] = field(default_factory=set)

    def base(self, buffer: Buffer) -> str:
        return self.bases[buffer.start.name]

    def number(self, buffer: Buffer) -> str:
        """Return the address of a shared buffer as a 32-bit integer.

        Except for a view at an offset, each use repeats the constant expression: a named value would occupy a register
        from its first use on.
        """
        start = buffer.start
        if start.offset is not None:
            return self.numbers[start.name]
        return f"ptrtoint (ptr addrspace(3) {self.bases[start.name]} to i32)"

    def has(self, instruction: Capability) -> bool:
        return instruction.missing(self.target) is None

    def machine(
        self, row: Row, *operands: str, past: Mapping[int, int] | None = None, carried: Sequence[Operand] = (),
        named: Sequence[str] = (), span: Span | None = None,
    ) -> list[str]:
        """Emit one row of the instruction table and return its results.

        operands: LLVM values, one per constant, and per register not in `named`, that the row reads. past: operand
        index -> byte offset to add to that address. carried: the leading operands' descriptions, if the row passes any
        number of registers through. named: PTX names of the registers that it accumulates into, () if LLVM values.
        raises: DispatchError if the target doesn't have the instruction; TypeError for operands that don't fit the row.
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
    """A call of a row's inline assembly. before, after: the text before and after the operands.

    kinds: the operands' types. results: the number of result registers. result: the LLVM type of all results together.
    definition: the definition of that type, "" if it has no name.
    """

    before: str
    kinds: tuple[str, ...]
    after: str
    results: int
    result: str
    definition: str

    def text(self, operands: tuple[str, ...], past: Mapping[int, int]) -> str:
        before = self.before
        for number, count in past.items():
            if count:
                operand = f"${number + self.results}"
                before = before.replace(f"[{operand}]", f"[{operand}+{count}]")
        return before + ", ".join([f"{kind} {x}" for kind, x in zip(self.kinds, operands, strict=True)]) + self.after


def _is_integer(operand: str) -> bool:
    return operand.lstrip("-").isdigit()


@lru_cache(1024)
def _call(
    row: Row, carried: tuple[Operand, ...], named: tuple[str, ...], number: int, literals: frozenset[int]
) -> _AsmCall:
    """Return the call of a row with `number` operands. literals: the indices of those that are integer literals."""
    results, arguments = (*carried, *row.results), (*carried, *row.arguments)
    if named:
        results, arguments = row.results_without_sums, row.arguments_without_sums
    if carried and row.carries is None:
        raise TypeError(f"{row.name} carries no registers; got {len(carried)}")
    if number != len(arguments):
        raise TypeError(f"{row.name} takes {len(arguments)} operands; got {number}")
    types = [TYPES[o.register.constraint] for o in results]
    result, definition = _result_type(types)
    # inout registers come first in both results and arguments
    tied = sum(o.direction is Direction.INOUT and o.is_result for o in arguments)
    constraints = [f"={'&' if o.is_early else ''}{o.register.constraint}" for o in results]
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
    """Return the LLVM type of an instruction's results, and its definition, or "" if the type has no name."""
    if len(types) < 2:
        return (types[0] if types else "void"), ""
    # every `extractvalue` repeats the type: LLVM parses a name twice as fast as a struct of 128 results
    name = "%" + ".".join(f"{kind}.{len(list(group))}" for kind, group in groupby(types))
    return name, f"{name} = type {{ {', '.join(types)} }}"
