"""Conversion between element types.

fp8 is converted by `cvt` from sm_89 on (to fp8 only with saturation), otherwise in software.

e4m3fn: sign, 4 exponent bits with bias 7, 3 mantissa bits; no infinity; NaN is 0x7f or 0xff; greatest value 448.
e5m2: sign, 5 exponent bits with bias 15, 2 mantissa bits, like a float16's upper byte; greatest finite value 57344.
source: PTX ISA, "Alternate Floating-Point Data Formats"; OCP 8-bit Floating Point Specification, 1.0.
"""

from __future__ import annotations

from typing import NamedTuple

from ..dtypes import DType, bool_, float16, float32, float64
from ..isa import convert
from .emission import Emission, LLVMValue
from .types import register_type
from .writer import Writer


def cast(emission: Emission, x: LLVMValue, dtype: DType, saturate: bool = True) -> LLVMValue:
    """Return `x` converted to `dtype`.

    To a float: rounded to nearest even, once; but an integer becomes bfloat16 by way of float32, in two roundings.
    From a float to an integer: truncated and saturated, and NaN becomes 0. Between integers: wrapped. To bool_: x != 0.
    saturate: to fp8, overflow and infinities become the greatest finite value with their sign; else NaN or infinity.
    """
    source = x.dtype
    if source == dtype:
        return x
    if dtype == bool_:
        return _to_bool(emission, x)
    if source.is_integer or source == bool_:
        # saturation doesn't change 0 and 1, and the `cvt` to fp8 requires it
        return _from_integer(emission, x, dtype, saturate or source == bool_)
    if dtype.is_integer:
        return LLVMValue(_float_to_integer(emission, x, dtype), dtype)
    return _between_floats(emission, x, dtype, saturate)


def _to_bool(emission: Emission, x: LLVMValue) -> LLVMValue:
    if x.dtype.is_integer:
        return LLVMValue(emission.writer.value(f"icmp ne i{x.dtype.bits} {x.text}, 0"), bool_)
    wide = _widened(emission, x)
    return LLVMValue(emission.writer.value(f"fcmp une {register_type(wide.dtype)} {wide.text}, 0.0"), bool_)


def _from_integer(emission: Emission, x: LLVMValue, dtype: DType, saturate: bool) -> LLVMValue:
    """Return an integer or a bool, which counts as an unsigned integer of one bit, converted to `dtype`."""
    w, kind = emission.writer, register_type(x.dtype)
    bits = int(kind[1:])
    if dtype.is_integer:
        if bits == dtype.bits:
            return LLVMValue(x.text, dtype)
        to = f"i{dtype.bits}"
        if bits > dtype.bits:
            return LLVMValue(w.value(f"trunc {kind} {x.text} to {to}"), dtype)
        return LLVMValue(w.extended("sext" if x.dtype.kind == "int" else "zext", kind, x.text, to), dtype)
    opcode = "sitofp" if x.dtype.kind == "int" else "uitofp"
    if dtype == float64:
        return LLVMValue(w.value(f"{opcode} {kind} {x.text} to double"), dtype)
    # float16 and fp8 are rounded only once: integers that float32 can't represent exactly exceed their ranges
    single = LLVMValue(w.value(f"{opcode} {kind} {x.text} to float"), float32)
    return cast(emission, single, dtype, saturate)


def _float_to_integer(emission: Emission, x: LLVMValue, dtype: DType) -> str:
    """Truncate a float and clamp it to the integer type `dtype`; NaN becomes 0. source: PTX ISA, "cvt"."""
    w = emission.writer
    wide = _widened(emission, x)
    signed = dtype.kind == "int"
    if wide.dtype == float64 or dtype.bits == 64:
        kind, source = f"i{dtype.bits}", register_type(wide.dtype)
        name = f"llvm.fpto{'s' if signed else 'u'}i.sat.{kind}.f{wide.dtype.bits}"
        return w.intrinsic(kind, name, (source, wide.text))
    whole = w.intrinsic("i32", f"llvm.nvvm.f2{'' if signed else 'u'}i.rz", ("float", wide.text))
    if dtype.bits == 32:
        return whole
    if not signed:
        low = w.intrinsic("i32", "llvm.umin.i32", ("i32", whole), ("i32", str(2**dtype.bits - 1)))
        return w.value(f"trunc i32 {low} to i{dtype.bits}")
    half = 2 ** (dtype.bits - 1)
    low = w.intrinsic("i32", "llvm.smin.i32", ("i32", whole), ("i32", str(half - 1)))
    both = w.intrinsic("i32", "llvm.smax.i32", ("i32", low), ("i32", str(-half)))
    return w.value(f"trunc i32 {both} to i{dtype.bits}")


