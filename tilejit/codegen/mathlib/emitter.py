"""Writes one LLVM function as text, so that a formula in Python reads like the formula."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from .formats import Format

__all__ = ["Block", "Emitter", "Operand", "Value"]

_FLOATS = {"float": "f32", "double": "f64"}


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """An SSA value or a constant; arithmetic on it appends an instruction to its function.

    `<`, `<=`, `>`, `>=` are ordered on floats and signed on integers; `>>` is arithmetic.
    """

    emitter: Emitter = field(repr=False)
    type: str
    text: str

    @property
    def is_float(self) -> bool:
        return self.type in _FLOATS

    def __add__(self, other: Operand) -> Value:
        return self.emitter.binary("fadd" if self.is_float else "add", self, other)

    def __sub__(self, other: Operand) -> Value:
        return self.emitter.binary("fsub" if self.is_float else "sub", self, other)

    def __mul__(self, other: Operand) -> Value:
        return self.emitter.binary("fmul" if self.is_float else "mul", self, other)

    def __rsub__(self, other: float) -> Value:
        return self.emitter.constant(self.type, other) - self

    def __rmul__(self, other: float) -> Value:
        return self * other

    def __truediv__(self, other: Operand) -> Value:
        return self.emitter.binary("fdiv", self, other)

    def __rtruediv__(self, other: float) -> Value:
        return self.emitter.constant(self.type, other) / self

    def __neg__(self) -> Value:
        return self.emitter.emit(self.type, f"fneg {self.type} {self.text}") if self.is_float else 0 - self

    def __abs__(self) -> Value:
        return self.emitter.intrinsic("fabs", self)

    def __and__(self, other: Operand) -> Value:
        return self.emitter.binary("and", self, other)

    def __or__(self, other: Operand) -> Value:
        return self.emitter.binary("or", self, other)

    def __xor__(self, other: Operand) -> Value:
        return self.emitter.binary("xor", self, other)

    def __invert__(self) -> Value:
        return self ^ (1 if self.type == "i1" else -1)

    def __lshift__(self, count: Operand) -> Value:
        return self.emitter.binary("shl", self, count)

    def __rshift__(self, count: Operand) -> Value:
        return self.emitter.binary("ashr", self, count)

    def logical_shift_right(self, count: Operand) -> Value:
        return self.emitter.binary("lshr", self, count)

    def __lt__(self, other: Operand) -> Value:
        return self.emitter.compare("olt" if self.is_float else "slt", self, other)

    def __le__(self, other: Operand) -> Value:
        return self.emitter.compare("ole" if self.is_float else "sle", self, other)

    def __gt__(self, other: Operand) -> Value:
        return self.emitter.compare("ogt" if self.is_float else "sgt", self, other)

    def __ge__(self, other: Operand) -> Value:
        return self.emitter.compare("oge" if self.is_float else "sge", self, other)

    def equals(self, other: Operand) -> Value:
        """Equality, false where an operand is NaN."""
        return self.emitter.compare("oeq" if self.is_float else "eq", self, other)

    def differs(self, other: Operand) -> Value:
        """Inequality, true where an operand is NaN."""
        return self.emitter.compare("une" if self.is_float else "ne", self, other)


Operand = Value | float


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block's label."""

    name: str


