"""Arithmetic rounded towards zero (rz), minus infinity (rm) or plus infinity (rp)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .floats import F4, F8, U4, U8, add_odd, make_odd, two_product, two_sum
from .integer import PerThread, functions_of, sel


def step_directed(near: PerThread, error: PerThread, mode: str) -> PerThread:
    """Return the bits of near + error, rounded in mode rz, rm or rp. near: the bits of the number nearest to it."""
    kind = near.dtype.type
    sign = kind(1 << 8 * near.dtype.itemsize - 1)
    negative = near >= sign
    if mode == "rz":
        return near - ((error < 0) & ~negative | (error > 0) & negative).astype(kind)
    down = mode == "rm"
    wrong = error < 0 if down else error > 0
    # rounding down decreases the magnitude of positive values and increases that of negative ones
    shrinks = wrong & (negative != down)
    moved = near + (wrong ^ shrinks).astype(kind) - shrinks.astype(kind)
    crosses = wrong & (near << kind(1) == 0)
    if not np.count_nonzero(crosses):
        return moved
    return sel(crosses, sign + kind(1) if down else kind(1), moved)


def narrow_directed(x: PerThread, mode: str) -> PerThread:
    """Convert float64 to float32 in mode rz, rm or rp."""
    near = x.astype(F4)
    return step_directed(near.view(U4), x - near.astype(F8), mode).view(F4)


def add_dir_f32(a: PerThread, b: PerThread, mode: str) -> PerThread:
    wide = add_odd(a.astype(F8), b.astype(F8))
    r = narrow_directed(wide, mode)
    return _exact_zero(r, wide, a, b, mode)


def _exact_zero(r: PerThread, wide: PerThread, a: PerThread, b: PerThread, mode: str) -> PerThread:
    """In mode rm, replace sums that are exactly zero by -0, unless both summands are +0."""
    if mode != "rm":
        return r
    cancelled = (wide == 0) & (np.signbit(a) | np.signbit(b))
    return sel(cancelled, r.dtype.type(-0.0), r)


def mul_dir_f32(a: PerThread, b: PerThread, mode: str) -> PerThread:
    return narrow_directed(a.astype(F8) * b.astype(F8), mode)


def fma_dir_f32(a: PerThread, b: PerThread, c: PerThread, mode: str) -> PerThread:
    product = a.astype(F8) * b.astype(F8)
    wide = add_odd(product, c.astype(F8))
    return _exact_zero(narrow_directed(wide, mode), wide, product, c, mode)


def div_dir_f32(a: PerThread, b: PerThread, mode: str) -> PerThread:
    """Divide float32 numbers: round the quotient to odd in float64, using the remainder's sign, then in `mode`."""
    q = a.astype(F8) / b.astype(F8)
    p, low = two_product(q, b.astype(F8))
    remainder = (a.astype(F8) - p) - low
    error = sel(b > 0, remainder, -remainder)
    return narrow_directed(make_odd(q, sel(np.isfinite(q), error, F8(0))), mode)


def sqrt_dir_f32(a: PerThread, mode: str) -> PerThread:
    root = np.sqrt(a.astype(F8))
    p, low = two_product(root, root)
    error = (a.astype(F8) - p) - low
    return narrow_directed(make_odd(root, sel(np.isfinite(root), error, F8(0))), mode)


def add_dir_f64(a: PerThread, b: PerThread, mode: str) -> PerThread:
    s, error = two_sum(a, b)
    result = _exact_zero(step_directed(s.view(U8), error, mode).view(F8), s, a, b, mode)
    overflow = np.isinf(s) & np.isfinite(a) & np.isfinite(b)
    if np.count_nonzero(overflow):
        largest = np.copysign(F8(np.finfo(F8).max), s)
        inward = overflow & ((s > 0) if mode == "rm" else (s < 0) if mode == "rp" else True)
        result = sel(inward, largest, result)
    return result


def _each(name: str) -> Callable[..., PerThread]:
    """Return a function that applies `exact.DIRECTED[name]` to one element at a time: slow, but rarely needed."""

    def apply(*arguments: PerThread) -> PerThread:
        # imported here, because `exact` imports the module fractions, which takes 3 ms
        from .exact import DIRECTED

        *operands, mode = arguments
        arrays = np.broadcast_arrays(*operands)
        out = np.empty(arrays[0].shape, F8)
        flat = out.reshape(-1)
        for i, values in enumerate(zip(*(x.reshape(-1) for x in arrays), strict=True)):
            flat[i] = DIRECTED[name](*map(float, values), mode)
        return out if out.ndim else out[()]

    return apply


mul_dir_f64, fma_dir_f64, div_dir_f64, sqrt_dir_f64 = map(_each, ("mul", "fma", "div", "sqrt"))
FUNCTIONS = functions_of(globals())
