"""Conversions between number formats, modifiers of 16-bit operations, and packing of vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import directed, floats
from .floats import F2, F4, F8, U2, U4, U8, bf16_to_f32
from .integer import PerThread, functions_of, sel

_ROUND: dict[str, Callable[[PerThread], PerThread]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def int_sat(x: PerThread, target: np.dtype[Any]) -> PerThread:
    """Convert an integer to the integer type `target`, clamped to the range of `target`."""
    to, source = np.iinfo(target), np.iinfo(x.dtype)
    low, high = max(to.min, source.min), min(to.max, source.max)
    return np.clip(x, x.dtype.type(low), x.dtype.type(high)).astype(target)


def round_integral(x: PerThread, mode: str) -> PerThread:
    """Round a float to an integral value in mode rni, rzi, rmi or rpi."""
    return _ROUND[mode](x)


def float_to_int(x: PerThread, target: np.dtype[Any], mode: str, wide_source: bool) -> PerThread:
    """Convert a float to an integer, clamped. NaN becomes 0; if source or target has 64 bits, 1 << (target bits - 1).

    source: PTX ISA, "cvt", notes on NaN and out-of-range inputs.
    """
    info = np.iinfo(target)
    rounded = _ROUND[mode](x.astype(F8))
    high = F8(2.0 ** (info.bits - (info.min < 0)))
    over, under = rounded >= high, rounded < F8(info.min)
    nan = rounded != rounded
    special = over | under | nan
    safe = sel(special, F8(0), rounded)
    if target == np.uint64:
        result = safe.astype(np.uint64)
    else:
        result = safe.astype(np.int64).astype(target)
    if not np.count_nonzero(special):
        return result
    kind = target.type
    top_bit = wide_source or info.bits == 64
    not_a_number = kind((1 << (info.bits - 1)) if info.min == 0 else info.min) if top_bit else kind(0)
    result = sel(over, kind(info.max), sel(under, kind(info.min), result))
    return sel(nan, not_a_number, result)


def _sticky_f64(x: PerThread) -> PerThread:
    """Convert an integer to a float64 that rounds correctly to narrower formats; lost bits become a sticky bit."""
    if x.dtype.itemsize < 8:
        return x.astype(F8)
    negative = x < 0
    magnitude = sel(negative, -x, x).view(U8)
    low = magnitude & U8(0x7FF)
    big = magnitude >= U8(1 << 53)
    sticky = (magnitude & ~U8(0x7FF)) | ((low != 0).astype(U8) << U8(11))
    value = sel(big, sticky, magnitude).astype(F8)
    return sel(negative, -value, value)


def int_to_float(x: PerThread, target: str, mode: str) -> PerThread:
    """Convert an integer to f16, bf16 (as bits), f32 or f64, rounded in `mode`."""
    if target != "f64":
        return float_to_float(_sticky_f64(x), target, mode)
    if mode == "rn" or x.dtype.itemsize < 8:
        return x.astype(F8)
    high = (x >> x.dtype.type(32)).astype(F8) * F8(2.0**32)
    low = (x & x.dtype.type(0xFFFFFFFF)).astype(F8)
    near, error = floats.two_sum(high, low)
    return directed.step_directed(near.view(U8), error, mode).view(F8)


def _narrow_by_bits(x: PerThread, target: str, mode: str) -> PerThread:
    """Convert a float32, exact or rounded to odd, to f16 or bf16 (as bits) in the directed rounding mode `mode`."""
    if target == "bf16":
        near = floats.f32_to_bf16(x)
        back = bf16_to_f32(near)
    else:
        near = floats.to_f16(x).view(U2)
        back = near.view(F2).astype(F4)
    bits = directed.step_directed(near, x - back, mode)
    return bits if target == "bf16" else bits.view(F2)


def float_to_float(x: PerThread, target: str, mode: str) -> PerThread:
    """Convert f16, f32 or f64 to `target`, rounded in mode rn, rz, rm or rp; bf16 is returned as bits."""
    if target == "f64":
        return x.astype(F8)
    if target == "f32":
        if x.dtype == F8 and mode != "rn":
            return directed.narrow_directed(x, mode)
        return floats.canonical(x.astype(F4)) if x.dtype == F8 else x.astype(F4)
    if x.dtype == F2 and target == "f16":
        return x
    wide = floats.f64_to_f32_odd(x) if x.dtype == F8 else x.astype(F4)
    if mode == "rn":
        return floats.f32_to_bf16(wide) if target == "bf16" else floats.to_f16(wide)
    return _narrow_by_bits(wide, target, mode)


def relu(x: PerThread) -> PerThread:
    """Replace negative values and -0 by +0; keep NaN."""
    return sel((x > 0) | (x != x), x, x.dtype.type(0))


def saturate_finite(x: PerThread, largest: float) -> PerThread:
    """Clamp the magnitude to `largest`; keep NaN."""
    return sel(x != x, x, np.clip(x, x.dtype.type(-largest), x.dtype.type(largest)))


def to_tf32(x: PerThread, mode: str) -> PerThread:
    """Round float32 to tf32 bits: towards zero (rz), or to nearest, with ties to even (rn) or away from zero (rna)."""
    bits = x.view(U4)
    if mode == "rz":
        rounded = bits
    elif mode == "rn":
        rounded = bits + U4(0xFFF) + ((bits >> U4(13)) & U4(1))
    else:
        rounded = bits + U4(0x1000)
    cut = rounded & U4(0xFFFFE000)
    return sel(x != x, U4(0x7FFFFFFF), sel(np.isinf(x), bits, cut))


def _decode_table(exponent_bits: int, fraction_bits: int) -> NDArray[np.float64]:
    bias = (1 << (exponent_bits - 1)) - 1
    codes = np.arange(256)
    exponent = (codes >> fraction_bits) & ((1 << exponent_bits) - 1)
    fraction = (codes & ((1 << fraction_bits) - 1)) / (1 << fraction_bits)
    normal = (1 + fraction) * 2.0 ** (exponent - bias)
    values = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), normal)
    if fraction_bits == 2:
        top = exponent == (1 << exponent_bits) - 1
        values = np.where(top, np.where(fraction == 0, np.inf, np.nan), values)
    else:
        values = np.where((codes & 0x7F) == 0x7F, np.nan, values)
    return np.where(codes & 0x80, -values, values)


FP8_VALUES = {"e4m3": _decode_table(4, 3), "e5m2": _decode_table(5, 2)}
_FINITE = {"e4m3": 0x7F, "e5m2": 0x7C}


def encode_fp8(x: PerThread, form: str) -> PerThread:
    """Return a float's 8-bit code, rounded to nearest even. Overflow becomes the largest finite number, NaN 0x7f."""
    fraction_bits, lowest = (3, -6) if form == "e4m3" else (2, -14)
    finite = FP8_VALUES[form][: _FINITE[form]]
    wide = x.astype(F8)
    magnitude = np.minimum(np.abs(wide), finite[-1])
    nan = wide != wide
    magnitude = sel(nan, F8(0), magnitude)
    exponent = np.frexp(magnitude)[1] - 1
    step = np.ldexp(F8(1), np.maximum(exponent, lowest) - fraction_bits)
    rounded = np.minimum(np.rint(magnitude / step) * step, finite[-1])
    code = np.searchsorted(finite, rounded).astype(U2)
    code = code | sel(np.signbit(wide), U2(0x80), U2(0))
    return sel(nan, U2(0x7F), code)


