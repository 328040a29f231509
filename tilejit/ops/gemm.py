"""Matrix products, synchronous and asynchronous."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ..dtypes import DType, float32, float64, int32
from ..isa.mma import MMA
from ..isa.wgmma import sums_of
from ..scopes import CTA, WARP, WARPGROUP
from . import axes
from .copies import BARRIER_OPERAND, VARIANT_NAME
from .record import CONDITION, Attribute, Attributes, AttributeValue, DTypes, Fault, Shapes, TileOperand, TileOperation

_OPERANDS = ("acc", "a", "b")
_SHAPE_HINT = "slice or transpose the operands: .T"
_IN_ORDER_HINT = 'tj.matmul(a, b, precision="ieee") takes no tensor cores'
_TYPE_HINT = "change the element type of acc, a or b, or the precision"

#: the precision of products of float32 by three products of tf32
TF32X3 = "tf32x3"
PRECISION = Attribute(
    "precision", str, 'required for float32: "tf32", to which the factors are rounded, or "tf32x3" for three products '
    "of tf32 parts, with an error of at most (2^-20 + K * 2^-22) * |a| @ |b|",
)
_PRECISIONS = (None, "tf32", TF32X3)


def _type_fault(
    sums: Callable[[DType, DType], Sequence[DType]], precisions: Sequence[str | None], dtypes: DTypes, attrs: Attributes
) -> Fault | None:
    """Return why tensor cores can't compute `acc += a @ b` with these types and precision, or None.

    sums: returns the accumulator types for the types of A and B, empty if these can't be multiplied.
    """
    acc, a, b = (dtypes[name] for name in _OPERANDS)
    precision = attrs.get("precision")
    if precision not in precisions:
        listed = " or ".join(f'"{each}"' if each else "None" for each in (*precisions[1:], None))
        return Fault(f"precision is {listed}; got {precision!r}", _IN_ORDER_HINT)
    reason = _reason(acc, a, b, precision, sums(a, b))
    return None if reason is None else Fault(reason, _TYPE_HINT)


def _reason(acc: DType, a: DType, b: DType, precision: AttributeValue, sums: Sequence[DType]) -> str | None:
    if (a, b) == (float32, float32):
        if precision is None:
            return 'float32 operands need precision="tf32": tensor cores round them to 10 bits of fraction'
    elif precision is not None:
        return f"precision={precision!r} is for float32 operands; got {a} and {b}"
    if not sums:
        return f"products of {a} by {b} aren't supported; cast the factors"
    if acc not in sums:
        listed = " or ".join(str(t) for t in dict.fromkeys(sums))
        return f"{a} by {b} accumulates in {listed}; got {acc}"
    return None


def multiplied(a: DType, b: DType) -> list[DType]:
    """Return the accumulator type of each `mma` form for A and B of these types; [] if there is no such form."""
    return [form.acc for form in MMA.forms() if (form.a, form.b) == (a, b)]


def accumulator_type(factors: DType) -> DType:
    """Return the default accumulator type for A and B of type `factors`."""
    return float64 if factors is float64 else float32 if factors.is_float else int32


def _shape_fault(shapes: Shapes, attrs: Attributes) -> Fault | None:
    """Return why the shapes of acc, a and b aren't (M, N), (M, K) and (K, N), or None."""
    wanted = [shapes[name] for name in _OPERANDS]
    matrices = [shape for shape in wanted if shape is not None and len(shape) == 2]
    if len(matrices) != len(wanted):
        listed = ", ".join(map(str, wanted))
        return Fault(f"a product takes matrices (M, N), (M, K), (K, N); got {listed}", _SHAPE_HINT)
    acc, a, b = matrices
    if a[1] != b[0] or acc != (a[0], b[1]):
        return Fault(f"{a} by {b} isn't {acc}: a product takes (M, N), (M, K), (K, N)", _SHAPE_HINT)
    return None


def reference(acc: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return acc + a @ b, summed in float64 or int64 and rounded once; integers wrap.

    The hardware's floating-point results differ, because it rounds partial sums, and float32 operands.
    """
    wide = np.int64 if acc.dtype.kind == "i" else np.float64
    return np.asarray((acc.astype(wide) + a.astype(wide) @ b.astype(wide)).astype(acc.dtype))


GEMM = TileOperation(
    name="gemm",
    operands=(
        TileOperand("acc", "the destination", written=True),
        TileOperand("a", "a of gemm"),
        TileOperand("b", "b of gemm"),
    ),
    attrs=(PRECISION, VARIANT_NAME), meaning="acc += a @ b on tensor cores",
    example=(
        "acc = tj.alloc_local((16, 8), tj.float32, layout=tj.mma.layout_c((16, 8), tj.float32)); tj.warp.fill(acc, 0)\n"
        "tj.warp.gemm(acc, a, b)"
    ),
    reference=reference, relation=axes.PRODUCT, shape_fault=_shape_fault,
    type_fault=partial(_type_fault, multiplied, _PRECISIONS), scopes=(WARP, WARPGROUP, CTA),
)

_ACCUMULATE = TileOperand("accumulate", kinds=(CONDITION,), optional=True)
_SCALES = tuple(
    TileOperand(f"scale_{name}", f"scale_{name} of gemm_async", optional=True) for name in ("a", "b")
)

GEMM_ASYNC = TileOperation(
    name="gemm_async",
    operands=(
        TileOperand("acc", "the destination", written=True, read_where=_ACCUMULATE.name),
        TileOperand("a", "a of gemm_async"),
        TileOperand("b", "b of gemm_async"),
        _ACCUMULATE,
        *_SCALES,
        BARRIER_OPERAND,
    ),
    attrs=(Attribute("precision", str, '"tf32", required for float32, whose 13 low bits are ignored'), VARIANT_NAME),
    meaning="acc = a @ b, plus acc if accumulate; complete only after the kernel has waited for it",
    example=(
        'x = tj.alloc_shared((64, 64), tj.float16, swizzle="128B"); '
        "acc = tj.alloc_local((64, 64), tj.float32, layout=tj.wgmma.layout_c((64, 64)))\n"
        "tj.wg.gemm_async(acc, x, x, accumulate=False); tj.wgmma.wait(0)"
    ),
    reference=reference, relation=axes.PRODUCT, shape_fault=_shape_fault,
    type_fault=partial(_type_fault, sums_of, _PRECISIONS[:2]),
)
