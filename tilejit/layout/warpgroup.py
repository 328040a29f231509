"""`tj.wgmma`: the register layouts of asynchronous warpgroup products.

A product has 64 rows, 16 per warp as in `tj.mma`. Each further 64 rows are another product, in the next registers.
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

#: the rows and warps of a product, and the bytes in a row of its A operand
_ROWS, _WARPS, _DEPTH_BYTES = 64, 4, 32


def layout_c(shape: Sequence[int]) -> TileLayout:
    """Return the layout of the accumulator for `tj.wg.gemm_async`, of shape (64 * i, N).

    Example:
        c = tj.wgmma.layout_c((64, 16))
        assert c.apply(17, 2, shape=(64, 16)) == {"wid_in_wg": 1, "laneid": 5, "m": 0}
    """
    rows, columns = matrix_shape(shape, "the accumulator", "(M, N)")
    _need_multiples("M", rows, _ROWS)
    _need_multiples("N", columns, 8)
    return _layout(rows, (Iter(columns // 8, 4, m), Iter(4, 1, laneid), Iter(2, 1, m)), 2)


def layout_a(shape: Sequence[int], dtype: DType) -> TileLayout:
    """Return the layout of A in registers for `tj.wg.gemm_async`, of shape (64 * i, K). dtype: A's element type.

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
    block = 2 * pack * width[0].extent
    height = (Iter(rows // _ROWS, block, m), Iter(_WARPS, 1, wid_in_wg), Iter(2, pack, m), Iter(8, 4, laneid))
    return TileLayout(tuple(it for it in (*height, *width) if it.extent > 1))


def _need_multiples(name: str, extent: int, tile: int) -> None:
    if extent < 1 or extent % tile:
        raise LayoutError(
            f"{name} is {shown(extent)}; wgmma needs a positive multiple of {tile}",
            hint=f"make {name} a multiple of {tile}",
        )
