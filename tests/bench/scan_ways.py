"""The scan of `examples/scan.py` with resident CTAs, each of which loads its next block while it works on one."""

from __future__ import annotations

import tilejit as tj
from examples.scan import BLOCK, GROUPS, LANES, SUM, THREADS, VECTOR, look_back, word
from tilejit import S, laneid, warpid


@tj.kernel(threads=THREADS, cooperative=True)
def resident_sum(
    X: tj.Tensor, Y: tj.Tensor, state: tj.Tensor, BLOCK: tj.constexpr = BLOCK, GROUPS: tj.constexpr = GROUPS
) -> None:
    """state: a word of uint64 for each block, all 0."""
    warps = tj.num_threads() // LANES
    preceding = tj.alloc_shared((1,), tj.float32)
    loaded = tj.alloc_shared((BLOCK,), tj.float32)
    rows = S[(warps, BLOCK // (warps * LANES * VECTOR), LANES, VECTOR) : (1 @ warpid, VECTOR, 1 @ laneid, 1)]
    tj.cta.copy_async(loaded, X.tile(BLOCK, tj.cta_id(0)))
    tj.cp_async.commit()
    for block in range(tj.cta_id(0), tj.cdiv(X.shape[0], BLOCK), tj.num_ctas(0)):
        tj.cp_async.wait(0)
        tj.cta_sync()
        x = tj.cta.load(loaded, layout=rows)
        tj.cta_sync()
        tj.cta.copy_async(loaded, X.tile(BLOCK, block + tj.num_ctas(0)))
        tj.cp_async.commit()
        total = tj.sum(x)
        if tj.thread_id() == 0:
            tj.atomic.exch(state[block], word(SUM, total))
        y = tj.cumsum(x, 0)
        if tj.warp_id() == 0:
            before = look_back(state, block, GROUPS)
            if tj.lane_id() == 0:
                preceding[0] = before
        tj.cta_sync()
        tj.cta.store(Y.tile(BLOCK, block), y + preceding[0])
    tj.cp_async.wait(0)