class Emitter:
    """The function under construction: instructions in order, in the current block."""

    def __init__(self, number_format: Format | None = None) -> None:
        self._format = number_format
        self._lines: list[str] = []
        self._count = 0
        self.block = Block("entry")

    @property
    def format(self) -> Format:
        """The floating-point format of the function."""
        assert self._format is not None
        return self._format

    @property
    def body(self) -> str:
        """The instructions so far, one a line."""
        return "\n".join(self._lines)

    def emit(self, result_type: str, instruction: str) -> Value:
        """Append an instruction with a result."""
        name = f"%t{self._count}"
        self._count += 1
        self._lines.append(f"  {name} = {instruction}")
        return Value(self, result_type, name)

    def argument(self, value_type: str, name: str) -> Value:
        """The function's parameter `name`."""
        return Value(self, value_type, f"%{name}")

    def constant(self, value_type: str, number: float) -> Value:
        """A literal; a float must be exact in its type."""
        if value_type not in _FLOATS:
            return Value(self, value_type, str(number))
        if value_type == "float" and number == number:
            assert struct.unpack("f", struct.pack("f", number))[0] == number, f"{number!r} is not a float32"
        return Value(self, value_type, f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}")

    def operand(self, value_type: str, operand: Operand) -> Value:
        """`operand` as a value of `value_type`."""
        return operand if isinstance(operand, Value) else self.constant(value_type, operand)

    def binary(self, opcode: str, left: Value, right: Operand) -> Value:
        other = self.operand(left.type, right)
        assert other.type == left.type, f"{opcode} of {left.type} and {other.type}"
        return self.emit(left.type, f"{opcode} {left.type} {left.text}, {other.text}")

    def compare(self, predicate: str, left: Value, right: Operand) -> Value:
        opcode = "fcmp" if left.is_float else "icmp"
        other = self.operand(left.type, right)
        return self.emit("i1", f"{opcode} {predicate} {left.type} {left.text}, {other.text}")

    def intrinsic(self, name: str, first: Value, *rest: Operand) -> Value:
        """`llvm.<name>` of operands of one type, which is also the result's."""
        operands = [first, *(self.operand(first.type, value) for value in rest)]
        suffix = _FLOATS.get(first.type, first.type)
        arguments = ", ".join(f"{value.type} {value.text}" for value in operands)
        return self.emit(first.type, f"call {first.type} @llvm.{name}.{suffix}({arguments})")

    def convert(self, opcode: str, value: Value, to: str) -> Value:
        """One of LLVM's conversions; nothing where the type is already `to`."""
        return value if value.type == to else self.emit(to, f"{opcode} {value.type} {value.text} to {to}")

    def select(self, condition: Value, yes: Operand, no: Operand) -> Value:
        """`yes` where the condition holds, else `no`; at least one of them is a Value."""
        typed = yes if isinstance(yes, Value) else no
        assert isinstance(typed, Value)
        first, second = self.operand(typed.type, yes), self.operand(typed.type, no)
        return self.emit(
            first.type,
            f"select i1 {condition.text}, {first.type} {first.text}, {second.type} {second.text}",
        )

    def fma(self, a: Value, b: Operand, c: Operand) -> Value:
        """a·b + c with one rounding."""
        return self.intrinsic("fma", a, b, c)

    def horner(self, x: Value, coefficients: Sequence[float]) -> Value:
        """The polynomial in x, lowest coefficient first."""
        result = self.constant(x.type, coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, coefficient)
        return result

    def bits(self, x: Value) -> Value:
        """The representation of a float as an integer."""
        return self.convert("bitcast", x, self.format.integer)

    def from_bits(self, i: Value) -> Value:
        return self.convert("bitcast", i, self.format.llvm)

    def start(self, block: Block) -> None:
        """Begin `block`; the one before must have ended."""
        self._lines.append(f"{block.name}:")
        self.block = block

    def jump(self, block: Block) -> None:
        self._lines.append(f"  br label %{block.name}")

    def branch(self, condition: Value, yes: Block, no: Block) -> None:
        self._lines.append(f"  br i1 {condition.text}, label %{yes.name}, label %{no.name}")

    def phi(self, *sources: tuple[Value, Block]) -> Value:
        """The value that came with the block control came from."""
        value_type = sources[0][0].type
        pairs = ", ".join(f"[ {value.text}, %{block.name} ]" for value, block in sources)
        return self.emit(value_type, f"phi {value_type} {pairs}")

    def add_incoming(self, phi: Value, value: Value, block: Block) -> None:
        """Complete a loop's phi with the value from the end of its body."""
        index = next(i for i, line in enumerate(self._lines) if line.startswith(f"  {phi.text} = phi "))
        self._lines[index] += f", [ {value.text}, %{block.name} ]"

    def ret(self, value: Value) -> None:
        self._lines.append(f"  ret {value.type} {value.text}")
