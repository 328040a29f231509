"""What there is to say of one elementwise operation, and its type rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...dataclass import dataclass, field
from ...dtypes import DType, bool_, float32, int32, mixes_signs, promote, unsigned
from ...errors import KernelTypeError
from ..scalar import Code

__all__ = ["INF", "NAN", "RULES", "Accuracy", "Approximation", "Elementwise", "Formula", "in_double"]

Array = np.ndarray
Formula = Callable[..., Array]
Range = tuple[float, float]

INF, NAN = float("inf"), float("nan")

#: kind -> what it takes and gives
RULES: dict[str, str] = {
    "approximation": "of float32, float16 and bfloat16; integers and bool_ are converted to float32",
    "function": "of floats; integers and bool_ are converted to float32",
    "arithmetic": "of integers and floats in the promoted type; bool_ counts as int32",
    "exact": "as arithmetic, and never rounds: float16 and bfloat16 are not converted",
    "bits": "of integers and bool_ in the promoted type; signed with unsigned in the unsigned type of the wider",
    "shift": "of integers in the promoted type; signed with unsigned in the left one's; bool_ counts as int32",
    "count": "of integers, in their own type; bool_ counts as int32",
    "comparison": "of values in the promoted type; gives bool_",
    "logical": "of values converted to bool_; gives bool_",
    "select": "a bool_ condition, then two values in the promoted type",
}


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How far a function may be from its true value, and where that shows.

    ulp: a bound of the error in float32 and in float64, in units in the last place of the true value. For one float32
    operand it was measured on all arguments; softplus, log1p and expm1 on every 64th, and on all of moderate size.
    exact: the true value of the operands, in mpmath's words (`mp`); only tests read it. precision_bits: that this
    takes, where arguments cancel.
    float32, float64: for each operand the range in which the function is neither constant nor infinite.
    halves: of a function with a formula for them a bound of the error in float16 and in bfloat16, of which rounding is
    half a unit; measured on all arguments.
    """

    ulp: tuple[float, float]
    exact: str
    float32: tuple[Range, ...]
    float64: tuple[Range, ...]
    precision_bits: int = 250
    halves: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Approximation:
    """How far what the hardware approximates in float32 may be from its true value: machines give different bits.

    relative: of the true value. growth: of the true value for each unit of |x|, added to that. absolute: added too.
    domain: of the last operand, where that holds; normal numbers. Subnormal operands and results may be zeros.
    """

    relative: float
    domain: Range
    growth: float = 0.0
    absolute: float = 0.0

    def error(self, true: Array, x: Array) -> Array:
        """The greatest absolute error, for operands of which `x` is the last one."""
        error = (self.relative + self.growth * np.abs(x)) * np.abs(true) + self.absolute
        return np.asarray(np.where(np.abs(true) < 2.0**-126, np.maximum(error, 2.0**-126), error))

    def __str__(self) -> str:
        terms = [f"{self.relative:.2g}"] if self.relative else []
        terms += [f"{self.growth:.2g}*abs(x)"] if self.growth else []
        relative = f"{' + '.join(terms)} of the value" if terms else ""
        absolute = f"{self.absolute:.2g}" if self.absolute else ""
        low, high = self.domain
        return f"{' plus '.join(filter(None, (relative, absolute)))} from {low:.3g} to {high:.3g}"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Elementwise:
    """One elementwise operation: all that is to be said of it. Whatever needs a list of operations collects these.

    operands: their names in calls. kind: its type rule, a key of `RULES`. meaning: one line.
    formula: its NumPy meaning on arrays that are already of the type in which it computes.
    floats, integers, bools: how it computes on float32 and float64, on integers, on bool_; None where the type rule
    leads to none. narrow: on floats of 16 and 8 bits; without it they are converted to float32 and back.
    halves: how it computes on float32 what was float16 or bfloat16 and is rounded to that; None where as on float32.
    accuracy: None where it is exact or correctly rounded, so that every machine gives NumPy's bits.
    approximation: the bound of one that asks for the hardware's; None of the others, which give one result everywhere.
    special: rows of arguments and the result, for zeros, infinities and NaN; NumPy has the same.
    symmetry: of a function of one float: "odd", "even" or "". rising: whether no step of it goes down.
    conditions: how many of the operands, the first ones, are conditions: of bool_, and not converted.
    gives_bool: whether it gives bool_ whatever its operands are.
    """

    name: str
    operands: tuple[str, ...]
    kind: str
    meaning: str
    formula: Formula
    floats: Code | None = None
    integers: Code | None = None
    bools: Code | None = None
    narrow: Code | None = None
    halves: Code | None = None
    accuracy: Accuracy | None = None
    approximation: Approximation | None = None
    special: tuple[tuple[float, ...], ...] = ()
    symmetry: str = ""
    rising: bool = False
    conditions: int = field(init=False)
    gives_bool: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditions", 1 if self.kind == "select" else 0)
        object.__setattr__(self, "gives_bool", self.kind in ("comparison", "logical"))

    @property
    def arity(self) -> int:
        return len(self.operands)

    @property
    def takes_floats(self) -> bool:
        """Whether its type rule lets floats in."""
        return self.kind not in ("bits", "shift", "count")

    @property
    def issue(self) -> int:
        """Quarter cycles of a multiprocessor that it takes for a warp; a function as many as an exponential."""
        return 16 if self.kind == "function" else 1

    def code(self, dtype: DType) -> Code | None:
        """How it computes in a type, or None where it doesn't."""
        if dtype.is_float:
            return self.floats if dtype.bits >= 32 else self.narrow
        return self.integers if dtype.is_integer else self.bools

    def folds(self, dtype: DType) -> bool:
        """Whether NumPy gives the bits that every machine gives, when it computes in a type."""
        return not dtype.is_float or (self.accuracy is None and self.approximation is None)

    def value_type(self, compute: DType) -> DType:
        """The type of the value that it gives when it computes in `compute`: that, or bool_."""
        return bool_ if self.gives_bool else compute

    def result_type(self, dtypes: tuple[DType, ...]) -> tuple[DType, DType] | str:
        """The types in which it computes and which it returns, or why it can't take `dtypes`."""
        if len(dtypes) != self.arity:
            return f"{self.name} takes {self.arity} operands; got {len(dtypes)}"
        fp8 = [d for d in dtypes if d.is_fp8]
        if fp8:
            return f"{self.name} of {fp8[0]}: fp8 is storage; cast it first, for example to float32"
        if self.kind == "logical":
            return bool_, bool_
        if any(d != bool_ for d in dtypes[: self.conditions]):
            return f"the condition of {self.name} must be bool_; got {dtypes[0]}"
        try:
            promoted = self.common_type(dtypes[self.conditions :])
        except KernelTypeError as error:
            return f"{self.name} of {' and '.join(map(str, dtypes[self.conditions :]))}: {error.message}"
        if self.kind == "select":
            return promoted, promoted
        if self.kind == "comparison":
            return promoted, bool_
        return self._arithmetic_type(promoted)

    def remedy(self, dtypes: Sequence[DType]) -> str:
        """What to do where it can't take `dtypes`."""
        if any(d != bool_ for d in dtypes[: self.conditions]):
            return "compare it: mask != 0"
        hint = "convert the operands first: x.astype(...)"
        return f"{hint}; a power is x ** y" if self.name == "bitwise_xor" else hint

    def common_type(self, dtypes: Sequence[DType]) -> DType:
        """The type in which values that have types meet.

        raises: KernelTypeError where no type holds all of them.
        """
        integers = all(d.is_integer for d in dtypes)
        if integers and self.kind == "shift":
            if not mixes_signs(dtypes):
                return promote(*dtypes)
            if dtypes[1].bits > dtypes[0].bits:
                raise KernelTypeError(
                    f"{dtypes[0]} can't hold every count of {dtypes[1]}", hint="convert the count first"
                )
            return dtypes[0]
        if integers and self.kind == "bits" and mixes_signs(dtypes):
            return unsigned(max(dtypes, key=lambda d: d.bits))
        # functions compute in float32
        if integers and self.kind in ("function", "approximation"):
            return max(dtypes, key=lambda d: d.bits)
        return promote(*dtypes)

    def _arithmetic_type(self, promoted: DType) -> tuple[DType, DType] | str:
        if promoted.is_float and not self.takes_floats:
            return f"{self.name} takes integers or bool_; got {promoted}"
        if self.kind == "bits":
            return promoted, promoted
        if self.kind in ("function", "approximation") and not promoted.is_float:
            return float32, float32
        if self.kind == "approximation" and promoted.bits > 32:
            return f"{self.name} of {promoted}: the hardware approximates float32 only"
        if promoted == bool_:
            return int32, int32
        if self.kind != "exact" and promoted.is_half and self.halves is None:
            return float32, promoted
        return promoted, promoted


def in_double(formula: Formula) -> Formula:
    """A formula of floats that is evaluated in float64 and rounded once, so that it serves as a reference."""

    def evaluate(*arrays: Array) -> Array:
        doubles = [np.asarray(a, dtype=np.float64) for a in arrays]
        return np.asarray(formula(*doubles)).astype(arrays[0].dtype)

    return evaluate
