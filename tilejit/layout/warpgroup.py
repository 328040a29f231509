"""`tj.wgmma`: which thread and register of a warpgroup holds each element of what it multiplies asynchronously.

Rows 0 to 63 are a product's, 16 of each warp as in `tj.mma`; 64 more are the next product's, in registers behind these.
source: PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16".
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtypes import DType
from ..errors import LayoutError
from ..wording import shown
from .axes import laneid, m, wid_in_wg
from .fragments import matrix_shape, registers_of
from .iters import Iter
from .tile_layout import TileLayout

__all__ = ["layout_a", "layout_c"]

#: rows of a product, of which each warp has 16, and the bytes of A's rows
_ROWS, _WARPS, _DEPTH_BYTES = 64, 4, 32


def layout_c(shape: Sequence[int]) -> TileLayout:
    """The layout of the accumulator for `tj.wg.gemm_async`, of shape (64 * i, N).

    Example:
        c = tj.wgmma.layout_c((64, 16))
        assert c.apply(17, 2, shape=(64, 16)) == {"wid_in_wg": 1, "laneid": 5, "m": 0}
    """
    rows, columns = matrix_shape(shape, "the accumulator", "(M, N)")
    _need_multiples("M", rows, _ROWS)
    _need_multiples("N", columns, 8)
    return _layout(rows, (Iter(columns // 8, 4, m), Iter(4, 1, laneid), Iter(2, 1, m)), 2)


def layout_a(shape: Sequence[int], dtype: DType) -> TileLayout:
    """The layout of A in registers for `tj.wg.gemm_async`, of shape (64 * i, K). dtype: of A's elements.

    Example:
        a = tj.wgmma.layout_a((64, 16), tj.float16)
        assert a.apply(17, 2, shape=(64, 16)) == {"wid_in_wg": 1, "laneid": 5, "m": 0}
    """
    rows, depth = matrix_shape(shape, "A", "(M, K)")
    _need_multiples("M", rows, _ROWS)
    pack, words = registers_of(depth, dtype)
    _need_multiples("K", depth, _DEPTH_BYTES // 4 * pack)
    return _layout(rows, (Iter(words, 2 * pack, m), Iter(4, 1, laneid), Iter(pack, 1, m)), pack)


def _layout(rows: int, width: tuple[Iter, ...], pack: int) -> TileLayout:
    """pack: elements of a row that follow each other in registers."""
    block = 2 * pack * width[0].extent
    height = (Iter(rows // _ROWS, block, m), Iter(_WARPS, 1, wid_in_wg), Iter(2, pack, m), Iter(8, 4, laneid))
    return TileLayout(tuple(it for it in (*height, *width) if it.extent > 1))


def _need_multiples(name: str, extent: int, tile: int) -> None:
    if extent < 1 or extent % tile:
        raise LayoutError(
            f"{name} is {shown(extent)}; wgmma needs a multiple of {tile}", hint=f"make {name} a multiple of {tile}"
        )
