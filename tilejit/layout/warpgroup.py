"""`tj.wgmma`: the register layouts of asynchronous warpgroup products.

A product has 64 rows, 16 per warp as in `tj.mma`. Each further 64 rows are another product, in the next registers.
source: PTX ISA, "Matrix Fragments for wgmma.mma_async.m64nNk16" and those for other k.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtypes import DType, float32
from . import fragments
from .axes import m
from .fragments import matrix_shape, need_multiple, registers_of
from .iters import Iter
from .tile_layout import TileLayout

#: the rows of a product, its warps along M and along N, and the bytes in a row of its A operand
_ROWS, _WARPS, _DEPTH_BYTES = 64, (4, 1), 32


def layout_c(shape: Sequence[int]) -> TileLayout:
    """Return the layout of the accumulator for `tj.wg.gemm_async`, of shape (64 * i, 8 * j).

    Example:
        c = tj.wgmma.layout_c((64, 16))
        assert c.apply(17, 2, shape=(64, 16)) == {"wid_in_wg": 1, "laneid": 5, "m": 0}
    """
    rows, columns = matrix_shape(shape, "the accumulator", "(M, N)")
    need_multiple("M", rows, _ROWS, by="wgmma")
    need_multiple("N", columns, 8, by="wgmma")
    return _stacked(fragments.layout_c((_ROWS, columns), float32, _WARPS, "warpgroup"), rows)


def layout_a(shape: Sequence[int], dtype: DType) -> TileLayout:
    """Return the layout of A in registers for `tj.wg.gemm_async`, of shape (64 * i, K). dtype: A's element type.

    Example:
        a = tj.wgmma.layout_a((64, 16), tj.float16)
        assert a.apply(17, 2, shape=(64, 16)) == {"wid_in_wg": 1, "laneid": 5, "m": 0}
    """
    rows, depth = matrix_shape(shape, "A", "(M, K)")
    need_multiple("M", rows, _ROWS, by="wgmma")
    pack, _ = registers_of(depth, dtype)
    need_multiple("K", depth, _DEPTH_BYTES // 4 * pack, by="wgmma")
    return _stacked(fragments.layout_a((_ROWS, depth), dtype, _WARPS, "warpgroup"), rows)


def _stacked(one: TileLayout, rows: int) -> TileLayout:
    """Return the layout of `rows` rows: each 64 have the layout `one`, in registers after those of the previous 64."""
    return one if rows == _ROWS else TileLayout((Iter(rows // _ROWS, one.span(), m), *one.shard))
