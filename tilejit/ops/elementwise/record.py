"""The record of an elementwise operation, and its type rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...dataclass import dataclass, field
from ...dtypes import DType, bool_, float32, int32, mixes_signs, promote, uint32, uint64, unsigned
from ...errors import KernelTypeError
from ...wording import counted
from ..scalar import Code

Formula = Callable[..., np.ndarray]
Range = tuple[float, float]

INF, NAN = float("inf"), float("nan")

#: kind -> the types of operands and results, in words
RULES: dict[str, str] = {
    "approximation": "of float32, float16 and bfloat16; integers and bool_ are converted to float32",
    "function": "of floats; integers and bool_ are converted to float32",
    "arithmetic": "of integers and floats in the promoted type; bool_ counts as int32",
    "exact": "like arithmetic, but never rounds: float16 and bfloat16 are not converted",
    "bits": "of integers and bool_ in the promoted type; for mixed signs, in the unsigned type of the greater width",
    "shift": "of integers in the promoted type; for mixed signs, in that of the left operand; bool_ counts as int32",
    "count": "of integers, in their own type; bool_ counts as int32",
    "comparison": "of values in the promoted type; gives bool_",
    "logical": "of values converted to bool_; gives bool_",
    "random": "of integers, converted to uint64; gives uint32",
    "select": "a bool_ condition, then two values in the promoted type",
}


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A bound on the error of a function, and the ranges in which tests measure it.

    ulp: the bound in float32 and in float64, in units in the last place of the true value. For functions of one float32
    it was measured on all arguments, but for softplus, log1p and expm1 on every 64th and on all of moderate size.
    exact: the true value as an mpmath expression of the operands (`mp` is mpmath), for tests only.
    float32, float64: for each operand, the range that tests sample densely.
    precision_bits: the precision in which `exact` must be evaluated, because of cancellation.
    halves: for functions with a formula for float16 and bfloat16, the bounds in these formats, including half a unit
    for the rounding; measured on all arguments.
    """

    ulp: tuple[float, float]
    exact: str
    float32: tuple[Range, ...]
    float64: tuple[Range, ...]
    precision_bits: int = 250
    halves: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Approximation:
    """A bound on the error of a hardware approximation in float32, whose results depend on the GPU.

    relative: bound on the relative error.
    growth: additional relative error per unit of |x|.
    absolute: additional absolute error.
    domain: the range of the last operand for which the bound holds for normal numbers; subnormal operands and results
    may be flushed to zero.
    """

    relative: float
    domain: Range
    growth: float = 0.0
    absolute: float = 0.0

    def error(self, true: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the maximum absolute error for true values, where `x` is the last operand."""
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
    """One elementwise operation, with all that the compiler and the documentation need to know about it."""

    name: str
    #: names of the operands in calls such as tj.hypot(x, y)
    operands: tuple[str, ...]
    #: type rule, a key of `RULES`
    kind: str
    #: one line for the documentation
    meaning: str
    #: reference semantics in NumPy, on arrays of the type of the computation
    formula: Formula
    #: code for float32 and float64, for integers and for bool_; None if the type rule excludes them
    floats: Code | None = None
    integers: Code | None = None
    bools: Code | None = None
    #: code for floats of fewer than 32 bits; without it, float16 and bfloat16 are converted to float32 and back
    narrow: Code | None = None
    #: code for float32 operands converted from float16 or bfloat16, with a result to be rounded back; `floats` if None
    halves: Code | None = None
    #: bound on the error; None for an approximation, and if NumPy gives the same bits
    accuracy: Accuracy | None = None
    #: the error of a hardware approximation; None if all devices give the same bits
    approximation: Approximation | None = None
    #: tuples (*operands, result) for zeros, infinities, NaN and other special cases, as in NumPy
    special: tuple[tuple[float, ...], ...] = ()
    #: symmetry of a function of one float: "odd", "even" or ""
    symmetry: str = ""
    #: True if the computed function is nondecreasing
    is_ascending: bool = False
    #: the number of leading operands that are bool_ conditions, and are not converted
    conditions: int = field(init=False)
    #: True if the result is bool_ for all operand types
    gives_bool: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditions", 1 if self.kind == "select" else 0)
        object.__setattr__(self, "gives_bool", self.kind in ("comparison", "logical"))

    @property
    def arity(self) -> int:
        return len(self.operands)

    @property
    def takes_floats(self) -> bool:
        return self.kind not in ("bits", "shift", "count", "random")

    @property
    def issue(self) -> int:
        """Estimated issue time per warp, in quarter cycles of an SM: an exponential's for a function, else 1."""
        return 16 if self.kind in ("function", "random") else 1

    def code(self, dtype: DType) -> Code | None:
        """Return the code that computes in type `dtype`, or None if there is none."""
        if dtype.is_float:
            return self.floats if dtype.bits >= 32 else self.narrow
        return self.integers if dtype.is_integer else self.bools

    def folds(self, dtype: DType) -> bool:
        """True if NumPy gives the same bits as all devices for a computation in type `dtype`."""
        return not dtype.is_float or (self.accuracy is None and self.approximation is None)

    def value_type(self, compute: DType) -> DType:
        """Return the type of a value computed in type `compute`: bool_ if `gives_bool`, else the same."""
        return bool_ if self.gives_bool else compute

    def result_type(self, dtypes: tuple[DType, ...]) -> tuple[DType, DType] | str:
        """Return the types of the computation and of the result, or why the operation doesn't accept `dtypes`."""
        if len(dtypes) != self.arity:
            return f"{self.name} takes {counted(self.arity, 'operand')}; got {len(dtypes)}"
        fp8 = [d for d in dtypes if d.is_fp8]
        if fp8:
            return f"{self.name} of {fp8[0]}: fp8 is a storage type; cast it first, for example to float32"
        if self.kind == "logical":
            return bool_, bool_
        if self.kind == "random":
            others = [d for d in dtypes if not d.is_integer]
            return f"{self.name} takes integers; got {others[0]}" if others else (uint64, uint32)
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
        """Return a hint on how to convert operands of `dtypes`, which the operation doesn't accept."""
        if any(d != bool_ for d in dtypes[: self.conditions]):
            return "compare it: mask != 0"
        hint = "convert the operands first: x.astype(...)"
        return f"{hint}; a power is x ** y" if self.name == "bitwise_xor" else hint

    def common_type(self, dtypes: Sequence[DType]) -> DType:
        """Return the common type of operands of types `dtypes`. raises: KernelTypeError if none exists."""
        if self.kind == "random":
            return uint64
        integers = all(d.is_integer for d in dtypes)
        if integers and self.kind == "shift":
            if not mixes_signs(dtypes):
                return promote(*dtypes)
            if dtypes[1].bits > dtypes[0].bits:
                raise KernelTypeError(
                    f"{dtypes[0]} can't hold every shift count of type {dtypes[1]}", hint="convert the count first"
                )
            return dtypes[0]
        if integers and self.kind == "bits" and mixes_signs(dtypes):
            return unsigned(max(dtypes, key=lambda d: d.bits))
        # any of the types would do, because functions of integers are computed in float32
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
    """Return a reference that evaluates a formula of floats in float64 and rounds once."""

    def evaluate(*arrays: np.ndarray) -> np.ndarray:
        doubles = [np.asarray(a, dtype=np.float64) for a in arrays]
        return np.asarray(formula(*doubles)).astype(arrays[0].dtype)

    return evaluate
