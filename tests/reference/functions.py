"""Exact values of the functions, sample points, and errors in units in the last place, by the operations' records."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np

from tilejit.ops.elementwise import ELEMENTWISE, Accuracy

__all__ = ["INEXACT", "accuracy", "double", "errors32", "errors64", "rounded64", "samples32", "samples64"]

Array = np.ndarray

#: the functions that don't round correctly
INEXACT = tuple(name for name, op in ELEMENTWISE.items() if op.accuracy is not None)


def accuracy(name: str) -> Accuracy:
    """What the function's record promises."""
    promised = ELEMENTWISE[name].accuracy
    assert promised is not None, f"{name} is exact"
    return promised


def double(name: str, *args: Array) -> Array:
    """The function in NumPy's float64, good enough to measure float32 by."""
    with np.errstate(all="ignore"):
        return np.asarray(ELEMENTWISE[name].formula(*(a.astype(np.float64) for a in args)))


@cache
def exact(name: str) -> Callable[..., Any]:
    """The function in multiple precision; a complex value means none."""
    operands = ", ".join(ELEMENTWISE[name].operands)
    function: Callable[..., Any] = eval(f"lambda {operands}: {accuracy(name).exact}", {"mp": mp})
    return function


def samples32(name: str, each: int = 128, busy: int = 60_000) -> tuple[Array, ...]:
    """Arguments for each operand: of every exponent and sign random significands and the binade's ends, a busy range.

    each: how many significands of each exponent. Each of several operands has every exponent, in random order.
    """
    rng = np.random.default_rng(32)
    high = np.arange(512, dtype=np.uint32)[:, None] << np.uint32(23)
    ends = np.tile(np.array([0, 1, 2, 0x7FFFFE, 0x7FFFFF], np.uint32), (512, 1))
    operands: list[Array] = []
    for number, (low, top) in enumerate(accuracy(name).float32):
        significands = rng.integers(0, 1 << 23, (512, each), dtype=np.uint32)
        everywhere = (high | np.concatenate([significands, ends], axis=1)).ravel().view(np.float32)
        if number:
            everywhere = rng.permutation(everywhere)
        dense = rng.uniform(low, top, busy).astype(np.float32)
        operands.append(np.concatenate([everywhere, dense, _multiples_of_half_pi(np.float32, 2**15)]))
    return _with_neighbours(operands)


def samples64(name: str, count: int = 250) -> tuple[Array, ...]:
    """Random bit patterns, small numbers, and a busy range; for sine and cosine what is next to their zeros."""
    rng = np.random.default_rng(64)
    operands: list[Array] = []
    for low, top in accuracy(name).float64:
        everywhere = rng.integers(0, 2**64 - 1, count, dtype=np.uint64, endpoint=True).view(np.float64)
        small = rng.normal(size=count) * 10.0 ** rng.uniform(-12, 0, count)
        dense = rng.uniform(low, top, 2 * count)
        parts = [np.where(np.isfinite(everywhere), everywhere, 1.5), small, dense, 1 + small[:50]]
        if name in ("sin", "cos"):
            # The double nearest to a multiple of pi/2 (J.-M. Muller, "Elementary Functions", "Range reduction").
            parts += [_multiples_of_half_pi(np.float64, 2**28)[::40], np.array([6381956970095103.0 * 2.0**797])]
            parts.append(np.ldexp(rng.uniform(0.5, 1, count), rng.integers(20, 1024, count)))
        operands.append(np.concatenate(parts))
    args = _with_neighbours(operands)
    finite = np.logical_and.reduce([np.isfinite(a) for a in args])
    return tuple(np.ascontiguousarray(a[finite]) for a in args)


def _with_neighbours(operands: list[Array]) -> tuple[Array, ...]:
    """Of two operands those of like size and nearly equal ones, too."""
    if len(operands) < 2:
        return (np.ascontiguousarray(operands[0]),)
    rng = np.random.default_rng(3)
    x, y = operands
    precision = np.finfo(x.dtype).nmant
    with np.errstate(all="ignore"):
        like = np.ldexp(x, rng.integers(-precision, precision, x.size)) * rng.uniform(-1, 1, x.size).astype(x.dtype)
        near = x * (1 + np.ldexp(rng.normal(size=x.size), -rng.integers(1, precision, x.size))).astype(x.dtype)
    return np.concatenate([x, x, x]), np.concatenate([y, like.astype(x.dtype), near.astype(x.dtype)])


def _multiples_of_half_pi(dtype: type, largest: int) -> Array:
    rng = np.random.default_rng(2)
    return np.asarray(rng.integers(-largest, largest, 4000) * (np.pi / 2), dtype)


def errors32(got: Array, reference: Array) -> Array:
    """|got - reference| in float32's units in the last place of the reference, which is of float64.

    Where the reference rounds to NaN or an infinity the error is 0 if `got` is the same, else infinite.
    """
    with np.errstate(all="ignore"):
        rounded = reference.astype(np.float32)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        _, exponent = np.frexp(reference)
        unit = np.maximum(np.ldexp(1.0, exponent - 24), 2.0**-149)
        error = np.abs(got.astype(np.float64) - reference) / unit
    return np.where(np.isfinite(rounded) & np.isfinite(got), error, np.where(same, 0.0, np.inf))


def errors64(name: str, got: Array, *args: Array) -> Array:
    """|got - exact| in float64's units in the last place of the exact value, for finite arguments other than 0."""
    with mp.workprec(accuracy(name).precision_bits):
        true = [exact(name)(*map(_multiple, at)) for at in zip(*args, strict=True)]
        return np.array([float(_ulps(float(value), wanted)) for value, wanted in zip(got, true, strict=True)])


def rounded64(name: str, special: Array, *args: Array) -> Array:
    """The exact value rounded to float64, of arrays of one shape.

    special: the value where an argument is zero, infinite or NaN, and NaN wherever the function has none.
    """
    values = special.copy()
    ordinary = np.logical_and.reduce([~np.isnan(special), *(np.isfinite(a) & (a != 0) for a in args)])
    points = zip(*(a[ordinary] for a in args), strict=True)
    with mp.workprec(accuracy(name).precision_bits):
        values[ordinary] = [float(exact(name)(*map(_multiple, at))) for at in points]
    return values


def _multiple(x: Any) -> Any:
    return mp.mpf(float(x))


def _ulps(got: float, true: Any) -> Any:
    """The distance from an exact value in float64's units in the last place of it; a complex one is NaN."""
    if isinstance(true, mp.mpc):
        return 0.0 if np.isnan(got) else np.inf
    if abs(true) >= mp.mpf(2) ** 1024 - mp.mpf(2) ** 970:
        return 0.0 if np.isinf(got) else np.inf
    if not np.isfinite(got):
        return np.inf
    exponent = -1074 if true == 0 else max(int(mp.mag(true)) - 53, -1074)
    return abs(mp.mpf(got) - true) / mp.mpf(2) ** exponent
