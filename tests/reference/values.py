"""What programs on tiles as values mean: Python runs their text, with `Language` for `tj`, on NumPy arrays.

Each value comes with the largest error of a right result: 0 where arithmetic rounds as NumPy's, infinity where
anything is right (a float out of range cast to an integer, or a choice that hangs on a bound).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

import tilejit
from tests.support.tolerances import tolerance
from tilejit import dtypes
from tilejit.dtypes import DType, from_numpy
from tilejit.isa.mma import MMA
from tilejit.ops.cast import convert
from tilejit.ops.elementwise import ELEMENTWISE, reference, result_type
from tilejit.ops.fold import CUMULATIVE, exclusive_start
from tilejit.ops.gemm import accumulator_type
from tilejit.ops.reduce import REDUCTIONS, reduced

Array = np.ndarray

#: a distance that tells 0.0 from -0.0 no longer
LEAST = 5e-324

#: functions that don't run between their values at the ends of an interval
NOT_MONOTONE = ("sin", "cos", "mod", "gelu", "silu", "atan2", "pow", "hypot")

_KINDS = {"bool": 0, "int": 1, "uint": 1, "float": 2}


class Refused(Exception):
    """The language has no meaning for this."""


def _dtype(array: Array) -> DType:
    dtype = from_numpy(array.dtype)
    assert dtype is not None
    return dtype


def _wide(values: Array) -> Array:
    return values.astype(np.float64)


def spacing(values: Array, dtype: DType) -> Array:
    """How far the next value of a float type is from values of about this size."""
    info = ml_dtypes.finfo(dtype.numpy)
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))[1] - 1
    lowest = int(math.frexp(float(info.tiny))[1] - 1)
    return np.ldexp(1.0, np.maximum(exponent, lowest) - int(info.nmant))


def _index(key: Any) -> Any:
    """A part of an index, in which rank-0 tiles are numbers."""
    if isinstance(key, slice):
        return slice(_index(key.start), _index(key.stop), key.step)
    return int(key.value) if isinstance(key, Tile) else key


class Tile:
    """A local tile: its values, and how far right results may be from them.

    factors: of a product, what was multiplied, and in which precision.
    """

    __array_ufunc__ = None
    factors: tuple[Tile, Tile, str | None] | None = None

    def __init__(self, value: Any, error: Any = 0.0) -> None:
        self.value = np.asarray(value)
        self.error = np.broadcast_to(np.asarray(error, np.float64), self.value.shape)

    @property
    def dtype(self) -> DType:
        return _dtype(self.value)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def T(self) -> Tile:
        return Tile(self.value.T, self.error.T)

    def permute(self, *axes: int) -> Tile:
        return Tile(self.value.transpose(axes), self.error.transpose(axes))

    def reshape(self, shape: tuple[int, ...]) -> Tile:
        return Tile(self.value.reshape(shape), self.error.reshape(shape))

    def view(self, dtype: DType) -> Tile:
        """The bits, of which those of NaN and of zeros, as they are computed, aren't sure."""
        if dtype.bits != self.dtype.bits:
            raise Refused(f"{self.dtype} as {dtype}")
        unsure = self.error > 0
        if self.dtype.is_float:
            unsure = unsure | np.isnan(_wide(self.value)) | (self.value == 0)
        seen = np.ascontiguousarray(self.value).view(dtype.numpy).reshape(self.shape)
        return Tile(seen, np.where(unsure, np.inf, 0))

    def __getitem__(self, key: Any) -> Tile:
        keys = tuple(map(_index, key)) if isinstance(key, tuple) else _index(key)
        return Tile(self.value[keys], self.error[keys])

    def astype(self, dtype: DType, saturate: bool = True) -> Tile:
        value = convert(self.value, dtype, saturate)
        if self.dtype.is_float and dtype.is_integer:
            info = np.iinfo(dtype.numpy)
            whole = np.trunc(_wide(self.value))
            inside = (whole >= float(info.min)) & (whole < float(info.max) + 1 - (info.max < 2**53) * 0.5)
            ends = [np.trunc(_wide(end)) == whole for end in self._ends()]
            return Tile(value, np.where(inside & np.all(ends, axis=0), 0, np.inf))
        error = self.error
        if dtype.is_float and error.any():
            ends = [_wide(convert(end, dtype, saturate)) for end in self._ends()]
            error = _distance(_wide(value), ends, self.error, np.zeros(self.shape))
        return Tile(value, np.where(self.error > 0, _certain(dtype, error), 0))

    def _ends(self) -> list[Array]:
        if not self.error.any():
            return [self.value]
        with np.errstate(all="ignore"):
            return [_wide(self.value) + sign * self.error for sign in (-1, 1)]

    def __bool__(self) -> bool:
        if self.error.any():
            raise Refused("a branch on an unsure value")
        return bool(self.value.reshape(()))

    def __neg__(self) -> Tile:
        return elementwise("neg", self)

    def __invert__(self) -> Tile:
        return elementwise("bitwise_not", self)

    def __matmul__(self, other: Tile) -> Tile:
        return multiplied(self, other)

    def __iadd__(self, other: Any) -> Tile:
        """As `+`; a product is summed in the accumulators, which round on the way."""
        if isinstance(other, Tile) and other.factors and (other.shape, other.dtype) == (self.shape, self.dtype):
            return _product(self, *other.factors)
        return elementwise("add", self, other)


