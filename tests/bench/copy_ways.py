"""Ways to copy by TMA that differ in what is on its way at a time: boxes, stages, stores, CTAs, and who copies what."""

from __future__ import annotations

import tilejit as tj
from tilejit.dataclass import dataclass


@tj.kernel(threads=32, target="sm_90")
def copied(
    A: tj.Tensor, B: tj.Tensor, rows: tj.constexpr, columns: tj.constexpr, stages: tj.constexpr, stores: tj.constexpr,
    is_range: tj.constexpr,
) -> None:
    """As `examples/copy_tma.py`: stages - stores loads are on their way, and so many stores.

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
            # the buffer's last tile was stored so many tiles ago
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
    """rows: of a box of 256 float32. ctas: for each multiprocessor."""

    rows: int
    stages: int
    stores: int
    ctas: int = 1
    is_range: bool = False

    @property
    def constants(self) -> tuple[int, int, int, int, bool]:
        """What `copied` takes besides arrays."""
        return self.rows, 256, self.stages, self.stores, self.is_range


#: by name, with the bytes of shared memory of a multiprocessor that are in use
WAYS = {
    "example": CopyWay(32, 6, 2),  # 192 KB
    "stores": CopyWay(32, 7, 4),  # 224 KB
    "small": CopyWay(16, 13, 5),  # 208 KB
    "two": CopyWay(16, 6, 2, ctas=2),  # 192 KB
    "four": CopyWay(8, 6, 3, ctas=4),  # 192 KB
    "few": CopyWay(16, 4, 2),  # 64 KB: does less on its way disturb the memory less?
    "waves": CopyWay(16, 4, 2, ctas=24),  # 192 KB, three CTAs at a time: who is fast takes more of them
    "ranges": CopyWay(32, 6, 2, is_range=True),
}
