"""Tile IR to lane IR: every tile operation goes to the variant that the rule engine chooses for it."""

from __future__ import annotations

from typing import Any

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
from .engine import Condition, Context, Decline, Variant, Verdict
from .lowering import Lowered
from .lowering import lower as _lower
from .plan import Facts, Moves, Plan, Products

__all__ = [
    "Condition", "Context", "Decline", "Facts", "Lowered", "Moves", "Plan", "Products", "VARIANTS", "Variant",
    "Verdict", "lower",
]  # fmt: skip

#: every way in which tilejit carries out a tile operation
VARIANTS: tuple[Variant[Any], ...] = (
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