def _certain(dtype: DType, error: Array) -> Array:
    return error if dtype.is_float else np.where(error > 0, np.inf, 0.0)


_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floordiv", "mod": "mod",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
}
_COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}


def _install(method: str, name: str, *, flipped: bool = False) -> None:
    def call(self: Tile, other: Any) -> Tile:
        return elementwise(name, other, self) if flipped else elementwise(name, self, other)

    setattr(Tile, method, call)


for _method, _name in (_OPERATORS | _COMPARISONS).items():
    _install(f"__{_method}__", _name)
for _method, _name in _OPERATORS.items():
    _install(f"__r{_method}__", _name, flipped=True)


def elementwise(name: str, *operands: Any) -> Tile:
    """An elementwise operation on tiles and scalars."""
    record = ELEMENTWISE[name]
    tiles = [v for v in operands[record.conditions :] if isinstance(v, Tile)]
    if tiles and any(t.dtype.is_fp8 for t in tiles):
        raise Refused(name)
    types = [t.dtype for t in tiles]
    if all(not isinstance(v, Tile) or v.shape == () for v in operands):
        # a tile of shape () counts as its scalar
        types += [_dtype(np.asarray(v)) for v in operands[record.conditions :] if isinstance(v, np.generic)]
    try:
        common = record.common_type(types)
    except Exception as error:
        raise Refused(name) from error
    made = [v if isinstance(v, Tile) else Tile(_scalar(v, common)) for v in operands]
    rule = result_type(name, tuple(t.dtype for t in made))
    if isinstance(rule, str):
        raise Refused(rule)
    try:
        shape = np.broadcast_shapes(*(t.shape for t in made))
    except ValueError as error:
        raise Refused(name) from error
    with np.errstate(all="ignore"):
        value = np.broadcast_to(reference(name, *(t.value for t in made)), shape)
        return Tile(value, np.broadcast_to(_error(name, rule, value, made), shape))


def _scalar(value: Any, common: DType) -> Array:
    """A scalar in the type in which it is combined with tiles of `common`."""
    if isinstance(value, np.generic):
        kind = _dtype(np.asarray(value))
        return convert(np.asarray(value), common) if _KINDS[kind.kind] <= _KINDS[common.kind] else np.asarray(value)
    weak = dtypes.float32 if isinstance(value, float) else dtypes.int32
    if _KINDS[weak.kind] > _KINDS[common.kind]:
        return np.asarray(value, weak.numpy)
    if common.is_integer and not np.iinfo(common.numpy).min <= value <= np.iinfo(common.numpy).max:
        raise Refused("a literal that doesn't fit")
    return np.asarray(value).astype(common.numpy)


