"""How often each byte occurs: atomics in shared memory, and a thread's own tiles.

Each CTA has its own 256 counters in shared memory, which is fast and causes no contention with other CTAs, and adds
them to the result at the end. `tj.atomic.add(place, 1)` adds in memory, indivisibly; as its result isn't used, it is a
reduction (`red`). For the literal 1 in shared memory the hardware combines the additions of a warp's lanes to one
counter.

A tile operation on `tj.thread` is performed by each thread separately: `tj.thread.load` loads 16 bytes into registers
by one access, and `x[k]` is one of them.

Run it: `python examples/histogram.py`.
"""

import numpy as np

import tilejit as tj

THREADS = 512
BYTES = 16  # of a thread at a time
BINS = 256


@tj.kernel(threads=THREADS)
def histogram(X: tj.Tensor, counts: tj.Tensor) -> None:
    """X: uint8. counts: BINS of int32, updated in place."""
    bins = tj.alloc_shared((BINS,), tj.int32)
    tj.cta.fill(bins, 0)
    tj.cta_sync()
    first = tj.cta_id(0) * THREADS + tj.thread_id()
    for vector in range(first, tj.cdiv(X.shape[0], BYTES), tj.num_ctas(0) * THREADS):
        x = tj.thread.load(X.tile(BYTES, vector))
        for k in tj.static_range(BYTES):
            if vector * BYTES + k < X.shape[0]:
                tj.atomic.add(bins[x[k]], 1)
    tj.cta_sync()
    for bin in range(tj.thread_id(), BINS, THREADS):
        tj.atomic.add(counts[bin], bins[bin])


def check(count: int, ctas: int = 4 * 132) -> None:
    x = np.random.default_rng(count).binomial(255, 0.3, count).astype(np.uint8)
    counts = np.zeros(BINS, np.int32)

    histogram[min(ctas, tj.cdiv(count, BYTES * THREADS))](x, counts)

    assert np.array_equal(counts, np.bincount(x, minlength=BINS)), "the result is wrong"
    print(f"{count} bytes on {tj.device()}: right")


def main() -> None:
    check(30_011, ctas=3)
    print(histogram.explain(tj.spec((2**28,), tj.uint8), tj.spec((BINS,), tj.int32)))


if __name__ == "__main__":
    main()
