"""The table of variants, which implement tile operations."""

from __future__ import annotations

from typing import Any

from ..variant import Variant
from . import (
    atomic_reg,
    copy_async_bulk,
    copy_async_tcgen05_ldst,
    copy_fallback,
    copy_gmem_smem,
    copy_ldstmatrix,
    copy_reg,
    copy_rename,
    copy_shuffle,
    copy_through_shared,
    elementwise,
    gemm_async_wgmma,
    gemm_mma,
    inline_reg,
    reduce,
    sort,
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
    copy_gmem_smem.ASYNC,
    copy_async_tcgen05_ldst.VARIANT,
    copy_async_bulk.BULK,
    copy_async_bulk.TMA_LOAD,
    copy_async_bulk.TMA_STORE,
    elementwise.REGISTERS,
    elementwise.MEMORY,
    gemm_async_wgmma.VARIANT,
    gemm_mma.VARIANT,
    elementwise.INDEX,
    inline_reg.VARIANT,
    reduce.REGISTERS,
    reduce.SHUFFLE,
    reduce.SHARED,
    reduce.VOTE,
    reduce.IN_ORDER,
    reduce.SCAN,
    sort.VARIANT,
)
