"""Arithmetic rounded towards zero (rz), minus infinity (rm) or plus infinity (rp)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .floats import F4, F8, U4, U8, add_odd, make_odd, two_product, two_sum
from .integer import PerThread, functions_of, sel


def directed(s: PerThread, error: PerThread, mode: str) -> PerThread:
    """Round the exact value s + error to float64 by mode rz, rm or rp; s is the nearest float64."""
    bits = s.view(U8)
    positive = s > 0
    inexact = (error != 0) & np.isfinite(s)
    if mode == "rz":
        shrink, grow = inexact & ((error > 0) != positive), None
    elif mode == "rm":
        shrink, grow = inexact & (error < 0) & positive, inexact & (error < 0) & ~positive
    else:
        shrink, grow = inexact & (error > 0) & ~positive, inexact & (error > 0) & positive
    out = sel(shrink, bits - U8(1), bits)
    if grow is not None:
        out = sel(grow, bits + U8(1), out)
    return out.view(F8)


def narrow_directed(x: PerThread, mode: str) -> PerThread:
    """Convert float64 to float32 by mode rz, rm or rp."""
    near = x.astype(F4)
    return step_directed(near.view(U4), near.astype(F8), x, mode).view(F4)


def step_directed(bits: PerThread, back: PerThread, x: PerThread, mode: str) -> PerThread:
    """Round x to a narrower format by mode rz, rm or rp. bits: the nearest value; back: the same in x's format."""
    kind = bits.dtype.type
    if mode == "rz":
        return sel((np.abs(back) > np.abs(x)) & np.isfinite(x), bits - kind(1), bits)
    wrong = back > x if mode == "rm" else back < x
    # rm decreases the magnitude of positive values and increases that of negative ones; rp does the reverse
    shrinks = ~np.signbit(x) if mode == "rm" else np.signbit(x)
    smallest = kind((1 << 8 * bits.dtype.itemsize - 1) + 1) if mode == "rm" else kind(1)
    moved = sel(shrinks, bits - kind(1), bits + kind(1))
    moved = sel((bits << kind(1)) == 0, smallest, moved)
    return sel(wrong & np.isfinite(x), moved, bits)


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
    """Divide float32 numbers: round the float64 quotient to odd, by the sign of the remainder, then by `mode`."""
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
    result = _exact_zero(directed(s, error, mode), s, a, b, mode)
    overflow = np.isinf(s) & np.isfinite(a) & np.isfinite(b)
    if np.count_nonzero(overflow):
        largest = np.copysign(F8(np.finfo(F8).max), s)
        inward = overflow & ((s > 0) if mode == "rm" else (s < 0) if mode == "rp" else True)
        result = sel(inward, largest, result)
    return result


def _each(name: str) -> Callable[..., PerThread]:
    """Return a function that applies `exact.DIRECTED[name]` to one thread at a time: slow, but rarely needed."""

    def apply(*arguments: PerThread) -> PerThread:
        # `exact` imports the module fractions, which takes 3 ms
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