def _error(name: str, rule: tuple[DType, DType], value: Array, operands: list[Tile]) -> Array:
    """How far a right result may be from `value`."""
    compute, result = rule
    units = float(tolerance(name, result)) if compute.is_float else 0.0
    if result.is_float and compute == dtypes.float64:
        units *= 2
    fresh = units * spacing(_wide(value), result) if units else np.zeros(value.shape)
    if units:
        largest = float(ml_dtypes.finfo(result.numpy).max)
        fresh = np.where(np.isfinite(_wide(value)) & (np.abs(_wide(value)) + fresh > largest), np.inf, fresh)
    if name in ("maximum", "minimum", "clamp") and compute.is_float:
        fresh = np.where(_wide(value) == 0, LEAST, fresh)
    errors = [t.error for t in operands]
    if not any(e.any() for e in errors):
        return fresh
    if name == "where":
        condition, chosen, other = operands
        picked = np.where(condition.value, chosen.error, other.error)
        return np.where(condition.error > 0, np.inf, picked)
    loose = np.broadcast_to(np.sum(np.broadcast_arrays(*errors), axis=0), value.shape)
    if name in NOT_MONOTONE or not compute.is_float:
        return np.where(loose > 0, np.inf, fresh)
    if name in ("div", "floordiv", "reciprocal"):
        below = operands[-1]
        loose = np.where(np.abs(_wide(below.value)) <= below.error, np.where(loose > 0, np.inf, 0), loose)
    corners = itertools.product(*(t._ends() for t in operands))
    formula = ELEMENTWISE[name].formula
    if not result.is_float:
        ends = [np.asarray(formula(*corner)) == value for corner in corners]
        return np.where((loose > 0) & ~np.all(np.broadcast_arrays(*ends, loose)[:-1], axis=0), np.inf, fresh)
    ends = [_wide(np.asarray(formula(*(_wide(c) for c in corner)))) for corner in corners]
    rounding = (units + 2) * spacing(np.maximum.reduce(np.abs(np.broadcast_arrays(*ends, _wide(value)))), compute)
    rounding = rounding + 2 * spacing(_wide(value), result)
    return np.where(loose > 0, _distance(_wide(value), ends, loose, rounding, result), fresh)


def _distance(value: Array, ends: list[Array], loose: Array, rounding: Array, dtype: DType | None = None) -> Array:
    with np.errstate(all="ignore"):
        apart = np.max([np.where(end == value, 0, np.abs(end - value)) for end in np.broadcast_arrays(*ends, value)], 0)
        error = apart + rounding
        most = np.inf if dtype is None else float(ml_dtypes.finfo(dtype.numpy).max)
        unsure = ~np.isfinite(error) | (np.abs(value) + error > most)
    return np.where(np.isinf(loose) | unsure, np.inf, error)


def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    return tuple(sorted(a % rank for a in (axis if isinstance(axis, tuple) else (axis,))))


def reduction(name: str) -> Callable[..., Tile]:
    """`tj.<name>(x, axis, dtype, keepdims, initial)` of tiles."""
    record = REDUCTIONS[name]

    def call(
        x: Tile, axis: Any = None, dtype: DType | None = None, keepdims: bool = False, initial: Any = None
    ) -> Tile:
        to = dtype or record.result_type(x.dtype)
        if initial is not None:
            compute = record.combines_in(x.dtype, to) if record.grows else to
            first = _scalar(initial, compute)
            if _KINDS[_dtype(first).kind] > _KINDS[compute.kind]:
                raise Refused("initial")
            return elementwise(record.combines, Tile(first), call(x, axis, compute, keepdims)).astype(to)
        if record.type_fault(x.dtype, to):
            raise Refused(name)
        axes = _axes(axis, len(x.shape))
        kept = tuple(n for d, n in enumerate(x.shape) if d not in axes)
        value = reduced(record, np.zeros(kept, to.numpy), x.value, axes)
        error = _reduced_error(name, x, record.combines_in(x.dtype, to), to, axes, value)
        result = Tile(value, error)
        units = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
        if name == "sum":
            result = _signed_zeros(result, x, axes)
        return result.reshape(units) if keepdims else result

    return call


