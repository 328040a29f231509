"""A copy by TMA: each CTA loads one box of a matrix into shared memory and stores it from there.

One warp starts both transfers, and no element goes through a register. When the store has read the buffer, the CTA
exits and the next one starts, so the transfers of many CTAs overlap without a loop or a ring of buffers.

Needs sm_90. Run on the simulator, or on a GPU: `python -m examples.copy_tma`.
"""

import numpy as np

import tilejit as tj

ROWS, COLUMNS = 4, 256

#: rows of shared memory that a CTA allocates, more than it uses, so that at most eight CTAs run on a multiprocessor
#: at a time. Their boxes of float32 are 32 KB, enough to keep the memory busy; four times as much took 3 % longer
ROOM = 28


@tj.kernel(threads=32, target="sm_90")
def copy(A: tj.Tensor, B: tj.Tensor) -> None:
    box = tj.alloc_shared((ROOM, COLUMNS), A.dtype)[0:ROWS]
    landed = tj.alloc_barrier()
    across = tj.cdiv(A.shape[1], COLUMNS)
    at = (tj.cta_id(0) // across, tj.cta_id(0) % across)
    tj.warp.copy_async(box, A.tile((ROWS, COLUMNS), at), barrier=landed)
    tj.warp.arrive(landed)
    landed.wait(0)
    tj.warp.copy_async(B.tile((ROWS, COLUMNS), at), box)
    # the buffer must last until the store has read it
    tj.bulk.wait_read(0)


def boxes(rows: int, columns: int) -> int:
    """Return the number of CTAs for a matrix."""
    return tj.cdiv(rows, ROWS) * tj.cdiv(columns, COLUMNS)


def main() -> None:
    source = np.random.default_rng(0).standard_normal((50, 1000)).astype(np.float32)
    result = np.zeros_like(source)
    copy[boxes(*source.shape)](source, result)
    assert (result == source).all()
    print("the copy is equal")


if __name__ == "__main__":
    main()
