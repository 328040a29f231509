"""Builders, through which formulas emit the computation of one element of an operation as LLVM IR.

The formulas rely on IEEE arithmetic.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Literal

from ..dataclass import field, lean
from ..dtypes import DType
from ..isa import Row
from .fitted import Polynomial, RealConstant

#: udiv and urem interpret integers as unsigned
Opcode = Literal["add", "sub", "mul", "div", "rem", "udiv", "urem", "and", "or", "xor", "shl", "shr", "lshr"]
#: u<: less than, for integers interpreted as unsigned. unordered: an operand is NaN
Comparison = Literal["==", "!=", "<", "<=", ">", ">=", "u<", "unordered"]
#: trunc: keep the low bits. zext: extend with zeros. sitofp, uitofp: convert a signed or unsigned integer to a float,
#: with rounding. bitcast: reinterpret the bits
Conversion = Literal["trunc", "zext", "sitofp", "uitofp", "bitcast"]


@lean(frozen=True, slots=True)
class Format:
    """An IEEE 754 binary format. precision_bits: stored bits of the significand. integer: type of equal width."""

    dtype: str
    type: str
    integer: str
    bits: int
    precision_bits: int

    @property
    def bias(self) -> int:
        """The biased exponent of 1.0."""
        return (1 << (self.bits - self.precision_bits - 2)) - 1

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def round_shift(self) -> float:
        """A constant that, added to a small number, rounds it to an integer in the low bits of the sum."""
        return 1.5 * 2.0**self.precision_bits


#: the formats in which functions are computed, by the name of their type
FORMATS = {
    "float32": Format("float32", "f32", "i32", 32, 23),
    "float64": Format("float64", "f64", "i64", 64, 52),
}


@cache
def scalar_type(dtype: DType) -> str:
    """Return the builders' name of a type, such as f32, i8, u64 or b1; bfloat16 and fp8 types keep their names."""
    if dtype.kind == "bool":
        return "b1"
    if dtype.is_fp8 or dtype.name == "bfloat16":
        return dtype.name
    return f"{dtype.kind[0]}{dtype.bits}"


#: builders' name of a type -> its LLVM type, if that isn't an integer type named after the number of bits
_LLVM_TYPES = {
    "b1": "i1", "f16": "half", "f32": "float", "f64": "double", "bfloat16": "i16", "float8_e4m3fn": "i8",
    "float8_e5m2": "i8",
}

_FLOAT_OPCODES = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_SIGNED_OPCODES = {"div": "sdiv", "rem": "srem", "shr": "ashr"}
_UNSIGNED_OPCODES = {"div": "udiv", "rem": "urem", "shr": "lshr"}

_ORDERS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def llvm_type(type: str) -> str:
    """Return the LLVM type of a `Number` of type `type`: for example, float for f32.

    bfloat16 and fp8 are integers of the same width: LLVM aborts the process if it must select bfloat arithmetic for a
    target without it, and it has no fp8.
    """
    return _LLVM_TYPES.get(type) or f"i{type[1:]}"


@cache
def _predicate(comparison: Comparison, letter: str) -> str:
    """Return the predicate of `fcmp` or `icmp`. letter: the first of the operands' type, "i" for signed integers."""
    if letter == "f":
        return {"==": "oeq", "!=": "une", "unordered": "uno"}.get(comparison) or "o" + _ORDERS[comparison]
    known = {"==": "eq", "!=": "ne", "u<": "ult"}.get(comparison)
    return known or ("s" if letter == "i" else "u") + _ORDERS[comparison]


def _binary(opcode: Opcode) -> Callable[[Number, Operand], Number]:
    return lambda left, right: left.builder.binary(opcode, left, right)


def _comparison(comparison: Comparison) -> Callable[[Number, Operand], Number]:
    return lambda left, right: left.builder.compare(comparison, left, right)


