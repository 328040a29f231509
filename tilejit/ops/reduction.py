"""What there is to say of one reduction: how many elements become one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..dataclass import dataclass
from ..dtypes import DType, bfloat16, bool_, float16, float32, int32

__all__ = ["Reduction", "Value"]

Array = np.ndarray
Value = bool | int | float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reduction:
    """One reduction: all that is to be said of it. Whatever needs a list of reductions collects these.

    meaning: one line. formula: its NumPy meaning, from an array, already of the type in which it combines, and axes.
    combines: the elementwise operation that makes one of two values; the order of the two doesn't matter.
    identity: what changes nothing when it is combined, from the type in which it combines.
    tests: elements count as whether they are nonzero, and the result is bool_.
    picks: the result is where the value lies, counted in row-major order over the axes; the first where there are
    several, NaN before all else.
    grows: the result may need a wider type than the elements. Then the destination may have any type of numbers, of
    floats where the elements are, and elements are converted to it before they are combined.
    """

    name: str
    meaning: str
    formula: Callable[..., Array]
    combines: str
    identity: Callable[[DType], Value]
    tests: bool = False
    picks: bool = False
    grows: bool = False

    def result_type(self, dtype: DType) -> DType:
        """The type of the result unless another is asked for."""
        if self.tests:
            return bool_
        if self.picks:
            return int32
        is_narrow = dtype == bool_ or (dtype.is_integer and dtype.bits < 32)
        return int32 if self.grows and is_narrow else dtype

    def accumulates_in(self, dtype: DType) -> DType:
        """The type in which elements of a type are combined."""
        if self.tests:
            return int32
        if dtype in (float16, bfloat16):
            return float32
        return int32 if dtype == bool_ or (dtype.is_integer and dtype.bits < 32) else dtype

    def combines_in(self, src: DType, dst: DType) -> DType:
        """The type in which elements of `src` are combined for a result of `dst`."""
        return self.accumulates_in(src if dst == self.result_type(src) else dst)

    def of_nothing(self, dtype: DType) -> Value | None:
        """What it gives of no elements, combined in a type; None where it has no value, as in NumPy."""
        try:
            value: Value = self.formula(np.zeros(0, dtype.numpy), (0,)).item()
        except ValueError:
            return None
        return value

    def type_fault(self, src: DType, dst: DType) -> str | None:
        """Why elements of `src` can't become a result of `dst`, or None."""
        if src.is_fp8:
            return f"{self.name} of {src}: fp8 is storage; cast it first, for example to float32"
        if dst == self.result_type(src):
            return None
        if self.grows and (dst.is_float or not src.is_float) and dst != bool_ and not dst.is_fp8:
            return None
        return f"{self.name} of {src} gives {self.result_type(src)}; the destination is {dst}"