def _widened(emission: Emission, x: LLVMValue) -> LLVMValue:
    """Return the float `x` as a float32, or unchanged if it is a float64."""
    w = emission.writer
    if x.dtype in (float32, float64):
        return x
    if x.dtype == float16:
        return LLVMValue(w.value(f"fpext half {x.text} to float"), float32)
    if x.dtype.is_fp8:
        return LLVMValue(_from_fp8(emission, x.text, x.dtype), float32)
    bits = w.value(f"zext i16 {x.text} to i32")
    high = w.value(f"shl i32 {bits}, 16")
    return LLVMValue(_from_bits(w, high), float32)


def _between_floats(emission: Emission, x: LLVMValue, dtype: DType, saturate: bool) -> LLVMValue:
    w = emission.writer
    wide = _widened(emission, x)
    if dtype == wide.dtype:
        return wide
    if dtype == float64:
        return LLVMValue(w.value(f"fpext float {wide.text} to double"), dtype)
    if dtype in (float16, float32):
        kinds = register_type(wide.dtype), register_type(dtype)
        return LLVMValue(w.value(f"fptrunc {kinds[0]} {wide.text} to {kinds[1]}"), dtype)
    single = _round_to_odd(emission, wide.text) if wide.dtype == float64 else wide.text
    if dtype.is_fp8:
        return LLVMValue(_to_fp8(emission, single, dtype, saturate), dtype)
    return LLVMValue(_to_bfloat16(emission, single), dtype)


def _round_to_odd(emission: Emission, x: str) -> str:
    """Convert a float64 to float32 such that rounding the result to a narrower type gives the correctly rounded value.

    A value that float32 can't represent becomes the one of its two float32 neighbors whose last bit is 1.
    source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to
    odd", IEEE Transactions on Computers 57(4), 2008.
    """
    w = emission.writer
    nearest = w.value(f"fptrunc double {x} to float")
    back = w.value(f"fpext float {nearest} to double")
    inexact = w.value(f"fcmp one double {back}, {x}")
    size = w.intrinsic("double", "llvm.fabs.f64", ("double", x))
    back_size = w.intrinsic("double", "llvm.fabs.f64", ("double", back))
    beyond = w.value(f"fcmp ogt double {back_size}, {size}")
    bits = _to_bits(w, nearest)
    one = w.value(f"zext i1 {beyond} to i32")
    # Decrementing the bit pattern moves one step toward zero; from infinity, to the greatest finite value.
    below = w.value(f"sub i32 {bits}, {one}")
    last = w.value(f"zext i1 {inexact} to i32")
    odd = w.value(f"or i32 {below}, {last}")
    return _from_bits(w, odd)


def _to_bfloat16(emission: Emission, x: str) -> str:
    """Return the bits (i16) of a float32 rounded to bfloat16, to nearest even; NaN becomes a quiet NaN."""
    if emission.has(convert.BF16):
        return emission.machine(convert.BF16, x)[0]
    w = emission.writer
    rounded = _rounded_off(w, _to_bits(w, x), 16)
    isnan = w.value(f"fcmp uno float {x}, 0.0")
    chosen = w.value(f"select i1 {isnan}, i32 32767, i32 {rounded}")
    return w.value(f"trunc i32 {chosen} to i16")


class _FP8Format(NamedTuple):
    """An fp8 format. mantissa: the number of mantissa bits. greatest: the bit pattern of the greatest finite value.

    Without saturation, an overflow results in the next pattern, which is NaN or infinity.
    """

    mantissa: int
    bias: int
    greatest: int


_FP8_FORMATS = {"float8_e4m3fn": _FP8Format(3, 7, 0x7E), "float8_e5m2": _FP8Format(2, 15, 0x7B)}
_FP8_NAN = 0x7F


