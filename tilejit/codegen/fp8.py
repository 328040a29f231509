"""Conversions to and from fp8: by `cvt` from sm_89 on (to fp8 only with saturation), otherwise in software.

e4m3fn: sign, 4 exponent bits with bias 7, 3 mantissa bits; no infinity; NaN is 0x7f or 0xff; greatest value 448.
e5m2: sign, 5 exponent bits with bias 15, 2 mantissa bits, like a float16's upper byte; greatest finite value 57344.
source: PTX ISA, "Data Types: Alternate Floating-Point Data Formats"; OCP 8-bit Floating Point Specification, 1.0.
"""

from __future__ import annotations

from ..dataclass import dataclass
from ..dtypes import DType
from ..isa.convert import FROM_FP8, TO_FP8
from .emission import Emission
from .patterns import field, from_bits, rounded_off, to_bits


@dataclass(frozen=True, slots=True)
class _FP8Format:
    #: the number of mantissa bits
    mantissa: int
    bias: int
    #: the bit pattern of the greatest finite value
    greatest: int
    #: the bit pattern that an overflow gives without saturation: NaN or infinity
    overflow: int
    nan: int


_FORMATS = {
    "float8_e4m3fn": _FP8Format(3, 7, 0x7E, 0x7F, 0x7F),
    "float8_e5m2": _FP8Format(2, 15, 0x7B, 0x7C, 0x7F),
}


def from_fp8(emission: Emission, x: str, dtype: DType) -> str:
    """Return the float32 value of an fp8 pattern (i8)."""
    form = _FORMATS[dtype.name]
    w = emission.writer
    convert = FROM_FP8.row(dtype)
    if emission.has(convert):
        wide = w.value(f"zext i8 {x} to i16")
        (pair,) = emission.machine(convert, wide)
        low = w.value(f"trunc i32 {pair} to i16")
        half = w.value(f"bitcast i16 {low} to half")
        return w.value(f"fpext half {half} to float")
    bits = w.value(f"zext i8 {x} to i32")
    size = w.value(f"and i32 {bits}, 127")
    placed = w.value(f"shl i32 {size}, {23 - form.mantissa}")
    tiny = from_bits(w, placed)
    # This multiplication corrects the exponent bias; it is exact for subnormal numbers as well.
    number = w.value(f"fmul float {tiny}, 0x{1023 + 127 - form.bias << 52:016X}")
    special = form.greatest + 1
    infinite = "0x7FF0000000000000" if form.overflow != form.nan else "0x7FF8000000000000"
    is_special = w.value(f"icmp uge i32 {size}, {special}")
    is_infinite = w.value(f"icmp eq i32 {size}, {special}")
    beyond = w.value(f"select i1 {is_infinite}, float {infinite}, float 0x7FF8000000000000")
    value = w.value(f"select i1 {is_special}, float {beyond}, float {number}")
    sign = w.value(f"shl i32 {bits}, 24")
    sign_bit = w.value(f"and i32 {sign}, -2147483648")
    return from_bits(w, w.value(f"or i32 {to_bits(w, value)}, {sign_bit}"))


def to_fp8(emission: Emission, x: str, dtype: DType, saturate: bool) -> str:
    """Return the fp8 pattern (i8) of a float32, rounded to nearest even.

    saturate: overflow becomes the greatest finite value, as in cvt.satfinite; else NaN (e4m3fn) or infinity (e5m2).
    """
    form = _FORMATS[dtype.name]
    convert = TO_FP8.row(dtype)
    w = emission.writer
    if saturate and emission.has(convert):
        # The first source becomes the upper half.
        (pair,) = emission.machine(convert, "0.0", x)
        return w.value(f"trunc i16 {pair} to i8")
    bits = to_bits(w, x)
    size = w.value(f"and i32 {bits}, 2147483647")
    magnitude = _rounded(emission, form, size)
    limit = form.greatest if saturate else form.overflow
    too_large = w.value(f"icmp ugt i32 {magnitude}, {form.greatest}")
    limited = w.value(f"select i1 {too_large}, i32 {limit}, i32 {magnitude}")
    is_nan = w.value(f"icmp ugt i32 {size}, 2139095040")
    value = w.value(f"select i1 {is_nan}, i32 {form.nan}, i32 {limited}")
    return _with_sign(emission, bits, value, is_nan if saturate else None)


def _with_sign(emission: Emission, bits: str, value: str, is_nan: str | None) -> str:
    """Return the magnitude `value` as an i8, with the sign of the float32 `bits` unless `is_nan` is given and true."""
    w = emission.writer
    sign_bit = field(w, bits, 24, 128)
    if is_nan is not None:
        sign_bit = w.value(f"select i1 {is_nan}, i32 0, i32 {sign_bit}")
    signed = w.value(f"or i32 {value}, {sign_bit}")
    return w.value(f"trunc i32 {signed} to i8")


def _rounded(emission: Emission, form: _FP8Format, size: str) -> str:
    """Return the float32 magnitude `size` (bits) rounded to fp8 (an i32), as if the exponent had no upper bound."""
    w = emission.writer
    # Normal numbers: round to nearest even at the last bit kept, then adjust the exponent bias.
    kept = rounded_off(w, size, 23 - form.mantissa)
    normal = w.value(f"sub i32 {kept}, {(127 - form.bias) << form.mantissa}")
    # Subnormal numbers: adding a power of two in float32 rounds, since the sum's last bit is worth fp8's smallest step.
    step = 1 - form.bias - form.mantissa
    magic = 127 + step + 23 << 23
    number = from_bits(w, size)
    summed = w.value(f"fadd float {number}, 0x{1023 + step + 23 << 52:016X}")
    subnormal = w.value(f"sub i32 {to_bits(w, summed)}, {magic}")
    is_normal = w.value(f"icmp uge i32 {size}, {127 + 1 - form.bias << 23}")
    return w.value(f"select i1 {is_normal}, i32 {normal}, i32 {subnormal}")
