"""The interface `ScalarBuilder`, through which formulas emit the computation of one element of an operation.

Code generation implements the builders. The formulas rely on IEEE arithmetic and are independent of LLVM.
"""

from __future__ import annotations

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


@lean(frozen=True, slots=True, eq=False)
class Number:
    """An operand, such as a constant or the result of an instruction; arithmetic on it emits instructions.

    Comparisons of floats are ordered, that is, false if an operand is NaN, except `differs`. `>>` preserves the sign of
    a signed integer.

    type: a name as `scalar_type` returns it, or i128.
    text: the operand in the language that the builder emits.
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

    def __add__(self, other: Operand) -> Number:
        return self.builder.binary("add", self, other)

    def __sub__(self, other: Operand) -> Number:
        return self.builder.binary("sub", self, other)

    def __mul__(self, other: Operand) -> Number:
        return self.builder.binary("mul", self, other)

    def __radd__(self, other: float) -> Number:
        return self + other

    def __rsub__(self, other: float) -> Number:
        return self.builder.constant(self.type, other) - self

    def __rmul__(self, other: float) -> Number:
        return self * other

    def __truediv__(self, other: Operand) -> Number:
        return self.builder.binary("div", self, other)

    def __rtruediv__(self, other: float) -> Number:
        return self.builder.constant(self.type, other) / self

    def __neg__(self) -> Number:
        return self.builder.negative(self) if self.is_float else 0 - self

    def __abs__(self) -> Number:
        return self.builder.intrinsic("fabs", self)

    def __and__(self, other: Operand) -> Number:
        return self.builder.binary("and", self, other)

    def __or__(self, other: Operand) -> Number:
        return self.builder.binary("or", self, other)

    def __xor__(self, other: Operand) -> Number:
        return self.builder.binary("xor", self, other)

    def __invert__(self) -> Number:
        return self ^ (1 if self.type == "b1" else -1)

    def __lshift__(self, count: Operand) -> Number:
        return self.builder.binary("shl", self, count)

    def __rshift__(self, count: Operand) -> Number:
        return self.builder.binary("shr" if self.is_signed else "lshr", self, count)

    def logical_shift_right(self, count: Operand) -> Number:
        """Shift right, inserting zeros even if the integer is signed."""
        return self.builder.binary("lshr", self, count)

    def __lt__(self, other: Operand) -> Number:
        return self.builder.compare("<", self, other)

    def __le__(self, other: Operand) -> Number:
        return self.builder.compare("<=", self, other)

    def __gt__(self, other: Operand) -> Number:
        return self.builder.compare(">", self, other)

    def __ge__(self, other: Operand) -> Number:
        return self.builder.compare(">=", self, other)

    def equals(self, other: Operand) -> Number:
        """Return the comparison x == y, false if an operand is NaN."""
        return self.builder.compare("==", self, other)

    def differs(self, other: Operand) -> Number:
        """Return the comparison x != y, true if an operand is NaN."""
        return self.builder.compare("!=", self, other)


Operand = Number | float


class ScalarBuilder(ABC):
    """Emits the instructions of one operation.

    format: the floating-point format of the computation, if its type is float32 or float64.
    proved: True if the operation is known not to overflow (`add`, `sub` and `mul`), or to have a nonnegative dividend
    and a positive divisor (`floordiv` and `mod`).
    """

    proved = False

    @property
    @abstractmethod
    def format(self) -> Format: ...

    @abstractmethod
    def constant(self, type: str, number: float) -> Number:
        """Return a literal; a float must be exactly representable in its type."""

    @abstractmethod
    def literal(self, x: Operand) -> int | None:
        """Return the value of `x` if it is a nonnegative integer literal, else None."""

    @abstractmethod
    def binary(self, opcode: Opcode, left: Number, right: Operand) -> Number:
        """Emit an instruction whose two operands and result have the same type."""

    @abstractmethod
    def negative(self, x: Number) -> Number:
        """Emit the negation of a float."""

    @abstractmethod
    def compare(self, comparison: Comparison, left: Number, right: Operand) -> Number: ...

    @abstractmethod
    def intrinsic(self, name: str, first: Number, *others: Operand) -> Number:
        """Emit a named instruction whose operands and result have the same type.

        For floats: sqrt, fabs, floor, ceil, rint, trunc, fma, copysign, and minnum, which returns the other operand
        if one is NaN. For integers: abs, fshl, ctpop, ctlz, bitreverse. For both: maximum and minimum, NaN if either
        operand is NaN.
        """

    @abstractmethod
    def machine(self, row: Row, *operands: Number) -> Number:
        """Emit an instruction of the instruction table, whose operands and result have the same type."""

    @abstractmethod
    def convert(self, conversion: Conversion, x: Number, to: str) -> Number:
        """Emit a conversion, or nothing if `x` already has type `to`."""

    @abstractmethod
    def select(self, condition: Number, yes: Operand, no: Operand) -> Number:
        """Emit a selection of `yes` or `no` by a condition; at least one of the two must be a Number."""

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
    """Emits an out-of-line function, which may have several basic blocks. block: the label of the current block."""

    block: str

    @abstractmethod
    def start(self, block: str) -> None:
        """Start the basic block `block`; the previous one must be terminated."""

    @abstractmethod
    def jump(self, block: str) -> None: ...

    @abstractmethod
    def branch(self, condition: Number, yes: str, no: str) -> None: ...

    @abstractmethod
    def phi(self, *sources: tuple[Number, str]) -> Number:
        """Emit a phi. sources: (value, label of the predecessor) pairs; `add_incoming` adds that of a back edge."""

    @abstractmethod
    def add_incoming(self, phi: Number, value: Number, block: str) -> None:
        """Add to a phi the value that it takes on the back edge from `block`, the end of a loop's body."""


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


def inline(write: Callable[..., Number]) -> Code:
    """Return code that is emitted at each use."""
    return Code(write)


def called(write: Callable[..., Number], shortcut: Callable[..., Number | None] | None = None) -> Code:
    """Return code that is emitted once per type, as a function, and called where `shortcut` doesn't apply."""
    return Code(write, True, shortcut)