def _from_fp8(emission: Emission, x: str, dtype: DType) -> str:
    """Return the float32 value of an fp8 pattern (i8)."""
    form = _FP8_FORMATS[dtype.name]
    w, row = emission.writer, convert.FROM_FP8.row(dtype)
    if emission.has(row):
        wide = w.value(f"zext i8 {x} to i16")
        (pair,) = emission.machine(row, wide)
        low = w.value(f"trunc i32 {pair} to i16")
        half = w.value(f"bitcast i16 {low} to half")
        return w.value(f"fpext half {half} to float")
    bits = w.value(f"zext i8 {x} to i32")
    size = w.value(f"and i32 {bits}, 127")
    placed = w.value(f"shl i32 {size}, {23 - form.mantissa}")
    tiny = _from_bits(w, placed)
    # This multiplication corrects the exponent bias; it is exact for subnormal numbers as well.
    number = w.value(f"fmul float {tiny}, 0x{1023 + 127 - form.bias << 52:016X}")
    special = form.greatest + 1
    infinite = "0x7FF0000000000000" if special != _FP8_NAN else "0x7FF8000000000000"
    is_special = w.value(f"icmp uge i32 {size}, {special}")
    is_infinite = w.value(f"icmp eq i32 {size}, {special}")
    beyond = w.value(f"select i1 {is_infinite}, float {infinite}, float 0x7FF8000000000000")
    value = w.value(f"select i1 {is_special}, float {beyond}, float {number}")
    sign = w.value(f"shl i32 {bits}, 24")
    sign_bit = w.value(f"and i32 {sign}, -2147483648")
    return _from_bits(w, w.value(f"or i32 {_to_bits(w, value)}, {sign_bit}"))


def _to_fp8(emission: Emission, x: str, dtype: DType, saturate: bool) -> str:
    """Return the fp8 pattern (i8) of a float32, rounded to nearest even.

    saturate: overflow and infinities become the greatest finite value, as in cvt.satfinite; else NaN or infinity.
    """
    form = _FP8_FORMATS[dtype.name]
    w, row = emission.writer, convert.TO_FP8.row(dtype)
    if saturate and emission.has(row):
        # The first operand becomes the upper half.
        (pair,) = emission.machine(row, "0.0", x)
        return w.value(f"trunc i16 {pair} to i8")
    bits = _to_bits(w, x)
    size = w.value(f"and i32 {bits}, 2147483647")
    magnitude = _rounded(w, form, size)
    limit = form.greatest if saturate else form.greatest + 1
    too_large = w.value(f"icmp ugt i32 {magnitude}, {form.greatest}")
    limited = w.value(f"select i1 {too_large}, i32 {limit}, i32 {magnitude}")
    is_nan = w.value(f"icmp ugt i32 {size}, 2139095040")
    value = w.value(f"select i1 {is_nan}, i32 {_FP8_NAN}, i32 {limited}")
    sign_bit = _field(w, bits, 24, 128)
    if saturate:
        sign_bit = w.value(f"select i1 {is_nan}, i32 0, i32 {sign_bit}")
    signed = w.value(f"or i32 {value}, {sign_bit}")
    return w.value(f"trunc i32 {signed} to i8")


def _rounded(w: Writer, form: _FP8Format, size: str) -> str:
    """Round the nonnegative float32 with the bits `size` to fp8 bits (i32), as if the exponent had no upper bound."""
    # Normal numbers: round to nearest even at the last bit kept, then adjust the exponent bias.
    kept = _rounded_off(w, size, 23 - form.mantissa)
    normal = w.value(f"sub i32 {kept}, {(127 - form.bias) << form.mantissa}")
    # Subnormal numbers: adding this power of two in float32 rounds: the sum's last bit is worth fp8's smallest step.
    step = 1 - form.bias - form.mantissa
    magic = 127 + step + 23 << 23
    number = _from_bits(w, size)
    summed = w.value(f"fadd float {number}, 0x{1023 + step + 23 << 52:016X}")
    subnormal = w.value(f"sub i32 {_to_bits(w, summed)}, {magic}")
    is_normal = w.value(f"icmp uge i32 {size}, {127 + 1 - form.bias << 23}")
    return w.value(f"select i1 {is_normal}, i32 {normal}, i32 {subnormal}")


def _to_bits(w: Writer, x: str) -> str:
    return w.value(f"bitcast float {x} to i32")


def _from_bits(w: Writer, bits: str) -> str:
    return w.value(f"bitcast i32 {bits} to float")


def _field(w: Writer, bits: str, first: int, mask: int) -> str:
    """Return `(bits >> first) & mask`; the shift is logical."""
    return w.value(f"and i32 {w.value(f'lshr i32 {bits}, {first}')}, {mask}")


def _rounded_off(w: Writer, bits: str, dropped: int) -> str:
    """Return an i32 without its lowest `dropped` bits, rounded to nearest even.

    For the bits of a positive float this rounds the number: a carry out of the mantissa increments the exponent.
    """
    even = _field(w, bits, dropped, 1)
    up = w.value(f"add i32 {even}, {2 ** (dropped - 1) - 1}")
    carried = w.value(f"add i32 {bits}, {up}")
    return w.value(f"lshr i32 {carried}, {dropped}")
