"""How often each byte occurs: atomics in shared memory, and a thread's own tiles.

Each CTA counts in 256 counters of its own in shared memory, which is fast and far from the other CTAs, and adds them to
the result at the end. `tj.atomic.add(place, 1)` adds where the place is, with nothing in between; as its result isn't
used, it is a reduction (`red`), and of the literal 1 in shared memory hardware adds up what the lanes of a warp
have for one counter.

A tile operation on `tj.thread` is every thread's own: `tj.thread.load` gives each thread 16 bytes in registers, by one
access, and `x[k]` is one of them.

Run it: `python examples/histogram.py`.
"""

import numpy as np

import tilejit as tj

THREADS = 512
BYTES = 16  # of a thread at a time
BINS = 256


@tj.kernel(threads=THREADS)
def histogram(X: tj.Tensor, counts: tj.Tensor) -> None:
    """X: uint8. counts: BINS of int32, to which is added."""
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
