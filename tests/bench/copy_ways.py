"""Ways to copy by TMA that differ in what is on its way at a time: boxes, stages, stores, CTAs, and who copies what."""

from __future__ import annotations

from collections.abc import Callable

import tilejit as tj
from examples import copy_tma
from tilejit.dataclass import dataclass

COLUMNS = 256


@tj.kernel(threads=32, target="sm_90")
def boxes(A: tj.Tensor, B: tj.Tensor, rows: tj.constexpr, columns: tj.constexpr, room: tj.constexpr) -> None:
    """As `examples/copy_tma.py`, of boxes of any size: a CTA copies one, with shared memory for `room` rows."""
    box = tj.alloc_shared((room, columns), A.dtype)[0:rows]
    landed = tj.alloc_barrier()
    across = tj.cdiv(A.shape[1], columns)
    at = (tj.cta_id(0) // across, tj.cta_id(0) % across)
    tj.warp.copy_async(box, A.tile((rows, columns), at), barrier=landed)
    tj.warp.arrive(landed)
    landed.wait(0)
    tj.warp.copy_async(B.tile((rows, columns), at), box)
    tj.bulk.wait_read(0)


@tj.kernel(threads=32, target="sm_90")
def ring(
    A: tj.Tensor, B: tj.Tensor, rows: tj.constexpr, columns: tj.constexpr, stages: tj.constexpr, stores: tj.constexpr,
    is_range: tj.constexpr,
) -> None:
    """A CTA that goes through many boxes: stages - stores loads are in flight, and `stores` stores.

    is_range: a CTA copies tiles that follow each other, not every num_ctas-th one.
    """
    tiles = tj.alloc_shared((stages, rows, columns), A.dtype)
    full = tj.alloc_barrier(stages=stages)
    across = tj.cdiv(A.shape[1], columns)
    total = tj.cdiv(A.shape[0], rows) * across
    if is_range:
        most, step = tj.cdiv(total, tj.num_ctas(0)), 1
        first = tj.cta_id(0) * most
        count = min(most, total - first)
    else:
        first, step = tj.cta_id(0), tj.num_ctas(0)
        count = tj.cdiv(total - first, step)
    for j in range(count + stages - stores if count > 0 else 0):
        if j < count:
            at = first + j * step
            # the buffer's last tile was stored `stores` tiles ago
            tj.bulk.wait_read(stores - 1)
            to, landed = tiles[j % stages], full[j % stages]
            tj.warp.copy_async(to, A.tile((rows, columns), (at // across, at % across)), barrier=landed)
            tj.warp.arrive(landed)
        n = j - (stages - stores)
        if n >= 0:
            at = first + n * step
            full[n % stages].wait(n // stages)
            tj.warp.copy_async(B.tile((rows, columns), (at // across, at % across)), tiles[n % stages])
    tj.bulk.wait(0)


@dataclass(frozen=True, slots=True)
class CopyWay:
    """ctas: of the grid, by the matrix's shape and the number of multiprocessors."""

    kernel: tj.Kernel
    constants: tuple[int | bool, ...]
    ctas: Callable[[tuple[int, ...], int], int]


def by_boxes(rows: int, room: int) -> CopyWay:
    def ctas(shape: tuple[int, ...], _: int) -> int:
        return tj.cdiv(shape[0], rows) * tj.cdiv(shape[1], COLUMNS)

    return CopyWay(boxes, (rows, COLUMNS, room), ctas)


def by_rings(rows: int, stages: int, stores: int, ctas: int = 1, is_range: bool = False) -> CopyWay:
    """ctas: for each multiprocessor."""
    return CopyWay(ring, (rows, COLUMNS, stages, stores, is_range), lambda _, multiprocessors: ctas * multiprocessors)


#: by name; a row of a box has 256 float32, 1 KB. The comments say what a multiprocessor has on its way, or in use
WAYS = {
    "example": CopyWay(copy_tma.copy, (), lambda shape, _: copy_tma.boxes(*shape)),  # 8 x 4 KB
    "boxes of 2": by_boxes(2, 2),  # 32 x 2 KB: as many CTAs as a multiprocessor takes
    "boxes of 2, sixteen": by_boxes(2, 14),  # 16 x 2 KB
    "boxes of 4": by_boxes(4, 4),  # 32 x 4 KB
    "boxes of 16": by_boxes(16, 56),  # 4 x 16 KB
    "boxes of 64": by_boxes(64, 64),  # 3 x 64 KB
    "ring": by_rings(32, 6, 2),  # 192 KB in use
    "ring, stores": by_rings(32, 7, 4),  # 224 KB
    "ring, small": by_rings(16, 13, 5),  # 208 KB
    "ring, few": by_rings(16, 4, 2),  # 64 KB: does less on its way disturb the memory less?
    "rings, waves": by_rings(16, 4, 2, ctas=24),  # 192 KB, three CTAs at a time: a fast one takes more of them
    "ring, ranges": by_rings(32, 6, 2, is_range=True),
}
