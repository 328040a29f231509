"""Reductions over axes of a tile: sums, products, extrema, tests, and the indices of extrema."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..dataclass import dataclass
from ..dtypes import DType, bfloat16, bool_, float16, float32, from_numpy, int32
from ..wording import counted
from . import axes
from .broadcast import without_units
from .cast import convert
from .copies import DST, VARIANT_NAME
from .record import Attribute, Attributes, AttributeValue, DTypes, Fault, Shapes, TileOperand, TileOperation

Value = bool | int | float

AXIS = Attribute("axis", tuple, "the axes to reduce, all by default", counts="src")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reduction:
    """The record of one reduction, on which the compiler and the documentation rely."""

    name: str
    #: one line for the documentation
    meaning: str
    #: reference semantics in NumPy: (array, axes) -> result; the array has the accumulation type, or any if `tests`
    formula: Callable[..., np.ndarray]
    #: the name of the commutative elementwise operation that combines two values
    combines: str
    #: the neutral element of `combines` in an accumulation type; if `tests`, for operands that are 0 or 1
    identity: Callable[[DType], Value]
    #: True if elements are tested for being nonzero, and the result is bool_
    tests: bool = False
    #: True if the result is a row-major index over the axes: that of the first NaN, else of the first extremum
    picks: bool = False
    #: True if the destination may have any numeric type except fp8, but only a floating-point type if the elements have
    #: one; elements are combined in the accumulation type of the destination's type
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


def _least(dtype: DType) -> Value:
    return -float("inf") if dtype.is_float else int(np.iinfo(dtype.numpy).min)


def _greatest(dtype: DType) -> Value:
    return float("inf") if dtype.is_float else int(np.iinfo(dtype.numpy).max)


def _zero(dtype: DType) -> Value:
    """Return 0, or -0.0 for floats, since adding 0.0 would change a sum of negative zeros."""
    return -0.0 if dtype.is_float else 0


def _one(dtype: DType) -> Value:
    return 1.0 if dtype.is_float else 1


def _over_axes(reduce: Callable[..., Any]) -> Callable[[np.ndarray, tuple[int, ...]], np.ndarray]:
    return lambda x, axes: np.asarray(reduce(x, axis=axes))


def flattened(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Move `axes` to the end and merge them into one axis."""
    kept = [d for d in range(x.ndim) if d not in axes]
    along = [x.shape[d] for d in kept]
    return np.asarray(x.transpose(*kept, *axes).reshape(*along, prod(x.shape[d] for d in axes)))


def _index_over_axes(find: Callable[..., Any]) -> Callable[[np.ndarray, tuple[int, ...]], np.ndarray]:
    return lambda x, axes: np.asarray(find(flattened(x, axes), axis=-1))


#: the accumulation type of sums and products, for the documentation
_IN = (
    "; bool_ and integers under 32 bits accumulate in int32, the type of the result, float16 and bfloat16 in float32 "
    "with a single rounding, all others in the element type, where integers wrap"
)

REDUCTIONS: dict[str, Reduction] = {
    each.name: each
    for each in (
        Reduction(
            name="sum", meaning=f"the sum{_IN}", combines="add", identity=_zero, grows=True,
            formula=lambda x, axes: np.asarray(np.sum(x, axis=axes, dtype=x.dtype)),
        ),
        Reduction(
            name="max", meaning="the maximum; nan if any is nan", combines="maximum", identity=_least,
            formula=_over_axes(np.max),
        ),
        Reduction(
            name="min", meaning="the minimum; nan if any is nan", combines="minimum", identity=_greatest,
            formula=_over_axes(np.min),
        ),
        Reduction(
            name="prod", meaning=f"the product{_IN}", combines="mul", identity=_one, grows=True,
            formula=lambda x, axes: np.asarray(np.prod(x, axis=axes, dtype=x.dtype)),
        ),
        Reduction(
            name="any", meaning="whether any element is nonzero", combines="bitwise_or", identity=_zero, tests=True,
            formula=_over_axes(np.any),
        ),
        Reduction(
            name="all", meaning="whether all elements are nonzero", combines="bitwise_and", identity=_one, tests=True,
            formula=_over_axes(np.all),
        ),
        Reduction(
            name="argmax", meaning="the index of the first nan, else of the first maximum, as int32",
            combines="maximum", identity=_least, picks=True, formula=_index_over_axes(np.argmax),
        ),
        Reduction(
            name="argmin", meaning="the index of the first nan, else of the first minimum, as int32",
            combines="minimum", identity=_greatest, picks=True, formula=_index_over_axes(np.argmin),
        ),
    )
}


def axes_of(attrs: Attributes, rank: int) -> tuple[int, ...]:
    """Return the axes over which a tile of `rank` dimensions is reduced."""
    axis = attrs.get(AXIS.name)
    return axis if isinstance(axis, tuple) else tuple(range(rank))


def axes_fault(shapes: Shapes, attrs: Attributes) -> Fault | None:
    """Return the fault of the axes, or of shapes that differ even without these axes and extents of 1; else None."""
    dst, src = shapes["dst"] or (), shapes["src"] or ()
    axes = axes_of(attrs, len(src))
    if list(axes) != sorted(set(axes)) or any(not 0 <= d < len(src) for d in axes):
        return Fault(
            f"axes {axes} are invalid for a tile with {counted(len(src), 'dimension')}",
            f"name each axis once, in ascending order, from 0 to {len(src) - 1}",
        )
    kept = tuple(n for d, n in enumerate(src) if d not in axes)
    if without_units(kept) == without_units(dst):
        return None
    return Fault(
        f"shapes differ: {src} without axes {axes} is {kept}; the destination has {dst}",
        "give the destination that shape; dimensions of extent 1 don't count",
    )


def _type_fault(reduction: Reduction, dtypes: DTypes, attrs: Attributes) -> Fault | None:
    fault = reduction.type_fault(dtypes["src"], dtypes["dst"])
    return None if fault is None else Fault(fault, "change the destination's type, or convert the source first")


def reduced(reduction: Reduction, dst: np.ndarray, src: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return `src` reduced over `axes`, with the shape and type of `dst`."""
    source, to = from_numpy(src.dtype), from_numpy(dst.dtype)
    assert source is not None and to is not None
    # elements must be tested before any conversion to integers: 0.5 would become 0
    x = src if reduction.tests else convert(src, reduction.combines_in(source, to))
    with np.errstate(all="ignore"):
        return convert(reduction.formula(x, axes), to).reshape(dst.shape)


def _reference(reduction: Reduction, dst: np.ndarray, src: np.ndarray, axis: AttributeValue = None) -> np.ndarray:
    return reduced(reduction, dst, src, axes_of({AXIS.name: axis}, src.ndim))


def _operation(reduction: Reduction) -> TileOperation:
    dtype = reduction.result_type(float32)
    return TileOperation(
        name=reduction.name, operands=(DST, TileOperand("src", "the source")), attrs=(AXIS, VARIANT_NAME),
        meaning=f"dst = over axes of src: {reduction.meaning}",
        example=(
            f"x = tj.alloc_local((32,), tj.{dtype})\n"
            f"tj.thread.{reduction.name}(x, tj.thread.load(A[0:32, 0:8]), axis=1)"
        ),
        reference=partial(_reference, reduction), relation=axes.REDUCTION, shape_fault=axes_fault,
        type_fault=partial(_type_fault, reduction), reduction=reduction,
    )


REDUCTION_OPERATIONS: tuple[TileOperation, ...] = tuple(map(_operation, REDUCTIONS.values()))
