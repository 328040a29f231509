"""Measures the errors of functions, for the bounds in their records.

`python -m tests.codegen.measure_accuracy softplus_demo [more functions]` prints for each and either format the
greatest error in units in the last place, where it occurs, and the record's bound. Of float32 it takes all arguments of
a function of one, and of several operands those of the tests; of float64, which is measured against mpmath, random
ones, small ones and those of the busy range. All of float32 takes minutes for a function.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import ml_dtypes
import numpy as np

from tests.codegen.math_host import run
from tests.reference.functions import INEXACT, accuracy, double, errors32, errors64, samples32, samples64
from tilejit.dtypes import DType, bfloat16, float16
from tilejit.ops.elementwise import ELEMENTWISE

__all__ = ["COUNT64", "STRETCHES", "errors_of_half", "every_float32", "every_half", "main", "worst32", "worst64"]

Array = np.ndarray

#: (error, arguments)
Worst = tuple[float, tuple[float, ...]]

#: where the bit patterns of float32 begin that are measured at a time; more of them at once take longer in all
STRETCHES = range(0, 2**32, 2**18)
#: random arguments of float64, and small ones; twice as many are in the busy range
COUNT64 = 20_000


def every_float32() -> Iterator[Array]:
    """All of float32, NaNs included, a stretch at a time."""
    for first in STRETCHES:
        yield np.arange(first, first + STRETCHES.step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def every_half(dtype: DType) -> Array:
    """All of a type of 16 bits, NaNs included, as float32."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy).astype(np.float32)


def errors_of_half(name: str, dtype: DType, x: Array) -> Array:
    """The errors of a function's formula for halves, beyond the single rounding, in the type's units of the true value.

    Infinite where the sign of a zero, an infinity or a NaN isn't that of the rounded true value.
    """
    true = double(name, x)
    with np.errstate(all="ignore"):
        got = run(name, x, dtype=dtype.name).astype(dtype.numpy).astype(np.float64)
        rounded = true.astype(np.float32).astype(dtype.numpy).astype(np.float64)
        info = ml_dtypes.finfo(dtype.numpy)
        _, exponent = np.frexp(true)
        unit = np.maximum(np.ldexp(1.0, exponent - info.nmant - 1), float(info.smallest_subnormal))
        errors = np.abs(got - true) / unit
    same = (got == rounded) & (np.signbit(got) == np.signbit(rounded)) | (np.isnan(got) & np.isnan(rounded))
    ordinary = np.isfinite(got) & np.isfinite(rounded) & (np.signbit(got) == np.signbit(rounded))
    return np.where(ordinary, errors, np.where(same, 0.0, np.inf))


def worst32(name: str) -> Worst:
    """The greatest error of a float32 function."""
    single = ELEMENTWISE[name].arity == 1
    arguments = ((x,) for x in every_float32()) if single else iter([samples32(name, each=4096, busy=4_000_000)])
    return max(_worst(errors32(run(name, *args), double(name, *args)), args) for args in arguments)


def worst64(name: str) -> Worst:
    """The greatest error of a float64 function, at sampled arguments."""
    args = samples64(name, COUNT64)
    return _worst(errors64(name, run(name, *args), *args), args)


def _worst(errors: Array, args: tuple[Array, ...]) -> Worst:
    at = int(np.argmax(errors))
    return float(errors[at]), tuple(float(a[at]) for a in args)


def main(*names: str) -> None:
    """Print the errors of the functions named."""
    unknown = [name for name in names if name not in INEXACT]
    if unknown or not names:
        sys.exit(f"functions that have a bound: {', '.join(INEXACT)}")
    for name in names:
        for dtype, measure, bound in zip(("float32", "float64"), (worst32, worst64), accuracy(name).ulp, strict=True):
            error, args = measure(name)
            at = ", ".join(map(repr, args))
            print(f"{name} {dtype}: {error:.3f} ulp at {at}; the record says {bound:g}", flush=True)
        for half, bound in zip((float16, bfloat16), accuracy(name).halves or (), strict=False):
            x = every_half(half)
            error, (at,) = _worst(errors_of_half(name, half, x), (x,))
            print(f"{name} {half}: {error:.3f} ulp at {at!r}; the record says {bound:g}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