@lean(frozen=True, slots=True, eq=False)
class Number:
    """An operand, such as a constant or the result of an instruction; arithmetic on it emits instructions.

    Comparisons of floats are ordered, that is, false if an operand is NaN, except `differs`. `>>` preserves the sign of
    a signed integer.

    type: a name as `scalar_type` returns it, or i128.
    text: the operand in LLVM IR.
    """

    builder: ScalarBuilder = field(repr=False)
    type: str
    text: str

    @property
    def is_float(self) -> bool:
        return self.type[0] == "f"

    @property
    def is_signed(self) -> bool:
        return self.type[0] == "i"

    @property
    def bits(self) -> int:
        return int(self.type[1:])

    __add__ = __radd__ = _binary("add")
    __sub__ = _binary("sub")
    __mul__ = __rmul__ = _binary("mul")
    __truediv__ = _binary("div")
    __and__ = _binary("and")
    __or__ = _binary("or")
    __xor__ = _binary("xor")
    __lshift__ = _binary("shl")
    __lt__ = _comparison("<")
    __le__ = _comparison("<=")
    __gt__ = _comparison(">")
    __ge__ = _comparison(">=")

    def __rsub__(self, other: float) -> Number:
        return self.builder.constant(self.type, other) - self

    def __rtruediv__(self, other: float) -> Number:
        return self.builder.constant(self.type, other) / self

    def __neg__(self) -> Number:
        return self.builder.negative(self) if self.is_float else 0 - self

    def __abs__(self) -> Number:
        return self.builder.intrinsic("fabs", self)

    def __invert__(self) -> Number:
        return self ^ (1 if self.type == "b1" else -1)

    def __rshift__(self, count: Operand) -> Number:
        return self.builder.binary("shr" if self.is_signed else "lshr", self, count)

    def logical_shift_right(self, count: Operand) -> Number:
        """Shift right, inserting zeros even if the integer is signed."""
        return self.builder.binary("lshr", self, count)

    def equals(self, other: Operand) -> Number:
        """Return the comparison x == y, false if an operand is NaN."""
        return self.builder.compare("==", self, other)

    def differs(self, other: Operand) -> Number:
        """Return the comparison x != y, true if an operand is NaN."""
        return self.builder.compare("!=", self, other)


Operand = Number | float


class ScalarBuilder(ABC):
    """Emits the instructions of one operation, as LLVM IR.

    proved: True if the operation is known not to overflow (`add`, `sub` and `mul`), to have a nonnegative dividend and
    a positive divisor (`floordiv` and `mod`), or to have a count less than the width (`left_shift`, `right_shift`).
    """

    proved = False

    def __init__(self, dtype: DType) -> None:
        self._format = FORMATS.get(dtype.name)

    @property
    def format(self) -> Format:
        """The floating-point format of the computation, whose type must be float32 or float64."""
        assert self._format is not None, "only float32 and float64 have a format"
        return self._format

    @abstractmethod
    def write(self, type: str, text: str) -> Number:
        """Emit the instruction `text` and return its result, of type `type`."""

    @abstractmethod
    def call(self, type: str, name: str, *operands: tuple[str, str]) -> Number:
        """Emit a call of an intrinsic or function and return its result. operands: (LLVM type, text) pairs."""

    @abstractmethod
    def machine(self, row: Row, *operands: Number) -> Number:
        """Emit an instruction of the instruction table, whose operands and result have the same type."""

    def constant(self, type: str, number: float) -> Number:
        """Return a literal; a float must be exactly representable in its type."""
        if type[0] != "f":
            return Number(self, type, str(bool(number)).lower() if type == "b1" else str(number))
        if type == "f32" and number == number:
            assert struct.unpack("f", struct.pack("f", number))[0] == number, f"{number!r} is not a float32"
        return Number(self, type, f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}")

    def literal(self, x: Operand) -> int | None:
        """Return the value of `x` if it is a nonnegative integer literal, else None."""
        text = x.text if isinstance(x, Number) else str(x)
        return int(text) if text.isdigit() else None

    def binary(self, opcode: Opcode, left: Number, right: Operand) -> Number:
        """Emit an instruction whose two operands and result have the same type."""
        other = self.operand(left.type, right)
        assert other.type == left.type, f"{opcode} of {left.type} and {other.type}"
        opcodes = _FLOAT_OPCODES if left.is_float else _SIGNED_OPCODES if left.is_signed else _UNSIGNED_OPCODES
        text = opcodes.get(opcode, opcode)
        flags = "nsw " if self.proved and text in ("add", "sub", "mul") else ""
        return self.write(left.type, f"{text} {flags}{llvm_type(left.type)} {left.text}, {other.text}")

    def negative(self, x: Number) -> Number:
        """Emit the negation of a float."""
        return self.write(x.type, f"fneg {llvm_type(x.type)} {x.text}")

    def compare(self, comparison: Comparison, left: Number, right: Operand) -> Number:
        other, predicate = self.operand(left.type, right), _predicate(comparison, left.type[0])
        opcode = "fcmp" if left.is_float else "icmp"
        return self.write("b1", f"{opcode} {predicate} {llvm_type(left.type)} {left.text}, {other.text}")

    def intrinsic(self, name: str, first: Number, *others: Operand) -> Number:
        """Emit a named instruction whose operands and result have the same type.

        For floats: sqrt, fabs, floor, ceil, rint, trunc, fma, copysign, and minnum, which returns the other operand
        if one is NaN. For integers: abs, fshl, ctpop, ctlz, bitreverse. For both: maximum and minimum, NaN if either
        operand is NaN.
        """
        kind = llvm_type(first.type)
        arguments = [(kind, first.text)]
        for operand in others:
            arguments.append((kind, self.operand(first.type, operand).text))
        if name in ("abs", "ctlz"):
            # with `false`, abs of the least integer and ctlz of 0 are not poison
            arguments.append(("i1", "false"))
        if name in ("maximum", "minimum") and not first.is_float:
            name = f"{'s' if first.is_signed else 'u'}{name[:3]}"
        return self.call(first.type, f"llvm.{name}.{first.type if first.is_float else kind}", *arguments)

    def convert(self, conversion: Conversion, x: Number, to: str) -> Number:
        """Emit a conversion, or nothing if `x` already has type `to`."""
        if x.type == to:
            return x
        return self.write(to, f"{conversion} {llvm_type(x.type)} {x.text} to {llvm_type(to)}")

    def select(self, condition: Number, yes: Operand, no: Operand) -> Number:
        """Emit a selection of `yes` or `no` by a condition; at least one of the two must be a Number."""
        typed = yes if isinstance(yes, Number) else no
        assert isinstance(typed, Number)
        first, second = self.operand(typed.type, yes), self.operand(typed.type, no)
        kind = llvm_type(first.type)
        return self.write(first.type, f"select i1 {condition.text}, {kind} {first.text}, {kind} {second.text}")

    def operand(self, type: str, operand: Operand) -> Number:
        return operand if isinstance(operand, Number) else self.constant(type, operand)

    def maximum(self, x: Number, y: Operand) -> Number:
        return self.intrinsic("maximum", x, y)

    def minimum(self, x: Number, y: Operand) -> Number:
        return self.intrinsic("minimum", x, y)

    def fma(self, a: Number, b: Operand, c: Operand) -> Number:
        """Emit a·b + c with a single rounding."""
        return self.intrinsic("fma", a, b, c)

    def horner(self, x: Number, polynomial: Polynomial) -> Number:
        coefficients = polynomial.coefficients(self.format.dtype)
        result = self.constant(x.type, coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, coefficient)
        return result

    def parts(self, constant: RealConstant) -> tuple[float, ...]:
        """Return the floats of the format whose sum approximates a constant, largest first."""
        return constant.parts(self.format.dtype)

    def bits(self, x: Number) -> Number:
        return self.convert("bitcast", x, self.format.integer)

    def from_bits(self, i: Number) -> Number:
        return self.convert("bitcast", i, self.format.type)


