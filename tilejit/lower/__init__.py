"""Tile IR to lane IR: every tile operation goes to the variant that the rule engine chooses for it."""

from __future__ import annotations

from ..ir.nodes import Kernel
from ..target import Target
from . import (
    copy_async_ldgsts,
    copy_async_tcgen05_ldst,
    copy_fallback,
    copy_gmem_smem,
    copy_ldstmatrix,
    copy_reg,
    elementwise_reg,
    elementwise_smem,
    gemm_mma,
)
from .engine import Condition, Context, Decline, Plan, Variant, Verdict
from .lowering import Lowered
from .lowering import lower as _lower

__all__ = ["Condition", "Context", "Decline", "Lowered", "Plan", "VARIANTS", "Variant", "Verdict", "lower"]

#: every way in which tilejit carries out a tile operation
VARIANTS: tuple[Variant, ...] = (
    copy_ldstmatrix.VARIANT,
    copy_gmem_smem.VARIANT,
    copy_reg.VARIANT,
    copy_fallback.VARIANT,
    copy_async_ldgsts.VARIANT,
    copy_async_tcgen05_ldst.VARIANT,
    elementwise_reg.VARIANT,
    elementwise_smem.VARIANT,
    gemm_mma.VARIANT,
)


def lower(kernel: Kernel, target: Target) -> Lowered:
    """The kernel at lane level, and what was chosen for each tile operation.

    raises: DispatchError where no variant accepts an operation.
    """
    return _lower(kernel, target, VARIANTS)