def statistic(name: str) -> Callable[..., Tile]:
    """`tj.mean`, `tj.var` or `tj.std` of tiles."""

    def call(x: Tile, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Tile:
        if x.dtype.is_fp8:
            raise Refused(name)
        to = x.dtype if x.dtype.is_float else dtypes.float32
        wide = x.astype(dtypes.float32 if to.is_half else to)
        count = math.prod(x.shape[d] for d in _axes(axis, len(x.shape)))
        total = reduction("sum")
        if name != "mean":
            difference = wide - total(wide, axis, keepdims=True) / float(count)  # type: ignore[operator]
            wide, count = difference * difference, max(count - ddof, 0)
        result = total(wide, axis, keepdims=keepdims) / float(count)  # type: ignore[operator]
        return (elementwise("sqrt", result) if name == "std" else result).astype(to)

    return call


def cumulative(name: str) -> Callable[..., Tile]:
    """`tj.<name>(x, axis, dtype, reverse, exclusive)` of tiles: a reduction of each prefix."""
    record, whole = CUMULATIVE[name], reduction(name.removeprefix("cum"))

    def call(x: Tile, axis: int, dtype: DType | None = None, reverse: bool = False, exclusive: bool = False) -> Tile:
        if not -len(x.shape) <= axis < len(x.shape):
            raise Refused(name)
        to, step = dtype or record.result_type(x.dtype), -1 if reverse else 1
        value, error = (np.moveaxis(each, axis, -1)[..., ::step] for each in (x.value, x.error))
        made = [whole(Tile(value[..., : k + 1], error[..., : k + 1]), -1, to) for k in range(value.shape[-1])]
        if exclusive:
            start = convert(np.asarray(exclusive_start(record, to, record.combines_in(x.dtype, to))), to)
            # a sum that starts from 0.0 isn't -0.0
            made = [Tile(each.value + start if name == "cumsum" else each.value, each.error) for each in made]
            made = [Tile(np.broadcast_to(start, made[0].shape)), *made[:-1]]
        both = [[t.value for t in made], [t.error for t in made]]
        values, errors = (np.stack(each, -1)[..., ::step] for each in both)
        return Tile(np.moveaxis(values, -1, axis), np.moveaxis(errors, -1, axis))

    return call


def _signed_zeros(result: Tile, x: Tile, axes: tuple[int, ...]) -> Tile:
    """Sums of which every order gives 0.0, or -0.0 of negative zeros alone."""
    if not (result.dtype.is_float and x.dtype.is_float):
        return result
    negative = np.all((x.value == 0) & np.signbit(x.value), axis=axes)
    zero = np.where(negative, -0.0, 0.0).astype(result.value.dtype)
    return Tile(np.where(result.value == 0, zero, result.value), result.error)


def _reduced_error(name: str, x: Tile, compute: DType, to: DType, axes: tuple[int, ...], value: Array) -> Array:
    summed = x.error.sum(axis=axes)
    if name in ("any", "all", "argmax", "argmin") or not compute.is_float:
        return np.where(summed > 0, np.inf, 0.0)
    wide = _wide(x.value)
    if name in ("max", "min"):
        error = np.where(summed > 0, x.error.max(axis=axes), 0)
        return np.where(_wide(value) == 0, np.maximum(error, LEAST), error)
    count = math.prod(x.shape[d] for d in axes)
    if name == "prod":
        with np.errstate(all="ignore"):
            logs = np.abs(np.log2(np.abs(wide)))
        tame = (np.where(np.isfinite(logs), logs, 1e9).sum(axis=axes) < (900 if compute.bits == 64 else 100))
        error = 2 * count * spacing(_wide(value), compute) + spacing(_wide(value), to)
        certain = tame & (summed == 0) & (np.abs(_wide(value)) < float(ml_dtypes.finfo(to.numpy).max) / 2)
        return np.where(certain, error, np.inf)
    return _sum_error(wide, summed, axes, count, compute, to, value)


def _sum_error(
    terms: Array, loose: Array, axes: tuple[int, ...], count: int, compute: DType, to: DType, value: Array
) -> Array:
    """How far a sum of these terms in any order may be from `value`."""
    with np.errstate(all="ignore"):
        total = np.abs(terms).sum(axis=axes)
        grain = _grain(terms).min(axis=axes, initial=np.inf)
        exact = total < grain * 2.0 ** (ml_dtypes.finfo(compute.numpy).nmant + 1)
        finite = np.isfinite(terms).all(axis=axes)
        largest = min(float(ml_dtypes.finfo(t.numpy).max) for t in (compute, to))
        error = 2 * count * spacing(total + loose, compute) + 2 * spacing(_wide(value), to) + loose
        error = np.where(total + loose < largest / 2, error, np.inf)
        special = np.where((total >= largest / 2) & finite | (loose > 0) | ~finite & _overflows(terms, axes, largest),
                           np.inf, 0)
    fits = (total < grain * 2.0 ** (ml_dtypes.finfo(to.numpy).nmant + 1)) | (exact & (total < largest / 2))
    return np.where(finite, np.where(exact & fits & (loose == 0), 0, error), special)


def _overflows(terms: Array, axes: tuple[int, ...], largest: float) -> Array:
    """Whether the finite terms alone may give an infinity on the way."""
    return np.abs(np.where(np.isfinite(terms), terms, 0)).sum(axis=axes) >= largest / 2


def _grain(values: Array) -> Array:
    """The largest power of two of which a number is a multiple; infinity of zeros."""
    fraction, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    bits = np.ldexp(fraction, 53).astype(np.int64)
    lowest = np.where(bits == 0, 1, bits & -bits)
    return np.where(bits == 0, np.inf, np.ldexp(lowest.astype(np.float64), exponent - 53))


def _batched(acc: Tile | None, a: Tile, b: Tile, precision: str | None) -> Tile:
    """The products of the matrices of two batches, which broadcast."""
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError as error:
        raise Refused("@") from error
    every = [Tile(*(np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (t.value, t.error))) for t in (a, b)]
    made = [_product(None if acc is None else acc[i], *(t[i] for t in every), precision) for i in np.ndindex(batch)]
    if not made:
        raise Refused("@ of nothing")
    values, errors = (np.stack(each).reshape(*batch, *made[0].shape)
                      for each in ([t.value for t in made], [t.error for t in made]))
    return Tile(values, errors)


def multiplied(a: Tile, b: Tile, precision: str | None = None) -> Tile:
    """A product that starts at 0."""
    product = _product(None, a, b, precision)
    product.factors = a, b, precision
    return product


#: precision of products of float32 -> how far one of two rounded factors may be from the exact one, as a part of it
_ROUNDED = {"tf32": 2.0**-10 + 2.0**-21, "tf32x3": 2.0**-20, "ieee": 0.0}


def _rounding(a: Tile, b: Tile, precision: str | None) -> float:
    """The part of a product of float32 that the rounding of its factors may change; 0 for other types."""
    if (a.dtype, b.dtype) != (dtypes.float32, dtypes.float32):
        if dtypes.float32 in (a.dtype, b.dtype) or precision is not None:
            raise Refused("@ of float32 and another type, or of a precision without float32")
        return 0.0
    if precision is None:
        raise Refused("@ of float32 is of no precision")
    sides = np.concatenate([a.value.ravel(), b.value.ravel()])
    if not (np.ascontiguousarray(sides).view(np.uint32) & 0x1FFF).any() or precision == "ieee":
        return 0.0
    if not ((sides == 0) | (np.abs(sides) > 2.0**-60) & (np.abs(sides) < 2.0**60)).all():
        raise Refused("tf32 of special values")
    return _ROUNDED[precision]


def _product(acc: Tile | None, a: Tile, b: Tile, precision: str | None = None) -> Tile:
    if min(len(a.shape), len(b.shape)) >= 2 and max(len(a.shape), len(b.shape)) > 2:
        return _batched(acc, a, b, precision)
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0] or a.dtype.is_fp8:
        raise Refused("@")
    if a.dtype != dtypes.float32 and not any((form.a, form.b) == (a.dtype, b.dtype) for form in MMA.forms()):
        raise Refused("@")
    rounding = _rounding(a, b, precision)
    dtype = accumulator_type(a.dtype)
    start = Tile(np.zeros((a.shape[0], b.shape[1]), dtype.numpy)) if acc is None else acc
    if not dtype.is_float:
        whole = start.value.astype(np.int64) + a.value.astype(np.int64) @ b.value.astype(np.int64)
        loose = (a.error.sum(1)[:, None] + b.error.sum(0) + start.error) > 0
        return Tile(whole.astype(dtype.numpy), np.where(loose, np.inf, 0))
    with np.errstate(all="ignore"):
        left, right = _wide(a.value)[:, :, None], _wide(b.value)[None]
        terms = np.concatenate([left * right, _wide(start.value)[:, None, :]], axis=1)
        value = terms.sum(axis=1).astype(dtype.numpy)
        of_a, of_b = a.error[:, :, None], b.error[None]
        spread = np.abs(left) * of_b + np.abs(right) * of_a + of_a * of_b
        spread = spread + rounding * np.abs(left * right)
        loose = np.where(np.isnan(spread), 0, spread).sum(axis=1) + start.error
    error = _sum_error(terms, loose, (1,), 8 * terms.shape[1], dtype, dtype, value)
    return Tile(np.where(value == 0, np.float32(0), value), np.where(value == 0, np.maximum(error, LEAST), error))


