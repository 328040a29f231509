"""The matrix product: the forms of `mma.sync` that there are, and what they say of types."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import (
    DType,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    int8,
    int32,
    uint8,
)

__all__ = ["MMA", "Mma", "forms", "reference", "shape_fault", "type_fault"]

#: rows of A, columns of B and bits of a register in every form
MMA_M, MMA_N, WORD_BITS = 16, 8, 32

#: how PTX calls a factor's type; a float32 factor is rounded to tf32
_PTX = {
    float16: "f16", bfloat16: "bf16", float32: "tf32", int8: "s8", uint8: "u8", float8_e4m3fn: "e4m3",
    float8_e5m2: "e5m2",
}  # fmt: skip

_PTX_SUMS = {float16: "f16", float32: "f32", int32: "s32"}


@dataclass(frozen=True, slots=True)
class Mma:
    """One form of the instruction: D (16 x 8) = A (16 x k) @ B (k x 8) + C, by the lanes of a warp.

    a, b: element types of the factors. acc: of C and D. since, ptx: the oldest target, 80 for sm_80, and PTX version.
    source: PTX ISA, "Multiply-and-Accumulate Instruction: mma", target and version notes; each pair tried with ptxas.
    """

    k: int
    a: DType
    b: DType
    acc: DType
    since: int
    ptx: tuple[int, int]

    @property
    def name(self) -> str:
        """The mnemonic, by which the table of instructions knows it."""
        acc = _PTX_SUMS[self.acc]
        return f"mma.sync.aligned.m16n8k{self.k}.row.col.{acc}.{_PTX[self.a]}.{_PTX[self.b]}.{acc}"

    @property
    def pack(self) -> int:
        """Elements of a factor in a 32-bit register, neighbours along k."""
        return WORD_BITS // self.a.bits

    @property
    def halves(self) -> int:
        """Registers of a lane along k: each register of 4 lanes together holds 4 * pack of it."""
        return self.k // (4 * self.pack)

    @property
    def acc_pack(self) -> int:
        """Elements of the accumulator in a 32-bit register, neighbours along n."""
        return WORD_BITS // self.acc.bits


_HALF = ((16, 80, (7, 0)), (8, 75, (6, 5)))
_BYTES = ((int8, int8), (int8, uint8), (uint8, int8), (uint8, uint8))
_FP8 = tuple((a, b) for a in (float8_e4m3fn, float8_e5m2) for b in (float8_e4m3fn, float8_e5m2))

#: every form, for each pair of types the one with the most k first
MMA: tuple[Mma, ...] = (
    *(Mma(k, float16, float16, acc, since, ptx) for acc in (float32, float16) for k, since, ptx in _HALF),
    *(Mma(k, bfloat16, bfloat16, float32, 80, (7, 0)) for k in (16, 8)),
    Mma(8, float32, float32, float32, 80, (7, 0)),
    *(Mma(32, a, b, int32, 80, (7, 0)) for a, b in _BYTES),
    *(Mma(32, a, b, float32, 89, (8, 4)) for a, b in _FP8),
    *(Mma(32, a, b, float16, 89, (8, 7)) for a, b in _FP8),
)


def forms(a: DType, b: DType, acc: DType) -> tuple[Mma, ...]:
    """The forms of the instruction for these types, the one with the most k first."""
    return tuple(f for f in MMA if (f.a, f.b, f.acc) == (a, b, acc))


def type_fault(acc: DType, a: DType, b: DType, precision: object) -> str | None:
    """Why `acc += a @ b` isn't a product that tensor cores compute, or None."""
    if precision not in (None, "tf32"):
        return f'precision is "tf32" or None; got {precision!r}'
    if (a, b) == (float32, float32):
        if precision is None:
            return 'float32 operands need precision="tf32": tensor cores round them to 10 bits of fraction'
    elif precision is not None:
        return f"precision={precision!r} is for float32 operands; got {a} and {b}"
    sums = [f.acc for f in MMA if (f.a, f.b) == (a, b)]
    if not sums:
        return f"no tensor core multiplies {a} by {b}; cast one of them"
    if acc not in sums:
        listed = " or ".join(str(t) for t in dict.fromkeys(sums))
        return f"{a} by {b} accumulates in {listed}; got {acc}"
    return None


def shape_fault(acc: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...]) -> str | None:
    """Why the shapes aren't (M, N), (M, K) and (K, N), or None."""
    if any(len(shape) != 2 for shape in (acc, a, b)):
        return f"gemm takes matrices (M, N), (M, K), (K, N); got {acc}, {a}, {b}"
    if a[1] != b[0] or acc != (a[0], b[1]):
        return f"{a} by {b} isn't {acc}: gemm takes (M, N), (M, K), (K, N)"
    return None


def reference(acc: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """acc + a @ b, summed in float64 or int64 and rounded once; integers wrap.

    The hardware's own sums differ from it by the rounding of partial sums.
    """
    wide = np.int64 if acc.dtype.kind == "i" else np.float64
    return np.asarray((acc.astype(wide) + a.astype(wide) @ b.astype(wide)).astype(acc.dtype))
