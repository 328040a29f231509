"""A copy by TMA: one warp a multiprocessor starts loads and stores of boxes, and no element goes through a register.

Each CTA goes through its tiles with a ring of buffers. A tile's store starts when its load has landed; a buffer is
loaded anew when the store that reads it has done so, which is waited for two tiles later.

Needs sm_90. Run on the simulator, or on a GPU: `python -m examples.copy_tma`.
"""

import numpy as np

import tilejit as tj

ROWS, COLUMNS, STAGES = 32, 256, 6

#: so many loads go on while a tile is stored; two buffers are being read by stores
LEAD = STAGES - 2


@tj.kernel(threads=32, target="sm_90")
def copy(A: tj.Tensor, B: tj.Tensor) -> None:
    tiles = tj.alloc_shared((STAGES, ROWS, COLUMNS), A.dtype)
    full = tj.alloc_barrier(stages=STAGES)
    across = tj.cdiv(A.shape[1], COLUMNS)
    first, step = tj.cta_id(0), tj.num_ctas(0)
    count = tj.cdiv(tj.cdiv(A.shape[0], ROWS) * across - first, step)
    # load j and store j - LEAD go on at the same time
    for j in range(count + LEAD):
        if j < count:
            at = first + j * step
            stage = j % STAGES
            # the buffer's last tile was stored two tiles ago
            tj.bulk.wait_read(1)
            tj.warp.copy_async(tiles[stage], A.tile((ROWS, COLUMNS), (at // across, at % across)), barrier=full[stage])
            tj.warp.arrive(full[stage])
        n = j - LEAD
        if n >= 0:
            at = first + n * step
            full[n % STAGES].wait(n // STAGES)
            tj.warp.copy_async(B.tile((ROWS, COLUMNS), (at // across, at % across)), tiles[n % STAGES])
    tj.bulk.wait(0)


def main() -> None:
    source = np.random.default_rng(0).standard_normal((200, 1000)).astype(np.float32)
    result = np.zeros_like(source)
    copy[5](source, result)
    assert (result == source).all()
    print("the copy is equal")


if __name__ == "__main__":
    main()
