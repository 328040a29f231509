"""Arithmetic rounded towards zero (rz), minus infinity (rm) or plus infinity (rp)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from .floats import F4, F8, U4, U8, add_odd, fma_exact, make_odd, two_product, two_sum
from .integer import PerThread, sel


def directed(s: PerThread, error: PerThread, mode: str) -> PerThread:
    """float64 s (nearest) with exact value s + error → float64 rounded by mode rz, rm or rp."""
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
    """float64 → float32 by mode rz, rm or rp."""
    near = x.astype(F4)
    back = near.astype(F8)
    bits = near.view(U4)
    above, below = back > x, back < x
    negative = np.signbit(near)
    if mode == "rz":
        down = (above & ~negative) | (below & negative)
        return sel(down & np.isfinite(x), bits - U4(1), bits).view(F4)
    wrong = above if mode == "rm" else below
    # Towards minus infinity a positive value shrinks and a negative one grows in magnitude.
    shrinks = ~negative if mode == "rm" else negative
    smallest = U4(0x80000001) if mode == "rm" else U4(1)
    moved = sel(shrinks, bits - U4(1), bits + U4(1))
    moved = sel((bits << U4(1)) == 0, smallest, moved)
    return sel(wrong & np.isfinite(x), moved, bits).view(F4)


def add_dir_f32(a: PerThread, b: PerThread, mode: str) -> PerThread:
    wide = add_odd(a.astype(F8), b.astype(F8))
    r = narrow_directed(wide, mode)
    return _exact_zero(r, wide, a, b, mode)


def _exact_zero(r: PerThread, wide: PerThread, a: PerThread, b: PerThread, mode: str) -> PerThread:
    """A sum that is exactly zero is -0 when rounding towards minus infinity, unless both summands are +0."""
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
    """A float64 quotient of float32 numbers, rounded to odd by its remainder's sign."""
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


def mul_dir_f64(a: PerThread, b: PerThread, mode: str) -> PerThread:
    return _each(lambda x, y, m: _round_fraction(x * y, lambda: Fraction(x) * Fraction(y), m), mode, a, b)


def fma_dir_f64(a: PerThread, b: PerThread, c: PerThread, mode: str) -> PerThread:
    return _each(_fma_dir_exact, mode, a, b, c)


def div_dir_f64(a: PerThread, b: PerThread, mode: str) -> PerThread:
    return _each(lambda x, y, m: _round_fraction(x / y, lambda: Fraction(x) / Fraction(y), m), mode, a, b)


def sqrt_dir_f64(a: PerThread, mode: str) -> PerThread:
    return _each(_sqrt_dir_exact, mode, a)


def _each(function: Callable[..., float], mode: str, *operands: PerThread) -> PerThread:
    """Directed float64 roundings are rare: exact arithmetic, thread by thread."""
    arrays = np.broadcast_arrays(*operands)
    out = np.empty(arrays[0].shape, F8)
    flat = out.reshape(-1)
    for i, values in enumerate(zip(*(x.reshape(-1) for x in arrays), strict=True)):
        flat[i] = function(*values, mode)
    return out if out.ndim else out[()]


def _fma_dir_exact(a: Any, b: Any, c: Any, mode: str) -> float:
    near = fma_exact(float(a), float(b), float(c))
    if near == 0 and mode == "rm" and Fraction(float(a)) * Fraction(float(b)) == -Fraction(float(c)):
        return -0.0 if np.signbit(a) != np.signbit(b) or np.signbit(c) else 0.0
    return _round_fraction(near, lambda: Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)), mode)


def _sqrt_dir_exact(a: Any, mode: str) -> float:
    near = float(np.sqrt(a))
    if not np.isfinite(near) or near == 0:
        return near
    square = Fraction(near) ** 2
    error = Fraction(float(a)) - square
    return _step(near, error, mode)


def _round_fraction(nearest: Any, exact: Callable[[], Fraction], mode: str) -> float:
    """The exact value rounded by `mode`; `nearest` is its nearest float64, or what special operands give."""
    near = float(nearest)
    if np.isnan(near):
        return near
    if np.isinf(near):
        try:
            value = exact()
        except (OverflowError, ValueError, ZeroDivisionError):
            return near
        largest = float(np.nextafter(near, 0))
        return _step(largest, value - Fraction(largest), mode)
    try:
        return _step(near, exact() - Fraction(near), mode)
    except (OverflowError, ValueError, ZeroDivisionError):
        return near


def _step(near: float, error: Fraction, mode: str) -> float:
    """Move a float64 one step where its error says that `mode` rounds to the other side."""
    if error == 0:
        return near
    down = mode == "rm" or (mode == "rz" and (near > 0 or (near == 0 and error > 0)))
    if down and error < 0:
        return float(np.nextafter(near, -np.inf))
    if not down and error > 0:
        return float(np.nextafter(near, np.inf))
    return near


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        add_dir_f32, mul_dir_f32, fma_dir_f32, div_dir_f32, sqrt_dir_f32, add_dir_f64, mul_dir_f64, fma_dir_f64,
        div_dir_f64, sqrt_dir_f64,
    )
}