def pack_fp8(high: PerThread, low: PerThread, form: str, positive: str | None) -> PerThread:
    """cvt.rn.satfinite.{e4m3x2,e5m2x2}.f32: pack two floats, the first into the upper byte. positive: with .relu."""
    if positive:
        high, low = relu(high), relu(low)
    return (encode_fp8(high, form) << U2(8)) | encode_fp8(low, form)


def f16x2_to_fp8(x: PerThread, form: str, positive: str | None) -> PerThread:
    return pack_fp8(floats.f16_high(x).astype(F4), floats.f16_low(x).astype(F4), form, positive)


_F16_OF = {form: table.astype(np.float16).view(np.uint16) for form, table in FP8_VALUES.items()}
for _codes in _F16_OF.values():
    _codes[np.isnan(_codes.view(np.float16))] = 0x7FFF


def fp8_to_f16x2(x: PerThread, form: str, positive: str | None) -> PerThread:
    """Convert two packed 8-bit floats to f16x2, exactly; with `positive`, apply .relu."""
    table = _F16_OF[form]
    low, high = table[x & U2(0xFF)], table[x >> U2(8)]
    if positive:
        low, high = relu(low.view(F2)).view(U2), relu(high.view(F2)).view(U2)
    return low.astype(U4) | (high.astype(U4) << U4(16))


def pack_f16x2(
    high: PerThread, low: PerThread, target: str, mode: str, positive: str | None, finite: str | None
) -> PerThread:
    """cvt.{f16x2,bf16x2}.f32 d, a, b: pack a into the upper half and b into the lower."""
    parts = []
    for x in (low, high):
        bits = narrow(x, target, mode, positive, finite)
        parts.append((bits if target == "bf16" else bits.view(U2)).astype(U4))
    return parts[0] | (parts[1] << U4(16))


def narrow(x: PerThread, target: str, mode: str, positive: str | None, finite: str | None) -> PerThread:
    """Convert float32 to f16 or bf16 (as bits). positive: with .relu. finite: with .satfinite."""
    if positive:
        x = relu(x)
    if finite:
        x = saturate_finite(x, 65504.0 if target == "f16" else float(bf16_to_f32(U2(0x7F7F))))
    return float_to_float(x, target, mode)


def half_modified(function: Any, t: str, lane: Any, flags: tuple[str, ...], *operands: PerThread) -> PerThread:
    """Apply a 16-bit operation with the modifiers in `flags` (.ftz, .sat, .relu), to both halves if `t` is packed."""

    def apply(*values: PerThread) -> PerThread:
        if "ftz" in flags:
            values = tuple(floats.ftz(v) for v in values)
        result = function(*values)
        if "sat" in flags:
            result = floats.saturate(result)
        if "relu" in flags:
            wide = bf16_to_f32(result) if lane == U2 else result
            result = sel((wide > 0) | (wide != wide), result, result.dtype.type(0))
        return floats.ftz(result) if "ftz" in flags else result

    return floats.halves(apply, lane, *operands) if t.endswith("x2") else apply(*operands)


def elements(raw: Any, dtype: np.dtype[Any], count: int) -> list[Any]:
    """Split each wide element of `raw` into `count` elements of `dtype`; return `count` arrays or scalars."""
    if not np.ndim(raw):
        return list(np.array([raw]).view(dtype))
    return list(raw.view(dtype).reshape(-1, count).T)


def joined(n: int, dtype: np.dtype[Any], whole: np.dtype[Any], values: tuple[Any, ...]) -> NDArray[Any]:
    """Join the elements of `values` (arrays or scalars) for each of `n` threads into one element of dtype `whole`."""
    out = np.empty((n, len(values)), dtype)
    for i, value in enumerate(values):
        out[:, i] = value
    return out.reshape(-1).view(whole)


FUNCTIONS = functions_of(globals())
