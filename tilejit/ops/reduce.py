"""Reductions over axes of a tile: sums, products, extrema, tests, and the indices of extrema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..dtypes import DType, float32, from_numpy
from ..wording import counted
from . import axes
from .cast import convert
from .copies import DST, VARIANT_NAME
from .record import Attribute, AttributeValue, Fault, Shape, TileOperand, TileOperation
from .reduction import Reduction, Value

Array = np.ndarray
Attrs = Mapping[str, AttributeValue]

AXIS = Attribute("axis", tuple, "the axes to reduce, all by default", counts="src")


def _least(dtype: DType) -> Value:
    return -float("inf") if dtype.is_float else int(np.iinfo(dtype.numpy).min)


def _greatest(dtype: DType) -> Value:
    return float("inf") if dtype.is_float else int(np.iinfo(dtype.numpy).max)


def _zero(dtype: DType) -> Value:
    """Return 0, or -0.0 for floats, since adding 0.0 would change a sum of negative zeros."""
    return -0.0 if dtype.is_float else 0


def _one(dtype: DType) -> Value:
    return 1.0 if dtype.is_float else 1


def _over_axes(reduce: Callable[..., Any]) -> Callable[[Array, tuple[int, ...]], Array]:
    return lambda x, axes: np.asarray(reduce(x, axis=axes))


def flattened(x: Array, axes: tuple[int, ...]) -> Array:
    """Move `axes` to the end and merge them into one axis."""
    kept = [d for d in range(x.ndim) if d not in axes]
    along = [x.shape[d] for d in kept]
    return np.asarray(x.transpose(*kept, *axes).reshape(*along, prod(x.shape[d] for d in axes)))


def _argmax(x: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(np.argmax(flattened(x, axes), axis=-1))


def _argmin(x: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(np.argmin(flattened(x, axes), axis=-1))


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
            name="argmax", meaning="the index of the first nan, else of the first maximum, as int32", formula=_argmax,
            combines="maximum", identity=_least, picks=True,
        ),
        Reduction(
            name="argmin", meaning="the index of the first nan, else of the first minimum, as int32", formula=_argmin,
            combines="minimum", identity=_greatest, picks=True,
        ),
    )
}


def axes_of(attrs: Attrs, rank: int) -> tuple[int, ...]:
    """Return the axes over which a tile of `rank` dimensions is reduced."""
    axis = attrs.get(AXIS.name)
    return axis if isinstance(axis, tuple) else tuple(range(rank))


def _without_units(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def axes_fault(shapes: Mapping[str, Shape], attrs: Attrs) -> Fault | None:
    """Return why the axes are invalid, or the shape of "dst" isn't that of "src" without them; None if both fit."""
    dst, src = shapes["dst"] or (), shapes["src"] or ()
    axes = axes_of(attrs, len(src))
    if list(axes) != sorted(set(axes)) or any(not 0 <= d < len(src) for d in axes):
        return Fault(
            f"axes {axes} are invalid for a tile with {counted(len(src), 'dimension')}",
            f"name each axis once, in ascending order, from 0 to {len(src) - 1}",
        )
    kept = tuple(n for d, n in enumerate(src) if d not in axes)
    if _without_units(kept) == _without_units(dst):
        return None
    return Fault(
        f"shapes differ: {src} without axes {axes} is {kept}; the destination has {dst}",
        "give the destination that shape; dimensions of 1 don't count",
    )


def _type_fault(reduction: Reduction, dtypes: Mapping[str, DType], attrs: Attrs) -> Fault | None:
    fault = reduction.type_fault(dtypes["src"], dtypes["dst"])
    return None if fault is None else Fault(fault, "change the destination's type, or convert the source first")


def reduced(reduction: Reduction, dst: Array, src: Array, axes: tuple[int, ...]) -> Array:
    """Return the new contents of the destination."""
    source, to = from_numpy(src.dtype), from_numpy(dst.dtype)
    assert source is not None and to is not None
    # elements must be tested before any conversion to integers: 0.5 would become 0
    x = src if reduction.tests else convert(src, reduction.combines_in(source, to))
    with np.errstate(all="ignore"):
        return convert(reduction.formula(x, axes), to).reshape(dst.shape)


def _reference(reduction: Reduction, dst: Array, src: Array, axis: tuple[int, ...] | None = None) -> Array:
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