class BlockBuilder(ScalarBuilder):
    """Emits the body of an LLVM function, which may have several basic blocks. block: the current one's label."""

    def __init__(self, dtype: DType) -> None:
        super().__init__(dtype)
        self._lines: list[str] = []
        self._count = 0
        self.block = "entry"

    @property
    def body(self) -> str:
        return "\n".join(self._lines)

    def machine(self, row: Row, *operands: Number) -> Number:
        raise AssertionError(f"{row.name} in a function, which must also run on a host")

    def write(self, type: str, text: str) -> Number:
        name = f"%t{self._count}"
        self._count += 1
        self._lines.append(f"  {name} = {text}")
        return Number(self, type, name)

    def call(self, type: str, name: str, *operands: tuple[str, str]) -> Number:
        arguments = ", ".join(f"{kind} {text}" for kind, text in operands)
        return self.write(type, f"call {llvm_type(type)} @{name}({arguments})")

    def start(self, block: str) -> None:
        """Start the basic block `block`; the previous one must be terminated."""
        self._lines.append(f"{block}:")
        self.block = block

    def jump(self, block: str) -> None:
        self._lines.append(f"  br label %{block}")

    def branch(self, condition: Number, yes: str, no: str) -> None:
        self._lines.append(f"  br i1 {condition.text}, label %{yes}, label %{no}")

    def phi(self, *sources: tuple[Number, str]) -> Number:
        """Emit a phi. sources: (value, label of the predecessor) pairs; `add_incoming` adds that of a back edge."""
        type = sources[0][0].type
        pairs = ", ".join(f"[ {number.text}, %{block} ]" for number, block in sources)
        return self.write(type, f"phi {llvm_type(type)} {pairs}")

    def add_incoming(self, phi: Number, value: Number, block: str) -> None:
        """Add to a phi the value that it takes on the back edge from `block`, the end of a loop's body."""
        index = next(i for i, line in enumerate(self._lines) if line.startswith(f"  {phi.text} = phi "))
        self._lines[index] += f", [ {value.text}, %{block} ]"

    def ret(self, result: Number) -> None:
        self._lines.append(f"  ret {llvm_type(result.type)} {result.text}")


@lean(frozen=True, slots=True)
class Code:
    """The code of an operation for some types, such as integers.

    write: emits the formula: (builder, *operands) -> result.
    called: the formula is emitted once per type, as a function that is called wherever `shortcut` doesn't apply.
    shortcut: a cheaper formula for constant or proved operands, like `write`; returns None if it doesn't apply.
    """

    write: Callable[..., Number]
    called: bool = False
    shortcut: Callable[..., Number | None] | None = None


def called(write: Callable[..., Number], shortcut: Callable[..., Number | None] | None = None) -> Code:
    """Return code that is emitted once per type, as a function, and called where `shortcut` doesn't apply."""
    return Code(write, True, shortcut)
