"""Hypothesis strategies for element types and arrays, and comparison of arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..dtypes import DTYPES, DType, as_dtype, from_numpy

# pytest omits these frames and shows the line of the test
__tracebackhide__ = True

Array = np.ndarray[Any, Any]

#: minimum and maximum
Limits = tuple[float, float]


def dtypes(*, kinds: Sequence[str] = ("bool", "int", "uint", "float"), fp8: bool = True) -> st.SearchStrategy[DType]:
    """Return a strategy for element types of `kinds`. fp8: include float8, which elementwise arithmetic rejects."""
    return st.sampled_from([t for t in DTYPES.values() if t.kind in kinds and (fp8 or not t.is_fp8)])


def arrays(
    shape: int | Sequence[int] | st.SearchStrategy[Any],
    dtype: object,
    *,
    strided: bool = False,
    misaligned: bool = False,
    finite: bool = False,
    range: tuple[float, float] | None = None,
) -> st.SearchStrategy[Array]:
    """Return a strategy for arrays of zeros, ones, consecutive or random numbers, possibly with special values.

    Special values include infinities, NaNs, 0, 1 and the limits of the type or range, as far as the arguments and the
    type allow. A failing array shrinks to few elements, zeros and the special values that matter, and is shown as a
    call to `array_of`.

    shape, dtype: values or strategies for them; a shape may be a single extent.
    strided: strides may be permuted, padded, negative or 0; elements of a dimension with stride 0 share memory.
    misaligned: the element at the lowest address may be up to 16 elements after a multiple of 128 bytes.
    finite: exclude infinities and NaNs.
    range: (minimum, maximum) of the elements; implies `finite`.

    Example:
        from hypothesis import given, settings
        from hypothesis import strategies as st
        from tilejit.testing import arrays

        @settings(max_examples=5)
        @given(arrays(st.integers(1, 100), tj.float32, range=(-1, 1)))
        def test(x):
            assert (abs(x) <= 1).all()

        test()
    """
    if not isinstance(dtype, st.SearchStrategy):
        _check_range(_element_type(dtype), range)
    return _arrays(shape, dtype, strided, misaligned, finite or range is not None, range)


@st.composite
def _arrays(
    draw: st.DrawFn, shape: Any, dtype: Any, strided: bool, misaligned: bool, finite: bool, limits: Limits | None
) -> Array:
    drawn = draw(shape) if isinstance(shape, st.SearchStrategy) else shape
    extents = (drawn,) if isinstance(drawn, int) else tuple(drawn)
    kind = _element_type(draw(dtype) if isinstance(dtype, st.SearchStrategy) else dtype)
    named: dict[str, Any] = {}
    if strided:
        strides = draw(_strides(extents))
        named.update({} if strides == tuple(_row_major(extents)) else {"strides": strides})
    if misaligned:
        shift = draw(st.integers(0, 16))
        named.update({"shift": shift} if shift else {})
    values = draw(st.sampled_from(_VALUES))
    if values in ("small", "any"):
        named["seed"] = draw(st.integers(0, 2**32 - 1))
    listed = _special(kind, finite, limits)
    chosen = draw(st.tuples(*[st.booleans()] * len(listed)))
    special = tuple(value for value, is_in in zip(listed, chosen, strict=True) if is_in)
    named.update({"special": special} if special else {})
    named.update({"range": limits} if limits is not None else {})
    array: Array = draw(st.builds(array_of, *map(st.just, (extents, kind.name, values)), **{
        name: st.just(value) for name, value in named.items()
    }))
    return array


#: contents of arrays, simplest first; repeated names are drawn more often, because they find more errors
_VALUES = ("zeros", "ones", "counted", "small", "small", "any", "any", "any")


def array_of(
    shape: Sequence[int],
    dtype: object,
    values: str = "zeros",
    *,
    seed: int = 0,
    special: Sequence[float] = (),
    range: tuple[float, float] | None = None,
    strides: Sequence[int] | None = None,
    shift: int = 0,
) -> Array:
    """Return the array that the arguments describe. A failing test shows an array from `arrays` as such a call.

    values: "zeros", "ones", "counted" (0, 1, 2, ..., wrapping to 0 at the type's limit), "small" random numbers, or
    "any" finite ones. With `range`, each is moved or scaled into it; "counted" then begins at its minimum.
    seed: seed of the random numbers.
    special: values to place at random positions, each at least once if there is room; `range` doesn't restrict them.
    strides: strides in elements, row-major by default.
    shift: number of elements between a multiple of 128 bytes and the element at the lowest address.

    Example:
        from tilejit.testing import array_of

        assert list(array_of((4,), tj.int32, "counted")) == [0, 1, 2, 3]
    """
    kind = _element_type(dtype)
    _check_range(kind, range)
    steps = _row_major(shape) if strides is None else strides
    array, _ = in_room(shape, kind.numpy, [s * kind.bytes for s in steps], shift * kind.bytes, 0)
    random = np.random.default_rng(seed)
    count = math.prod(shape)
    contents = _values(random, count, kind, values, range)
    if special and count:
        _strew(random, contents, kind, special)
    array[...] = contents.reshape(array.shape)
    return array


def in_room(
    shape: Sequence[int], dtype: np.dtype[Any], strides: Sequence[int], residue: int, fill: int
) -> tuple[Array, Array]:
    """Return an array with these byte strides, and the bytes that contain it, each with the value `fill`.

    residue: the address of the array's lowest byte modulo 128.
    """
    reach = [] if 0 in shape else [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low = -sum(r for r in reach if r < 0)
    room = np.full(low + sum(r for r in reach if r > 0) + dtype.itemsize + 256, fill, np.uint8)
    start = low + (residue - room.ctypes.data) % 128
    return np.ndarray(tuple(shape), dtype, room, start, tuple(strides)), room


def _strew(random: np.random.Generator, contents: Array, dtype: DType, special: Sequence[float]) -> None:
    """Put special values at about a tenth of the positions, each at least once if there is room; vary NaN payloads."""
    values = np.array(special, np.float64 if dtype.is_float else object).astype(dtype.numpy)
    at = np.flatnonzero(random.random(contents.size) < 0.1)
    contents[at] = values[random.integers(0, values.size, at.size)]
    places = random.permutation(contents.size)[: values.size]
    contents[places] = values[: places.size]
    if dtype.is_float:
        nans = np.flatnonzero(np.isnan(contents))
        bits = random.integers(0, 256, nans.size * dtype.bytes, dtype=np.uint8).view(f"u{dtype.bytes}")
        least = np.array(math.nan if dtype.name == "float8_e4m3fn" else math.inf).astype(dtype.numpy)
        _bits(contents)[nans] = bits | _bits(least) | 1


def _element_type(dtype: object) -> DType:
    kind = as_dtype(dtype)
    if kind is None:
        raise TypeError(f"{dtype!r} is not an element type; write tj.float32 or the like")
    return kind


def _check_range(dtype: DType, limits: Limits | None) -> None:
    if limits is None:
        return
    low, high = limits
    least, most = _ends(dtype)
    if not least <= low <= high <= most:
        raise ValueError(f"range={limits} is not a (minimum, maximum) in the range of {dtype}, {least} to {most}")


@st.composite
def _strides(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = _row_major(shape), 1
    if draw(st.integers(0, 3)) == 0:
        return tuple(strides)
    for d in draw(st.permutations(range(len(shape)))):
        strides[d] = 0
        if draw(st.integers(0, 7)) == 0:
            continue
        step *= draw(st.sampled_from((1, 1, 1, 2, 3)))
        strides[d] = step * draw(st.sampled_from((1, 1, -1)))
        step = step * shape[d] + draw(st.sampled_from((0, 0, 1, 4, 8)))
    return tuple(strides)


def _row_major(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def _values(random: np.random.Generator, count: int, dtype: DType, values: str, limits: Limits | None) -> Array:
    if values not in _VALUES:
        raise ValueError(f"values={values!r} is not one of {', '.join(dict.fromkeys(_VALUES))}")
    if limits is not None:
        return _within(random, count, dtype, values, *limits)
    if values in ("zeros", "ones"):
        return np.full(count, values == "ones").astype(dtype.numpy)
    if values == "counted":
        return (np.arange(count) % min(_counted(dtype), 2**62)).astype(dtype.numpy)
    if dtype.kind == "bool":
        return random.integers(0, 2, count).astype(np.bool_)
    if values == "small":
        drawn: Array = random.integers(0 if dtype.kind == "uint" else -8, 9, count)
        return np.asarray(drawn / 4 if dtype.is_float else drawn, dtype.numpy)
    anything: Array = random.integers(0, 256, count * dtype.bytes, dtype=np.uint8).view(dtype.numpy)
    if dtype.is_float:
        # only `special` adds infinities and NaNs
        with np.errstate(invalid="ignore"):
            anything[~np.isfinite(anything)] = 1
    return anything


def _within(random: np.random.Generator, count: int, dtype: DType, values: str, low: float, high: float) -> Array:
    """Return contents from `low` to `high`, if the type has any; "zeros" and "ones": the number closest to 0 or 1."""
    if not dtype.is_float:
        first, last = math.ceil(low), math.floor(high)
        if values in ("zeros", "ones"):
            return np.full(count, min(max(int(values == "ones"), first), last), dtype.numpy)
        extent = min(last - first + 1, 2**63 - 1)
        steps = np.arange(count) % extent if values == "counted" else random.integers(0, extent, count)
        return np.array([first + int(n) for n in steps], object).astype(dtype.numpy)
    if values in ("zeros", "ones"):
        contents = np.full(count, min(max(float(values == "ones"), low), high))
    else:
        share = np.arange(count) % 17 / 16 if values == "counted" else random.random(count)
        contents = low * (1 - share) + high * share
    rounded = contents.astype(dtype.numpy)
    outside = (rounded.astype(np.float64) < low) | (rounded.astype(np.float64) > high)
    if outside.any():
        near = np.array([low, high, (low + high) / 2, 0.0]).astype(dtype.numpy)
        inside = [x for x in near if low <= float(x) <= high]
        rounded[outside] = inside[0] if inside else near[0]
    return rounded


def _counted(dtype: DType) -> int:
    """Return an n such that `dtype` represents all integers from 0 to n - 1."""
    if not dtype.is_float:
        return int(_ends(dtype)[1]) + 1
    return int(2 ** (_finfo(dtype).nmant + 1))


def _ends(dtype: DType) -> tuple[float, float]:
    if dtype.kind == "bool":
        return 0, 1
    if not dtype.is_float:
        ends = np.iinfo(dtype.numpy)
        return int(ends.min), int(ends.max)
    return float(_finfo(dtype).min), float(_finfo(dtype).max)


def _finfo(dtype: DType) -> Any:
    import ml_dtypes

    return ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]


def _special(dtype: DType, finite: bool, limits: Limits | None) -> list[float]:
    """Return the special values of `dtype` within `limits`; for floats, the likeliest to fail tests come first."""
    low, high = _ends(dtype) if limits is None else limits
    if not dtype.is_float:
        whole = [low, high] if limits is None else [math.ceil(low), math.floor(high)]
        return [] if dtype.kind == "bool" else sorted({*whole, *(n for n in (0, 1) if low <= n <= high)})
    info = _finfo(dtype)
    listed = [0.0, -0.0, 1.0, -1.0, *map(float, (info.max, info.min, info.tiny, info.smallest_subnormal))]
    inside = [x for x in listed if low <= x <= high]
    if limits is not None:
        ends = [float(dtype.numpy.type(x)) for x in limits]
        return [x for x in dict.fromkeys((*ends, *inside)) if low <= x <= high]
    infinities = [] if dtype.name == "float8_e4m3fn" else [math.inf, -math.inf]
    return inside if finite else [math.nan, *infinities, *inside]


def assert_equal(name: str, got: Array, expected: Any, rtol: float = 0, atol: float = 0, ulp: float = 0) -> None:
    """Raise AssertionError unless `got` has the type, shape and elements of `expected`; show the first wrong element.

    rtol, atol: tolerances as in `numpy.isclose`. If they and `ulp` are 0, bits must be equal; all NaNs are equal.
    ulp: maximum error of floats in units in the last place. `expected` may then be float64; a correctly rounded result
    has an error of at most 0.5. An element within any of the tolerances passes.

    Example:
        from tilejit.testing import assert_equal

        third = np.array([1 / 3])
        assert_equal("x", third.astype(np.float32), third, ulp=0.5)
    """
    wanted = np.asarray(expected)
    is_reference = bool(ulp) and wanted.dtype == np.float64 and _is_float(got)
    if wanted.dtype != got.dtype and not is_reference:
        raise AssertionError(f"{name} has type {got.dtype}, but the expected array has type {wanted.dtype}: cast it")
    if wanted.shape != got.shape:
        raise AssertionError(f"{name} has shape {got.shape}, but the expected array has shape {wanted.shape}")
    wrong = ~_agree(got, wanted, rtol, atol, ulp)
    if not wrong.any():
        return
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    distance = _distance(got, wanted)[at] if _is_float(got) else math.inf
    # The distance is meaningless between integers, and between a number and a NaN.
    apart = f", {distance:{'.3f' if distance % 1 else '.0f'}} ulp apart" if distance < 2**62 else ""
    total = f"wrong elements: {int(wrong.sum())} of {got.size}"
    raise AssertionError(f"{name}{list(at)} is {got[at]!s}, expected {wanted[at]!s}{apart}; {total}")


def _agree(got: Array, wanted: Array, rtol: float, atol: float, ulp: float) -> Array:
    if not _is_float(got):
        same = _bits(got) == _bits(wanted)
        return np.asarray(same | np.isclose(got, wanted, rtol, atol) if rtol or atol else same)
    with np.errstate(all="ignore"):
        same = _bits(got) == _bits(wanted.astype(got.dtype))
        same |= np.isnan(got) & np.isnan(wanted)
        if rtol or atol:
            same |= np.isclose(got.astype(np.float64), wanted.astype(np.float64), rtol, atol)
        if ulp:
            same |= _distance(got, wanted) <= ulp
    return np.asarray(same)


def _distance(got: Array, wanted: Array) -> Array:
    """Return the distances of `got` from `wanted`, in units in the last place of `wanted` in the type of `got`."""
    if wanted.dtype == got.dtype:
        return ulps(got, wanted)
    import ml_dtypes

    info = ml_dtypes.finfo(got.dtype)  # type: ignore[no-untyped-call]
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(wanted)
        unit = np.ldexp(1.0, np.maximum(exponent - 1, int(info.minexp)) - int(info.nmant))
        apart = np.abs(got.astype(np.float64) - wanted) / unit
        equal = _bits(got) == _bits(wanted.astype(got.dtype))
        both = np.isnan(got) & np.isnan(wanted)
    return np.asarray(np.where(both | equal & ~np.isfinite(apart), 0.0, np.where(np.isnan(apart), np.inf, apart)))


def _is_float(array: Array) -> bool:
    dtype = from_numpy(array.dtype)
    return dtype is not None and dtype.is_float


def _bits(array: Any) -> Array:
    whole = np.ascontiguousarray(array)
    return np.asarray(whole.view(f"u{whole.itemsize}").reshape(np.shape(array)))


def ulps(a: Any, b: Any) -> Array:
    """Return the elementwise distance of `a` and `b` in ulps: 0 for two NaNs, 2**63 - 1 for a NaN and a number."""
    one, other = (_ordered(np.asarray(x)) for x in (a, b))
    apart = np.where(one > other, one - other, other - one)
    nans = np.isnan(np.asarray(a)).astype(int) + np.isnan(np.asarray(b))
    return np.asarray(np.where(nans == 1, np.iinfo(np.int64).max, np.where(nans == 2, 0, apart)))


def _ordered(values: Array) -> Array:
    """Map floats to integers in the same order: adjacent floats to adjacent integers, both zeros to 0."""
    bits = _bits(values)
    sign = bits >> (8 * values.itemsize - 1)
    magnitude = (bits & (np.iinfo(bits.dtype).max >> 1)).astype(np.int64)
    return np.asarray(np.where(sign == 1, -magnitude, magnitude))
