"""The record of a reduction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..dataclass import dataclass
from ..dtypes import DType, bfloat16, bool_, float16, float32, int32

Array = np.ndarray
Value = bool | int | float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reduction:
    """One reduction, with all that the compiler and the documentation need to know about it."""

    name: str
    #: one line for the documentation
    meaning: str
    #: reference semantics in NumPy: (array of the accumulation type, or any type if `tests`, axes) -> result
    formula: Callable[..., Array]
    #: the commutative elementwise operation that combines two values
    combines: str
    #: the neutral element of `combines` in an accumulation type
    identity: Callable[[DType], Value]
    #: True if elements are tested for being nonzero, and the result is bool_
    tests: bool = False
    #: True if the result is the row-major index, over the axes, of the value's first occurrence or of the first NaN
    picks: bool = False
    #: True if the destination may have any numeric type except fp8 (floating-point if the elements are), in whose
    #: accumulation type elements are combined
    grows: bool = False

    def result_type(self, dtype: DType) -> DType:
        """Return the default type of the result for elements of type `dtype`."""
        if self.tests:
            return bool_
        if self.picks:
            return int32
        is_narrow = dtype == bool_ or (dtype.is_integer and dtype.bits < 32)
        return int32 if self.grows and is_narrow else dtype

    def accumulates_in(self, dtype: DType) -> DType:
        """Return the type in which elements of type `dtype` are combined by default."""
        if self.tests:
            return int32
        if dtype in (float16, bfloat16):
            return float32
        return int32 if dtype == bool_ or (dtype.is_integer and dtype.bits < 32) else dtype

    def combines_in(self, src: DType, dst: DType) -> DType:
        """Return the type in which elements of type `src` are combined for a result of type `dst`."""
        return self.accumulates_in(src if dst == self.result_type(src) else dst)

    def of_nothing(self, dtype: DType) -> Value | None:
        """Return the result of reducing no elements in an accumulation type; None if NumPy defines none."""
        try:
            value: Value = self.formula(np.zeros(0, dtype.numpy), (0,)).item()
        except ValueError:
            return None
        return value

    def type_fault(self, src: DType, dst: DType) -> str | None:
        """Return why elements of type `src` can't be reduced to a result of type `dst`, or None."""
        if src.is_fp8:
            return f"{self.name} of {src}: fp8 is a storage type; cast it first, for example to float32"
        if dst == self.result_type(src):
            return None
        if self.grows and (dst.is_float or not src.is_float) and dst != bool_ and not dst.is_fp8:
            return None
        return f"{self.name} of {src} gives {self.result_type(src)}; the destination is {dst}"
