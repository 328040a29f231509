"""Conversions between element types, and packed arithmetic."""

from __future__ import annotations

from functools import partial

from ..dataclass import dataclass
from ..dtypes import DType, bfloat16, float8_e4m3fn, float8_e5m2, float16, float32
from .row import B16, B32, B64, F32, Direction, Family, Row, constant, register

_cvt = partial(Row, source='PTX ISA, "Data Movement and Conversion Instructions: cvt"')

_VALUE = register("value", F32, element=float32)
_TWO = (register("lower", F32, element=float32), register("upper", F32, element=float32))

BF16 = _cvt(
    name="cvt.rn.bf16.f32", text="cvt.rn.bf16.f32 $result, $value;",
    meaning="float32 to bfloat16, to nearest even", since=80, ptx=(7, 0),
    operands=(register("result", B16, Direction.OUT, element=bfloat16), _VALUE),
)

#: needed because tf32's bit layout is implementation-defined (PTX ISA, "Alternate Floating-Point Data Formats")
TF32 = _cvt(
    name="cvt.rna.tf32.f32", text="cvt.rna.tf32.f32 $result, $value;", since=80, ptx=(7, 0),
    meaning="float32 to the 10 fraction bits of tf32, to nearest, ties away from zero",
    operands=(register("result", B32, Direction.OUT, element=float32), _VALUE),
)

#: Two tf32 whose sum differs from a float32 by at most 2^-22 of it. Truncated to 11 significant bits, x + 2^-11 x is
#: within 2^-11 of x, and is x if 11 bits suffice; rounded toward zero, the sum doesn't overflow. The first part is
#: finite, so that an infinity, which is the second part, is not multiplied by the zero that is left of 1.0. ptxas emits
#: 6 instructions for sm_90a, and 11 for `cvt.rna.satfinite`, the difference and its conversion, and the conversion of
#: both by `gemm` (examples/matmul_float32.py). Its `cvt` to tf32, too, gives float32 with 13 zero bits.
SPLIT_TF32 = _cvt(
    name="split.tf32.f32",
    text="{ .reg .f32 t; fma.rz.f32 t, $value, 0f3A000000, $value; and.b32 t, t, 0xFFFFE000; min.f32 t, t, 0f7F7FE000; "
    "max.f32 t, t, 0fFF7FE000; mov.b32 $big, t; sub.f32 t, $value, t; fma.rz.f32 t, t, 0f3A000000, t; "
    "and.b32 $small, t, 0xFFFFE000; }",
    since=75, ptx=(6, 0), meaning="float32 as the sum of two tf32, each to nearest; the first is finite",
    operands=(
        register("big", B32, Direction.OUT, element=float32, is_early=True),
        register("small", B32, Direction.OUT, element=float32), _VALUE,
    ),
)

_FP8 = {float8_e4m3fn: "e4m3x2", float8_e5m2: "e5m2x2"}


def _to_fp8(dtype: DType) -> Row:
    name = f"cvt.rn.satfinite.{_FP8[dtype]}.f32"
    return _cvt(
        name=name, text=f"{name} $result, $upper, $lower;", since=89, ptx=(8, 1),
        meaning=f"two float32 to {dtype}, to nearest even, saturating",
        operands=(register("result", B16, Direction.OUT, element=dtype), *reversed(_TWO)),
    )


def _from_fp8(dtype: DType) -> Row:
    name = f"cvt.rn.f16x2.{_FP8[dtype]}"
    return _cvt(
        name=name, text=f"{name} $result, $pair;", since=89, ptx=(8, 1),
        meaning=f"two {dtype} to two float16, exactly",
        operands=(register("result", B32, Direction.OUT, element=float16), register("pair", B16, element=dtype)),
    )


TO_FP8 = Family.of("cvt to fp8", tuple(_FP8), _to_fp8)
FROM_FP8 = Family.of("cvt from fp8", tuple(_FP8), _from_fp8)

_HALVES = {float16: "f16x2", bfloat16: "bf16x2"}