class Place:
    """A region of memory."""

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    def __init__(self, tensor: Tensor, starts: list[int], extents: list[int | None]) -> None:
        self.tensor, self.starts, self.extents = tensor, starts, extents
        self.shape = tuple(e for e in extents if e is not None)

    def indices(self) -> tuple[tuple[Array, ...], Array]:
        """Indices of the elements, and which of them are inside."""
        ranges = [int(s) + np.arange(1 if e is None else e) for s, e in zip(self.starts, self.extents, strict=True)]
        grid = np.meshgrid(*ranges, indexing="ij")
        array = self.tensor.array
        inside = np.logical_and.reduce([(g >= 0) & (g < n) for g, n in zip(grid, array.shape, strict=True)])
        clipped = tuple(np.clip(g, 0, n - 1).reshape(self.shape) for g, n in zip(grid, array.shape, strict=True))
        return clipped, inside.reshape(self.shape)


class Tensor:
    """Memory: an array, and how far right contents may be from it."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.error = np.zeros(array.shape)

    @property
    def dtype(self) -> DType:
        return _dtype(self.array)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def __getitem__(self, key: Any) -> Place:
        starts: list[int] = []
        extents: list[int | None] = []
        for item in key if isinstance(key, tuple) else (key,):
            starts.append(int(item.start if isinstance(item, slice) else item))
            extents.append(int(item.stop) - int(item.start) if isinstance(item, slice) else None)
        return Place(self, starts, extents)

    def at(self, index: Tile) -> Rows:
        """The rows that `index` names."""
        return Rows(self, index)


class Rows(Place):
    """A gathered region: the rows of a tensor that a tile of integers names."""

    def __init__(self, tensor: Tensor, index: Tile) -> None:
        if index.error.any() or not index.dtype.is_integer:
            raise Refused("at")
        self.tensor, self.index = tensor, index.value
        self.shape = (*self.index.shape, *tensor.shape[1:])

    def __getitem__(self, key: Any) -> Rows:
        """All of the rows: the slices name whole dimensions."""
        return self

    def indices(self) -> tuple[tuple[Array, ...], Array]:
        rows = self.index.reshape(self.index.shape + (1,) * (len(self.tensor.shape) - 1)).astype(object)
        inside = np.asarray((rows >= 0) & (rows < self.tensor.shape[0]), np.bool_)
        clipped = np.where(inside, rows, 0).astype(np.int64)
        others = np.indices(self.shape)[self.index.ndim :]
        return (np.broadcast_to(clipped, self.shape), *others), np.broadcast_to(inside, self.shape)


def _place(memory: Tensor | Place) -> Place:
    return memory if isinstance(memory, Place) else Place(memory, [0] * len(memory.shape), list(memory.shape))


class Scope:
    """`tj.cta` and the others: who carries an operation out makes no difference to what it means."""

    def load(
        self, memory: Tensor | Place, layout: Any = None, mask: Any = None, fill: Any = 0, cache: Any = None
    ) -> Tile:
        place = _place(memory)
        indices, inside = place.indices()
        condition = Tile(True) if mask is None else mask if isinstance(mask, Tile) else Tile(bool(mask))
        chosen = np.broadcast_to(condition.value, place.shape) & inside
        outside = convert(np.asarray(fill, np.float64 if isinstance(fill, float) else None), place.tensor.dtype)
        at = tuple(i[chosen] for i in indices)
        value, error = np.full(place.shape, outside), np.zeros(place.shape)
        value[chosen], error[chosen] = place.tensor.array[at], place.tensor.error[at]
        return Tile(value, np.where(np.broadcast_to(condition.error, place.shape) > 0, np.inf, error))

    def store(self, memory: Tensor | Place, tile: Tile, mask: Any = None, cache: Any = None) -> None:
        place = _place(memory)
        indices, inside = place.indices()
        condition = Tile(True) if mask is None else mask if isinstance(mask, Tile) else Tile(bool(mask))
        chosen = np.broadcast_to(condition.value, place.shape) & inside
        at = tuple(i[chosen] for i in indices)
        place.tensor.array[at] = convert(np.broadcast_to(tile.value, place.shape)[chosen], place.tensor.dtype)
        place.tensor.error[at] = np.broadcast_to(tile.error, place.shape)[chosen]
        unsure = (np.broadcast_to(condition.error, place.shape) > 0) & inside
        place.tensor.error[tuple(i[unsure] for i in indices)] = np.inf

    def zeros(self, shape: tuple[int, ...], dtype: DType, layout: Any = None) -> Tile:
        return Tile(np.zeros(shape, dtype.numpy))

    def full(self, shape: tuple[int, ...], value: Any, dtype: DType, layout: Any = None) -> Tile:
        if isinstance(value, Tile):
            made = value.astype(dtype)
            return Tile(np.broadcast_to(made.value, shape), made.error)
        return Tile(np.full(shape, np.asarray(value))).astype(dtype)

    def indices(self, shape: tuple[int, ...], axis: int, layout: Any = None) -> Tile:
        return Tile(np.indices(shape, np.int32)[axis])


class Atomic:
    """`tj.atomic` on integers, carried out by one instance of a scope."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        ufunc = ATOMICS[name]

        def update(memory: Tensor | Place, tile: Tile, mask: Any = None) -> None:
            place = _place(memory)
            indices, inside = place.indices()
            condition = Tile(True) if mask is None else mask
            chosen = np.broadcast_to(condition.value, place.shape)
            if not inside[chosen].all() or condition.error.any() or not place.tensor.dtype.is_integer:
                raise Refused(name)
            at = tuple(i[chosen] for i in indices)
            ufunc.at(place.tensor.array, at, convert(np.broadcast_to(tile.value, place.shape)[chosen], place.dtype))
            unsure = np.broadcast_to(tile.error, place.shape)[chosen] > 0
            np.maximum.at(place.tensor.error, at, np.where(unsure, np.inf, 0))

        return update


