"""What the emission of one kernel knows and collects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..dtypes import DType
from ..errors import DispatchError
from ..ir.nodes import Buffer, Const, Kernel
from ..source import Span
from ..target import Target
from .instructions import TABLE, MachineInstruction
from .registers import Registers, Word
from .types import literal
from .writer import Writer


class Value(NamedTuple):
    """A scalar in registers: its LLVM text, its type, and the constant it is, if it is one."""

    text: str
    dtype: DType
    const: Const | None = None

    @staticmethod
    def of(const: Const) -> Value:
        return Value(literal(const), const.dtype, const)


@dataclass(slots=True)
class Context:
    """The state of one kernel's emission.

    scalars: the value of each variable in scope. slots: the register of each variable that may
    change. registers: those of each local buffer that owns storage. bases: the address of each other such buffer.
    continues, breaks: labels of the enclosing loops, innermost last. functions: mathematical functions called, as
    (operation, "float32" or "float64" or an integer type).
    used: names of the machine instructions used. strings: text constants, by their name.
    messages: (message, span) of each assertion, by its code - 1. has_tensor_memory: columns are reserved.
    """

    kernel: Kernel
    target: Target
    writer: Writer
    scalars: dict[str, Value] = field(default_factory=dict)
    slots: dict[str, Word] = field(default_factory=dict)
    registers: dict[str, Registers] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)
    continues: list[str] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    functions: dict[tuple[str, str], None] = field(default_factory=dict)
    used: dict[str, None] = field(default_factory=dict)
    strings: dict[str, str] = field(default_factory=dict)
    messages: list[tuple[str, Span | None]] = field(default_factory=list)
    has_tensor_memory: bool = False

    def base(self, buffer: Buffer) -> str:
        """The address of the storage that `buffer` or, for a view, its root owns."""
        return self.bases[buffer.root.name]

    def has(self, name: str) -> bool:
        """Whether the target has the machine instruction `name`."""
        return TABLE[name].missing(self.target) is None

    def machine(self, name: str, *operands: str, span: Span | None = None) -> str:
        """Writes one instruction of the instruction table; returns its result, "" if it has none.

        operands: LLVM values, one for each of the entry's inputs.
        raises: DispatchError where the target doesn't have it.
        """
        entry = TABLE[name]
        missing = entry.missing(self.target)
        if missing is not None:
            raise DispatchError(f"{entry.name}: {missing}", span=span, hint="compile for a newer target")
        self.used[name] = None
        text = call_text(entry, operands)
        if not entry.outputs and not (entry.tied and operands):
            self.writer.effect(text)
            return ""
        return self.writer.value(text)


TYPES = {"r": "i32", "l": "i64", "h": "i16", "f": "float", "d": "double", "n": "i32", "b": "i1"}


def call_text(entry: MachineInstruction, operands: tuple[str, ...]) -> str:
    """The inline assembly call that stands for `entry`."""
    inputs = "r" * len(operands) if entry.tied else entry.inputs
    outputs = inputs if entry.tied else entry.outputs
    results = [TYPES[c] for c in outputs]
    result = "void" if not results else results[0] if len(results) == 1 else "{ " + ", ".join(results) + " }"
    arguments = ", ".join(f"{TYPES[c]} {v}" for c, v in zip(inputs, operands, strict=True))
    constraints = [f"={c}" for c in outputs]
    constraints += map(str, range(len(operands))) if entry.tied else inputs
    if entry.memory:
        constraints.append("~{memory}")
    effect = "sideeffect " if entry.memory or entry.convergent else ""
    suffix = " convergent nounwind" if entry.convergent else " nounwind"
    return f'call {result} asm {effect}"{entry.text}", "{",".join(constraints)}"({arguments}){suffix}'
