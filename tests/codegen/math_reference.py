"""Exact values of the functions, sample points, and errors in units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

__all__ = ["DOUBLE", "EXACT", "UNARY", "errors32", "errors64", "rounded64", "samples32", "samples64"]

Array = np.ndarray

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])

#: float64 evaluations, good enough to measure float32 by.
DOUBLE: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": _erf,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * _erfc(-x / math.sqrt(2)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
}


def _phi(x: Any) -> Any:
    """The normal distribution's cumulative function; mpmath's erfc takes no huge arguments."""
    return mp.erfc(-x / mp.sqrt(2)) / 2 if abs(x) < 1000 else mp.mpf(x > 0)


#: The same in multiple precision.
EXACT: dict[str, Callable[..., Any]] = {
    "exp": mp.exp,
    "exp2": lambda x: mp.power(2, x),
    "log": mp.log,
    "log2": lambda x: mp.log(x) / mp.log(2),
    "sin": mp.sin,
    "cos": mp.cos,
    "tanh": mp.tanh,
    "erf": mp.erf,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "silu": lambda x: x / (1 + mp.exp(-x)),
    "gelu": lambda x: x * _phi(x),
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "pow": mp.power,
}

UNARY = tuple(DOUBLE)

#: Where each function is neither constant nor infinite, to sample densely: (low, high) for float32, for float64.
BUSY = {
    "exp": ((-104, 89), (-746, 710)),
    "exp2": ((-151, 128), (-1076, 1024)),
    "log": ((0.4, 3), (0.4, 3)),
    "log2": ((0.4, 3), (0.4, 3)),
    "sin": ((-10, 10), (-10, 10)),
    "cos": ((-10, 10), (-10, 10)),
    "tanh": ((-10, 10), (-20, 20)),
    "erf": ((-4, 4), (-6, 6)),
    "sigmoid": ((-104, 18), (-746, 38)),
    "silu": ((-110, 20), (-755, 40)),
    "gelu": ((-15, 5), (-39, 8)),
    "rsqrt": ((0.25, 4), (0.25, 4)),
    "reciprocal": ((-2, 2), (-2, 2)),
}


def samples32(op: str, each: int = 128, busy: int = 60_000) -> Array:
    """`each` random significands of every exponent and sign, the ends of each binade, and a busy range."""
    rng = np.random.default_rng(32)
    high = np.arange(512, dtype=np.uint32)[:, None] << np.uint32(23)
    ends = np.array([0, 1, 2, 0x7FFFFE, 0x7FFFFF], np.uint32)
    low = np.concatenate([rng.integers(0, 1 << 23, (512, each), dtype=np.uint32), np.tile(ends, (512, 1))], axis=1)
    everywhere = (high | low).ravel().view(np.float32)
    dense = rng.uniform(*BUSY[op][0], busy).astype(np.float32)
    return np.concatenate([everywhere, dense, _multiples_of_half_pi(np.float32, 2**15)])


def samples64(op: str, count: int = 250) -> Array:
    """Random bit patterns, small numbers, and a busy range."""
    rng = np.random.default_rng(64)
    everywhere = rng.integers(0, 2**64 - 1, count, dtype=np.uint64, endpoint=True).view(np.float64)
    small = rng.normal(size=count) * 10.0 ** rng.uniform(-12, 0, count)
    dense = rng.uniform(*BUSY[op][1], 2 * count)
    parts = [everywhere, small, dense, 1 + small[:50]]
    if op in ("sin", "cos"):
        # The double nearest to a multiple of pi/2 (J.-M. Muller, "Elementary Functions", "Range reduction").
        parts += [_multiples_of_half_pi(np.float64, 2**28)[::40], np.array([6381956970095103.0 * 2.0**797])]
        parts.append(np.ldexp(rng.uniform(0.5, 1, count), rng.integers(20, 1024, count)))
    x = np.concatenate(parts)
    return np.ascontiguousarray(x[np.isfinite(x)])


def _multiples_of_half_pi(dtype: type, largest: int) -> Array:
    rng = np.random.default_rng(2)
    return np.asarray(rng.integers(-largest, largest, 4000) * (np.pi / 2), dtype)


def errors32(got: Array, reference: Array) -> Array:
    """|got - reference| in float32's units in the last place of the reference, which is of float64.

    Where the reference rounds to NaN or an infinity the error is 0 if `got` is the same, else infinite.
    """
    rounded = reference.astype(np.float32)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    _, exponent = np.frexp(reference)
    unit = np.maximum(np.ldexp(1.0, exponent - 24), 2.0**-149)
    error = np.abs(got.astype(np.float64) - reference) / unit
    return np.where(np.isfinite(rounded) & np.isfinite(got), error, np.where(same, 0.0, np.inf))


def errors64(op: str, got: Array, *args: Array) -> list[float]:
    """|got - exact| in float64's units in the last place of the exact value, for finite arguments only."""
    with mp.workprec(_precision(op)):
        exact = [EXACT[op](*map(_multiple, at)) for at in zip(*args, strict=True)]
        return [float(_ulps(value, wanted)) for value, wanted in zip(got, exact, strict=True)]


def rounded64(op: str, special: Array, *args: Array) -> Array:
    """The exact value rounded to float64, of arrays of one shape.

    special: the value where an argument is zero, infinite or NaN, and NaN wherever the function has none.
    """
    found = special.copy()
    ordinary = np.logical_and.reduce([~np.isnan(special), *(np.isfinite(a) & (a != 0) for a in args)])
    points = zip(*(a[ordinary] for a in args), strict=True)
    with mp.workprec(_precision(op)):
        found[ordinary] = [float(EXACT[op](*map(_multiple, at))) for at in points]
    return found


def _multiple(x: Any) -> Any:
    return mp.mpf(float(x))


def _precision(op: str) -> int:
    """Bits that are enough for a remainder by pi/2 of the largest numbers, and for the cancellation elsewhere."""
    return 1300 if op in ("sin", "cos") else 250


def _ulps(got: float, exact: Any) -> Any:
    """The distance from an exact value in float64's units in the last place of it."""
    exponent = -1074 if exact == 0 else max(int(mp.floor(mp.log(abs(exact), 2))) - 52, -1074)
    if abs(exact) >= mp.mpf(2) ** 1024 - mp.mpf(2) ** 970:
        return mp.mpf(0) if mp.isinf(mp.mpf(float(got))) else mp.inf
    return abs(mp.mpf(float(got)) - exact) / mp.mpf(2) ** exponent