ATOMICS: dict[str, np.ufunc] = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and_": np.bitwise_and, "or_": np.bitwise_or,
    "xor": np.bitwise_xor,
}


class _EveryInstance:
    """The index of an instance: each `if index == k:` is taken once, by one instance."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Language:
    """`tj` for Python."""

    atomic = Atomic()
    thread = warp = warpgroup = cta = Scope()
    inf, nan = math.inf, math.nan

    def __getattr__(self, name: str) -> Any:
        if name in REDUCTIONS:
            return reduction(name)
        if name in ("mean", "var", "std"):
            return statistic(name)
        if name in CUMULATIVE:
            return cumulative(name)
        if name in ELEMENTWISE:
            return lambda *operands: elementwise(name, *operands)
        if name in dtypes.DTYPES:
            return dtypes.DTYPES[name]
        raise AttributeError(name)

    def alloc_shared(self, shape: tuple[int, ...], dtype: DType) -> Tensor:
        return Tensor(np.zeros(shape, dtype.numpy))

    def cta_sync(self) -> None:
        """Nothing to wait for."""

    warp_sync = warpgroup_sync = cta_sync

    def warp_id(self) -> _EveryInstance:
        return _EveryInstance()

    warpgroup_id = warp_id

    def cdiv(self, a: Any, b: Any) -> Any:
        return -(-int(a) // int(b)) if isinstance(a, int) else type(a)(-(-int(a) // int(b)))

    def tile_order(self, number: Any, extents: tuple[int, int], group: int) -> tuple[Any, ...]:
        return tuple(type(number)(at) for at in tilejit.tile_order(int(number), extents, group))

    def reduce(self, x: Any, axis: int, combine: Callable[..., Any], keepdims: bool = False) -> Any:
        """A fold along one axis, first to last; a tuple of tiles is folded as one."""
        tiles = x if isinstance(x, tuple) else (x,)
        if any(tile.error.any() or not tile.dtype.is_integer for tile in tiles) or not tiles[0].shape[axis]:
            raise Refused("reduce")
        moved = [np.moveaxis(tile.value, axis, 0) for tile in tiles]
        rows = [tuple(Tile(row) for row in values) for values in zip(*moved, strict=True)]
        total: Any = rows[0] if isinstance(x, tuple) else rows[0][0]
        for row in rows[1:]:
            total = combine(total, row if isinstance(x, tuple) else row[0])
        whole = total if isinstance(x, tuple) else (total,)
        made = tuple(Tile(np.expand_dims(t.value, axis)) if keepdims else t for t in whole)
        return made if isinstance(x, tuple) else made[0]

    def rand(self, seed: Any, offset: Tile) -> Tile:
        bits = elementwise("right_shift", elementwise("random_bits", seed, offset), 8)
        return elementwise("mul", bits.astype(dtypes.float32), 2.0**-24)

    def randint(self, seed: Any, offset: Tile, low: int, high: int) -> Tile:
        bits = elementwise("random_bits", seed, offset)
        value = low + (bits.value.astype(np.int64) * (high - low) >> 32)
        return Tile(value.astype(np.int32), bits.error)

    def broadcast_to(self, x: Tile, shape: tuple[int, ...]) -> Tile:
        try:
            return Tile(np.broadcast_to(x.value, shape), np.broadcast_to(x.error, shape))
        except ValueError as error:
            raise Refused("broadcast_to") from error

    def ptx(self, text: str, out: DType, inputs: tuple[Any, ...], pure: bool | None) -> Any:
        """The bits in which two operands differ: what the only text that programs have computes."""
        tiles = [x for x in inputs if isinstance(x, Tile)]
        if not tiles or any(t.dtype != out or t.error.any() for t in tiles) or not all(
            isinstance(x, (Tile, int)) for x in inputs
        ):
            raise Refused("ptx")
        return elementwise("bitwise_xor", *inputs)

    def static_range(self, *bounds: int) -> Iterator[int]:
        return iter(range(*bounds))

    def function(self, helper: Any) -> Any:
        return helper

    def cat(self, a: Tile, b: Tile, axis: int) -> Tile:
        try:
            common = ELEMENTWISE["maximum"].common_type([a.dtype, b.dtype])
        except Exception as error:
            raise Refused("cat") from error
        others = [t.shape[:axis] + t.shape[axis + 1 or len(t.shape) :] for t in (a, b)]
        if len(a.shape) != len(b.shape) or not -len(a.shape) <= axis < len(a.shape) or others[0] != others[1]:
            raise Refused("cat")
        parts = [a.astype(common), b.astype(common)]
        return Tile(np.concatenate([p.value for p in parts], axis), np.concatenate([p.error for p in parts], axis))

    def flip(self, x: Tile, axis: int) -> Tile:
        return Tile(np.flip(x.value, axis), np.flip(x.error, axis))

    def roll(self, x: Tile, shift: Any, axis: int) -> Tile:
        distance = _index(shift)
        return Tile(np.roll(x.value, distance, axis), np.roll(x.error, distance, axis))

    def gather(self, x: Tile, index: Tile, axis: int) -> Tile:
        return Tile(*(np.take_along_axis(array, index.value.astype(int), axis) for array in (x.value, x.error)))

    def histogram(self, x: Tile, bins: int, mask: Tile | None = None) -> Tile:
        if x.error.any() or not x.dtype.is_integer or (mask is not None and mask.error.any()):
            raise Refused("histogram")
        counted = (x.value >= 0) & (x.value < bins) & (True if mask is None else mask.value)
        return Tile(np.bincount(x.value[counted].astype(int), minlength=bins).astype(np.int32))

    def argsort(self, x: Tile, axis: int = -1, descending: bool = False) -> Tile:
        if not isinstance(x, Tile) or not -len(x.shape) <= axis < len(x.shape) or x.error.any():
            raise Refused("argsort")
        return Tile(self._order(x, axis, descending).astype(np.int32))

    def matmul(self, a: Tile, b: Tile, precision: str | None = None) -> Tile:
        if not isinstance(a, Tile) or not isinstance(b, Tile):
            raise Refused("matmul")
        return multiplied(a, b, precision)

    def sort(self, x: Tile, axis: int = -1, descending: bool = False) -> Tile:
        if not isinstance(x, Tile) or not -len(x.shape) <= axis < len(x.shape):
            raise Refused("sort")
        made = np.take_along_axis(x.value, self._order(x, axis, descending), axis)
        error = x.error.max(axis=axis, keepdims=True, initial=LEAST if x.dtype.is_float else 0)
        return Tile(made, np.broadcast_to(error, made.shape))

    def _order(self, x: Tile, axis: int, descending: bool) -> Array:
        values = x.value.astype(np.float64) if x.dtype.is_float else x.value
        missing = np.isnan(values) if x.dtype.is_float else np.zeros(x.shape, bool)
        rank = np.searchsorted(np.unique(values[~missing]), np.where(missing, 0, values)).astype(np.int64)
        return np.argsort(np.where(missing, x.value.size, -rank if descending else rank), axis=axis, kind="stable")

    def split(self, x: Tile, parts: int, axis: int) -> tuple[Tile, ...]:
        pairs = zip(np.split(x.value, parts, axis), np.split(x.error, parts, axis), strict=True)
        return tuple(Tile(value, error) for value, error in pairs)
