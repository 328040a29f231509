"""mma.sync: products of a 16 x k (or 8 x k) tile and a k x 8 tile in a warp's registers."""

from __future__ import annotations

from ..dataclass import dataclass
from ..dtypes import DType, bfloat16, float8_e4m3fn, float8_e5m2, float16, float32, float64, int8, int32, uint8
from ..scopes import WARP
from .row import B32, F32, F64, Direction, Family, Row, register

#: rows of A and columns of B in a tile, and bits of a register, which float64 has one element in two of
MMA_M, MMA_N, WORD_BITS = 16, 8, 32

#: element type of A or B -> its PTX name; mma needs float32 rounded to tf32, wgmma ignores its low 13 bits
PTX = {
    float16: "f16", bfloat16: "bf16", float32: "tf32", int8: "s8", uint8: "u8", float8_e4m3fn: "e4m3",
    float8_e5m2: "e5m2", float64: "f64",
}

PTX_SUMS = {float16: "f16", float32: "f32", int32: "s32", float64: "f64"}


@dataclass(frozen=True, slots=True)
class Mma:
    """One form of the instruction: D (m x 8) += A (m x k) @ B (k x 8). acc: the type of D. m: 16, or 8."""

    k: int
    a: DType
    b: DType
    acc: DType
    m: int = MMA_M

    @property
    def name(self) -> str:
        acc = PTX_SUMS[self.acc]
        return f"mma.sync.aligned.m{self.m}n8k{self.k}.row.col.{acc}.{PTX[self.a]}.{PTX[self.b]}.{acc}"

    @property
    def pack(self) -> int:
        """The number of elements of A or B in a register, which are adjacent along k."""
        return elements_per_register(self.a)

    @property
    def halves(self) -> int:
        """The number of registers per lane along k; one in each of 4 lanes covers 4 * pack elements."""
        return self.k // (4 * self.pack)

    @property
    def acc_pack(self) -> int:
        """The number of elements of the accumulator in a register, which are adjacent along n."""
        return elements_per_register(self.acc)


def elements_per_register(dtype: DType) -> int:
    """Return the number of elements in a 32-bit register, or 1 for float64, in a 64-bit register."""
    return max(1, WORD_BITS // dtype.bits)


_BYTES = ((int8, int8), (int8, uint8), (uint8, int8), (uint8, uint8))
_FP8 = tuple((a, b) for a in (float8_e4m3fn, float8_e5m2) for b in (float8_e4m3fn, float8_e5m2))

#: form -> oldest target and PTX version; among forms with the same types, the one with the largest k comes first
#: source: PTX ISA, "Multiply-and-Accumulate Instruction: mma", target and version notes
_FORMS: dict[Mma, tuple[int, tuple[int, int]]] = {
    **{
        Mma(k, float16, float16, acc): versions
        for acc in (float32, float16)
        for k, versions in ((16, (80, (7, 0))), (8, (75, (6, 5))))
    },
    **{Mma(k, bfloat16, bfloat16, float32): (80, (7, 0)) for k in (16, 8)},
    Mma(8, float32, float32, float32): (80, (7, 0)),
    **{Mma(32, a, b, int32): (80, (7, 0)) for a, b in _BYTES},
    **{Mma(32, a, b, float32): (89, (8, 4)) for a, b in _FP8},
    **{Mma(32, a, b, float16): (89, (8, 7)) for a, b in _FP8},
    **{Mma(k, float64, float64, float64): (90, (7, 8)) for k in (8, 4)},
    Mma(4, float64, float64, float64, m=8): (80, (7, 0)),
}

#: type of the accumulator -> its registers, if not of 32 bits without a type
_REGISTERS = {float32: F32, float64: F64}


def _mma(form: Mma) -> Row:
    since, ptx = _FORMS[form]
    sums, factors = _REGISTERS.get(form.acc, B32), F64 if form.a == float64 else B32
    rows = form.m // 8
    return Row(
        name=form.name,
        text=f"{form.name} {{$d}}, {{$a}}, {{$b}}, {{$d}};",
        meaning=f"a {form.m}x8 tile: {form.a} {form.m}x{form.k} times {form.b} {form.k}x8, added to {form.acc}",
        operands=(
            register("d", sums, Direction.INOUT, 2 * rows // form.acc_pack, form.acc),
            register("a", factors, Direction.IN, rows * form.halves, form.a),
            register("b", factors, Direction.IN, form.halves, form.b),
        ),
        since=since, ptx=ptx, scope=WARP, convergent=True, accumulates=True,
        source='PTX ISA, "Multiply-and-Accumulate Instruction: mma"',
    )


MMA = Family.of("mma", tuple(_FORMS), _mma)


def products(a: DType, b: DType, acc: DType) -> Family[Mma]:
    """Return the forms with operands of types `a` and `b` and an accumulator of type `acc`, the largest k first."""
    return MMA.among(f"mma of {a} by {b} into {acc}", lambda form: (form.a, form.b, form.acc) == (a, b, acc))


ROWS = MMA.rows()
