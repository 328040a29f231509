"""The asynchronous matrix product."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..dtypes import DType
from ..isa.wgmma import sums_of
from . import axes
from .copies import BARRIER_OPERAND, VARIANT_NAME
from .gemm import product_shape_fault, product_type_fault, reference
from .record import CONDITION, Attribute, AttributeValue, Fault, TileOperand, TileOperation


def _type_fault(dtypes: Mapping[str, DType], attrs: Mapping[str, AttributeValue]) -> Fault | None:
    return product_type_fault(dtypes, attrs, sums_of)


def _reference(acc: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return reference(acc, a, b)


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
    reference=_reference, relation=axes.PRODUCT, shape_fault=product_shape_fault, type_fault=_type_fault,
)
