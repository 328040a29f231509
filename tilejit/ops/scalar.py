"""How an operation computes one element: formulas in Python that write instructions with a `ScalarBuilder`.

Code generation implements the builder. The formulas know IEEE arithmetic and nothing of LLVM.
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

__all__ = [
    "FORMATS", "BlockBuilder", "Code", "Format", "Number", "Operand", "ScalarBlock", "ScalarBuilder", "called",
    "inline", "scalar_type",
]

Opcode = Literal["add", "sub", "mul", "div", "rem", "and", "or", "xor", "shl", "shr", "lshr"]
Comparison = Literal["==", "!=", "<", "<=", ">", ">="]
#: trunc: the low bits. zext: with zeros above. sitofp, uitofp: the integer's value, signed or not, rounded. bitcast:
#: the same bits
Conversion = Literal["trunc", "zext", "sitofp", "uitofp", "bitcast"]


@lean(frozen=True, slots=True)
class Format:
    """An IEEE 754 binary format. precision_bits: stored bits of the significand. integer: the type of its bits."""

    dtype: str
    type: str
    integer: str
    bits: int
    precision_bits: int

    @property
    def bias(self) -> int:
        """The exponent field of 1."""
        return (1 << (self.bits - self.precision_bits - 2)) - 1

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def round_shift(self) -> float:
        """Adding this rounds a small number to an integer, which is then in the sum's low bits."""
        return 1.5 * 2.0**self.precision_bits


#: the formats in which functions compute, by the name of their type
FORMATS = {
    "float32": Format("float32", "f32", "i32", 32, 23),
    "float64": Format("float64", "f64", "i64", 64, 52),
}


@cache
def scalar_type(dtype: DType) -> str:
    """A builder's name for a type: f32, i8, u64, b1; of types in which nothing is computed their own."""
    if dtype.kind == "bool":
        return "b1"
    if dtype.is_fp8 or dtype.name == "bfloat16":
        return dtype.name
    return f"{dtype.kind[0]}{dtype.bits}"


@lean(frozen=True, slots=True, eq=False)
class Number:
    """A value that an instruction gave, or a constant; arithmetic on it writes an instruction.

    type: as `scalar_type` names it. text: what the builder writes for it.
    Comparisons are ordered on floats: false where an operand is NaN, but for `differs`. `>>` keeps a signed
    integer's sign.
    """

    builder: ScalarBuilder = field(repr=False)
    type: str
    text: str

    @property
    def is_float(self) -> bool:
        return self.type[0] == "f"

    @property
    def is_signed(self) -> bool:
        """Whether it is a signed integer."""
        return self.type[0] == "i"

    @property
    def bits(self) -> int:
        """The width of its type."""
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
        """Shifted with zeros from above, whether signed or not."""
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
        """Equality, false where an operand is NaN."""
        return self.builder.compare("==", self, other)

    def differs(self, other: Operand) -> Number:
        """Inequality, true where an operand is NaN."""
        return self.builder.compare("!=", self, other)


Operand = Number | float


@lean(frozen=True, slots=True)
class ScalarBlock:
    """A basic block's label."""

    name: str


