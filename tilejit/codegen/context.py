"""What the emission of one kernel knows and collects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from ..dtypes import DType
from ..errors import DispatchError
from ..ir.nodes import Buffer, Const, Kernel
from ..source import Span
from ..target import Target
from .instructions import TABLE
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


class Offset(NamedTuple):
    """Where an element is in a buffer: the sum of `parts`, of one type, and of the constant `past`.

    What an unrolled loop adds is in the last part and in the constant: all its turns have the rest in common, and
    instructions take an address and a constant.
    wraps: in its 32 bits the sum may leave the type's range and come back.
    """

    parts: tuple[Value, ...]
    past: int
    wraps: bool = False


#: an index by the constants that variables are
Fold = Callable[[Mapping[str, int]], int]


@dataclass(slots=True)
class Context:
    """The state of one kernel's emission.

    scalars: the value of each variable in scope, but sums: those of integers, whose parts are added where they are
    used, with others. constants: of those that are integers known here. folds: what works out an index, by the
    identity of its expression. changing: variables with several values in their scope. settled: whether an expression
    has none of them, by its identity. slots: the register of each variable that may change. registers: those of each
    local buffer that owns storage. bases: the address of each other such buffer. continues, breaks: labels of the
    enclosing loops, innermost last. functions: mathematical functions called, as (operation, "float32" or "float64" or
    an integer type). used: names of the machine instructions used. strings: text constants, by their name.
    messages: (message, span) of each assertion, by its code - 1. has_tensor_memory: columns are reserved.
    """

    kernel: Kernel
    target: Target
    writer: Writer
    scalars: dict[str, Value] = field(default_factory=dict)
    sums: dict[str, Offset] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    folds: dict[int, Fold | None] = field(default_factory=dict)
    changing: frozenset[str] = frozenset()
    settled: dict[int, bool] = field(default_factory=dict)
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

    def machine(
        self, name: str, *operands: str, past: Mapping[int, int] | None = None, span: Span | None = None
    ) -> str:
        """Writes one instruction of the instruction table; returns its result, "" if it has none.

        operands: LLVM values, one for each of the entry's inputs. past: bytes that are added to an operand which is
        an address, by its number.
        raises: DispatchError where the target doesn't have it.
        """
        entry = TABLE[name]
        missing = entry.missing(self.target)
        if missing is not None:
            raise DispatchError(f"{entry.name}: {missing}", span=span, hint="compile for a newer target")
        self.used[name] = None
        text = call_text(name, operands, past or {})
        if not entry.outputs and not (entry.tied and operands):
            self.writer.effect(text)
            return ""
        return self.writer.fresh(text)


TYPES = {"r": "i32", "l": "i64", "h": "i16", "f": "float", "d": "double", "n": "i32", "b": "i1"}


def call_text(name: str, operands: tuple[str, ...], past: Mapping[int, int]) -> str:
    """The inline assembly call that stands for an instruction of the table."""
    before, kinds, after = _call(name, len(operands))
    for number, count in past.items():
        if count:
            operand = f"${number + len(TABLE[name].outputs)}"
            before = before.replace(f"[{operand}]", f"[{operand}+{count}]")
    return before + ", ".join([f"{kind} {value}" for kind, value in zip(kinds, operands, strict=True)]) + after


@cache
def _call(name: str, count: int) -> tuple[str, list[str], str]:
    """The call's text up to the operands, their types, and the text behind them."""
    entry = TABLE[name]
    inputs = "r" * count if entry.tied else entry.inputs
    outputs = inputs if entry.tied else entry.outputs
    results = [TYPES[c] for c in outputs]
    result = "void" if not results else results[0] if len(results) == 1 else "{ " + ", ".join(results) + " }"
    constraints = [f"={c}" for c in outputs]
    constraints += map(str, range(count)) if entry.tied else inputs
    if entry.memory:
        constraints.append("~{memory}")
    effect = "sideeffect " if entry.memory or entry.convergent else ""
    suffix = " convergent nounwind" if entry.convergent else " nounwind"
    before = f'call {result} asm {effect}"{entry.text}", "{",".join(constraints)}"('
    return before, [TYPES[c] for c in inputs], f"){suffix}"