def _narrow_pair(dtype: DType) -> Row:
    name = f"cvt.rn.{_HALVES[dtype]}.f32"
    return _cvt(
        name=name, text=f"{name} $result, $upper, $lower;", since=80, ptx=(7, 0),
        meaning=f"two float32 to {dtype}, to nearest even",
        operands=(register("result", B32, Direction.OUT, element=dtype), *_TWO),
    )


#: conversions of two float32 values to a pair in one register, keyed by the resulting type
NARROW_PAIR = Family.of("cvt to pairs", tuple(_HALVES), _narrow_pair)


@dataclass(frozen=True, slots=True)
class Pair:
    """A packed operation on two adjacent elements, equivalent to two scalar operations."""

    operation: str
    dtype: DType


_INPUTS = {"add": ("a", "b"), "sub": ("a", "b"), "mul": ("a", "b"), "fma": ("a", "b", "c")}
_EXTREMES = {"maximum": "max", "minimum": "min"}


def _pair(pair: Pair) -> Row:
    if pair.dtype == float32:
        name, inputs, word = f"{pair.operation}.rn.f32x2", _INPUTS[pair.operation], B64
        since, ptx = 100, (8, 6)
        meaning = f"{pair.operation} of two float32 at once, each to nearest even"
        source = 'PTX ISA, "Floating Point Instructions: add, sub, mul, fma": `.f32x2`'
    else:
        opcode = _EXTREMES[pair.operation]
        name, inputs, word = f"{opcode}.NaN.{_HALVES[pair.dtype]}", ("a", "b"), B32
        since, ptx = 80, (7, 0)
        meaning = f"{pair.operation} of two {pair.dtype} at once; NaN if either is NaN"
        source = f'PTX ISA, "Half Precision Floating Point Instructions: {opcode}"'
    return Row(
        name=name,
        text=f"{name} $result, {', '.join(f'${name}' for name in inputs)};",
        meaning=meaning,
        operands=(
            register("result", word, Direction.OUT, element=pair.dtype),
            *(register(name, word, element=pair.dtype) for name in inputs),
        ),
        since=since, ptx=ptx, source=source,
    )


PAIRS = Family.of(
    "arithmetic on pairs",
    (
        *(Pair(operation, float32) for operation in _INPUTS),
        *(Pair(operation, dtype) for operation in _EXTREMES for dtype in _HALVES),
    ),
    _pair,
)

#: type -> a · b + c of two floats in a word
MULTIPLY_ADD = {
    dtype: Row(
        name=f"fma.rn.{pair}",
        text=f"fma.rn.{pair} $result, $a, $b, $c;",
        meaning=f"a * b + c of two {dtype} at once, each to nearest even",
        operands=(register("result", B32, Direction.OUT), *(register(name, B32) for name in ("a", "b", "c"))),
        since=75 if dtype is float16 else 80, ptx=(6, 3) if dtype is float16 else (7, 0),
        source='PTX ISA, "Half Precision Floating Point Instructions: fma"',
    )
    for dtype, pair in _HALVES.items()
}

PERMUTE = Row(
    name="prmt.b32",
    text="prmt.b32 $result, $low, $high, $selector;",
    meaning="the bytes of $low and $high that the four digits of $selector number",
    operands=(
        register("result", B32, Direction.OUT), register("low", B32), register("high", B32),
        register("selector", B32, is_immediate=True),
    ),
    since=75, ptx=(6, 0), source='PTX ISA, "Data Movement and Conversion Instructions: prmt"',
)

LOGIC = Row(
    name="lop3.b32",
    text="lop3.b32 $result, $a, $b, $c, $table;",
    meaning="each bit is that of $table which the bits of $a (4), $b (2) and $c (1) number",
    operands=(
        register("result", B32, Direction.OUT), *(register(name, B32) for name in ("a", "b", "c")),
        constant("table", range(256)),
    ),
    since=75, ptx=(6, 0), source='PTX ISA, "Logic and Shift Instructions: lop3"',
)

ROWS = (BF16, *TO_FP8.rows(), *FROM_FP8.rows(), *NARROW_PAIR.rows(), *PAIRS.rows(), TF32, SPLIT_TF32,
        *MULTIPLY_ADD.values(), PERMUTE, LOGIC)
