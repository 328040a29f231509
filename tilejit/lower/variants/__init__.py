"""All variants of tile operations."""

from __future__ import annotations

from typing import Any

from ..variant import Variant
from . import (
    atomic_reg,
    copy_async_bulk,
    copy_async_ldgsts,
    copy_async_tcgen05_ldst,
    copy_async_tma_load,
    copy_async_tma_store,
    copy_fallback,
    copy_gmem_smem,
    copy_ldstmatrix,
    copy_reg,
    copy_rename,
    copy_shuffle,
    copy_through_shared,
    elementwise_reg,
    elementwise_smem,
    gemm_async_wgmma,
    gemm_mma,
    indices_reg,
    reduce_in_order,
    reduce_registers,
    reduce_shared,
    reduce_shuffle,
    reduce_vote,
)

__all__ = ["VARIANTS"]

VARIANTS: tuple[Variant[Any], ...] = (
    atomic_reg.VARIANT,
    copy_ldstmatrix.VARIANT,
    copy_gmem_smem.VARIANT,
    copy_reg.VARIANT,
    copy_rename.VARIANT,
    copy_shuffle.VARIANT,
    copy_through_shared.VARIANT,
    copy_fallback.VARIANT,
    copy_async_ldgsts.VARIANT,
    copy_async_tcgen05_ldst.VARIANT,
    copy_async_bulk.VARIANT,
    copy_async_tma_load.VARIANT,
    copy_async_tma_store.VARIANT,
    elementwise_reg.VARIANT,
    elementwise_smem.VARIANT,
    gemm_async_wgmma.VARIANT,
    gemm_mma.VARIANT,
    indices_reg.VARIANT,
    reduce_registers.VARIANT,
    reduce_shuffle.VARIANT,
    reduce_shared.VARIANT,
    reduce_vote.VARIANT,
    reduce_in_order.VARIANT,
)