class ScalarBuilder(ABC):
    """Writes the instructions of one operation.

    format: the floating-point format in which it computes; of integers there is none.
    proved: what facts prove of an integer operation: of `add`, `sub` and `mul` that they don't overflow; of
    `floordiv` and `mod` that the dividend isn't negative and the divisor is positive.
    """

    proved = False

    @property
    @abstractmethod
    def format(self) -> Format: ...

    @abstractmethod
    def constant(self, type: str, number: float) -> Number:
        """A literal; a float must be exact in its type."""

    @abstractmethod
    def literal(self, x: Operand) -> int | None:
        """The number that a literal which is no negative integer is, else None."""

    @abstractmethod
    def binary(self, opcode: Opcode, left: Number, right: Operand) -> Number:
        """An instruction of two operands of one type, which is also the result's."""

    @abstractmethod
    def unsigned(self, opcode: Literal["div", "rem"], left: Number, right: Operand) -> Number:
        """The quotient or remainder of two integers, both taken as unsigned."""

    @abstractmethod
    def negative(self, x: Number) -> Number:
        """A float with the other sign."""

    @abstractmethod
    def compare(self, comparison: Comparison, left: Number, right: Operand) -> Number: ...

    @abstractmethod
    def below(self, left: Number, right: Operand) -> Number:
        """Whether one integer is less than another, both taken as unsigned."""

    @abstractmethod
    def unordered(self, left: Number, right: Operand) -> Number:
        """Whether either is NaN."""

    @abstractmethod
    def intrinsic(self, name: str, first: Number, *others: Operand) -> Number:
        """An instruction by name, of operands of one type, which is also the result's.

        Of floats: sqrt, fabs, floor, ceil, rint, trunc, fma, copysign. Of integers: abs, fshl, ctpop, ctlz, bitreverse.
        """

    @abstractmethod
    def machine(self, row: Row, *operands: Number) -> Number:
        """An instruction of the instruction table, of operands of one type, which is also the result's."""

    @abstractmethod
    def convert(self, conversion: Conversion, x: Number, to: str) -> Number:
        """`x` as another type; nothing where it is of it already."""

    @abstractmethod
    def select(self, condition: Number, yes: Operand, no: Operand) -> Number:
        """`yes` where the condition holds, else `no`; at least one of them is a Number."""

    @abstractmethod
    def maximum(self, x: Number, y: Operand) -> Number:
        """The greater; NaN if either is NaN."""

    @abstractmethod
    def minimum(self, x: Number, y: Operand) -> Number:
        """The less; NaN if either is NaN."""

    @abstractmethod
    def capped(self, x: Number, limit: Operand) -> Number:
        """The less of two floats; the limit where `x` is NaN."""

    def operand(self, type: str, operand: Operand) -> Number:
        """`operand` as a Number of `type`."""
        return operand if isinstance(operand, Number) else self.constant(type, operand)

    def fma(self, a: Number, b: Operand, c: Operand) -> Number:
        """a·b + c with one rounding."""
        return self.intrinsic("fma", a, b, c)

    def horner(self, x: Number, polynomial: Polynomial) -> Number:
        """The polynomial's value at x."""
        coefficients = polynomial.coefficients(self.format.dtype)
        result = self.constant(x.type, coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, coefficient)
        return result

    def parts(self, constant: RealConstant) -> tuple[float, ...]:
        """The format's numbers whose sum a constant is, largest first."""
        return constant.parts(self.format.dtype)

    def bits(self, x: Number) -> Number:
        """The representation of a float as an integer."""
        return self.convert("bitcast", x, self.format.integer)

    def from_bits(self, i: Number) -> Number:
        return self.convert("bitcast", i, self.format.type)


class BlockBuilder(ScalarBuilder):
    """Writes a called function, which has several basic blocks; code that stands where it is used has one.

    block: where it writes.
    """

    block: ScalarBlock

    @abstractmethod
    def start(self, block: ScalarBlock) -> None:
        """Begin `block`; the one before must have ended."""

    @abstractmethod
    def jump(self, block: ScalarBlock) -> None: ...

    @abstractmethod
    def branch(self, condition: Number, yes: ScalarBlock, no: ScalarBlock) -> None: ...

    @abstractmethod
    def phi(self, *sources: tuple[Number, ScalarBlock]) -> Number:
        """The value that came with the block control came from."""

    @abstractmethod
    def add_incoming(self, phi: Number, value: Number, block: ScalarBlock) -> None:
        """Complete a loop's phi with the value from the end of its body."""


@lean(frozen=True, slots=True)
class Code:
    """How an operation computes on numbers of one kind.

    write: its formula: a builder and the operands to the result.
    called: it is written once, as a function, and where it is used stands a call.
    shortcut: a cheaper formula for what constants or proofs allow; None where they don't.
    """

    write: Callable[..., Number]
    called: bool = False
    shortcut: Callable[..., Number | None] | None = None


def inline(write: Callable[..., Number]) -> Code:
    """Code that stands where it is used."""
    return Code(write)


def called(write: Callable[..., Number], shortcut: Callable[..., Number | None] | None = None) -> Code:
    """Code that stands in a function."""
    return Code(write, True, shortcut)
