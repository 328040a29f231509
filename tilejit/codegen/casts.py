"""Conversion between element types."""

from __future__ import annotations

from ..dtypes import DType, bool_, float16, float32, float64
from ..isa import convert
from .emission import Emission, LLVMValue
from .fp8 import from_fp8, to_fp8
from .patterns import from_bits, rounded_off, to_bits
from .types import register_type


def cast(emission: Emission, x: LLVMValue, dtype: DType, saturate: bool = True) -> LLVMValue:
    """Return `x` converted to `dtype`.

    To a float: rounded to nearest even, once, except from an integer to bfloat16, which is rounded to float32 first.
    From a float to an integer: truncated and saturated, and NaN becomes 0. Between integers: wrapped. To bool_: x != 0.
    saturate: to fp8, infinities and overflowing values become the greatest finite value with their sign.
    """
    source = x.dtype
    if source == dtype:
        return x
    if dtype == bool_:
        return _to_bool(emission, x)
    if source.kind == "bool":
        return _from_bool(emission, x, dtype)
    if source.is_integer:
        return _from_integer(emission, x, dtype, saturate)
    if dtype.is_integer:
        return LLVMValue(_float_to_integer(emission, x, dtype), dtype)
    return _between_floats(emission, x, dtype, saturate)


def _to_bool(emission: Emission, x: LLVMValue) -> LLVMValue:
    if x.dtype.is_integer:
        return LLVMValue(emission.writer.value(f"icmp ne i{x.dtype.bits} {x.text}, 0"), bool_)
    wide = _widened(emission, x)
    return LLVMValue(emission.writer.value(f"fcmp une {register_type(wide.dtype)} {wide.text}, 0.0"), bool_)


def _from_bool(emission: Emission, x: LLVMValue, dtype: DType) -> LLVMValue:
    if dtype.is_integer:
        return LLVMValue(emission.writer.value(f"zext i1 {x.text} to i{dtype.bits}"), dtype)
    if dtype == float64:
        return LLVMValue(emission.writer.value(f"uitofp i1 {x.text} to double"), dtype)
    return cast(emission, LLVMValue(emission.writer.value(f"uitofp i1 {x.text} to float"), float32), dtype)


def _from_integer(emission: Emission, x: LLVMValue, dtype: DType, saturate: bool) -> LLVMValue:
    w, bits = emission.writer, x.dtype.bits
    if dtype.is_integer:
        if bits == dtype.bits:
            return LLVMValue(x.text, dtype)
        kind, to = f"i{bits}", f"i{dtype.bits}"
        if bits > dtype.bits:
            return LLVMValue(w.value(f"trunc {kind} {x.text} to {to}"), dtype)
        return LLVMValue(w.extended("sext" if x.dtype.kind == "int" else "zext", kind, x.text, to), dtype)
    opcode = "sitofp" if x.dtype.kind == "int" else "uitofp"
    if dtype == float64:
        return LLVMValue(w.value(f"{opcode} i{bits} {x.text} to double"), dtype)
    # float16 and fp8 are rounded only once: integers that float32 can't represent exactly exceed their ranges
    single = LLVMValue(w.value(f"{opcode} i{bits} {x.text} to float"), float32)
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
        return LLVMValue(from_fp8(emission, x.text, x.dtype), float32)
    bits = w.value(f"zext i16 {x.text} to i32")
    high = w.value(f"shl i32 {bits}, 16")
    return LLVMValue(from_bits(w, high), float32)


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
    single = round_to_odd(emission, wide.text) if wide.dtype == float64 else wide.text
    if dtype.is_fp8:
        return LLVMValue(to_fp8(emission, single, dtype, saturate), dtype)
    return LLVMValue(_to_bfloat16(emission, single), dtype)


def round_to_odd(emission: Emission, x: str) -> str:
    """Convert a float64 to float32 such that rounding the result to a narrower type is correct.

    A value that float32 can't represent becomes the adjacent float32 whose last bit is 1.
    source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd",
    IEEE Transactions on Computers 57(4), 2008.
    """
    w = emission.writer
    nearest = w.value(f"fptrunc double {x} to float")
    back = w.value(f"fpext float {nearest} to double")
    inexact = w.value(f"fcmp one double {back}, {x}")
    size = w.intrinsic("double", "llvm.fabs.f64", ("double", x))
    back_size = w.intrinsic("double", "llvm.fabs.f64", ("double", back))
    beyond = w.value(f"fcmp ogt double {back_size}, {size}")
    bits = to_bits(w, nearest)
    one = w.value(f"zext i1 {beyond} to i32")
    # Decrementing the bit pattern moves one step toward zero; from infinity, to the greatest finite value.
    below = w.value(f"sub i32 {bits}, {one}")
    last = w.value(f"zext i1 {inexact} to i32")
    odd = w.value(f"or i32 {below}, {last}")
    return from_bits(w, odd)


def _to_bfloat16(emission: Emission, x: str) -> str:
    """Return the bits (i16) of a float32 rounded to bfloat16, to nearest even; NaN becomes a quiet NaN."""
    if emission.has(convert.BF16):
        return emission.machine(convert.BF16, x)[0]
    w = emission.writer
    rounded = rounded_off(w, to_bits(w, x), 16)
    isnan = w.value(f"fcmp uno float {x}, 0.0")
    chosen = w.value(f"select i1 {isnan}, i32 32767, i32 {rounded}")
    return w.value(f"trunc i32 {chosen} to i16")
