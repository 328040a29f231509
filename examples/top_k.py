"""The largest elements of each row of a matrix, and their indices: a row is read once, and few of its elements again.

Vectors of 4 elements are dealt to groups. The k-th largest of the groups' maxima is a bound: at least k elements reach
it, and few others. Histograms of the maxima find it, digit by digit. Then only groups that reach it are read again, for
their elements that do, which are sorted. If there are too many, as with ties, histograms of those find a higher bound.
Elements are compared by keys, which all differ: by order, NaNs last, then by index. So any order of threads will do.

Run it: `python examples/top_k.py`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import tilejit as tj

THREADS = 1024
PARTS, LOADS = 2, 4  # groups of a thread; vectors of a group that are loaded at a time
K, ROOM = 64, 128  # elements that are selected; those that may reach the bound
BITS, BINS = 8, 256  # of a digit; its values
IN_ORDER = tj.S[(32, BINS // 32) : (1 @ tj.laneid, 1)]  # successive bins in a lane: few shuffles for a scan


@tj.function
def key_of(x: float, index: int) -> Any:
    bits = (tj.float32(x) + 0.0).view(tj.uint32)  # -0.0 + 0.0 is 0.0
    order = bits ^ ((bits.view(tj.int32) >> 31).view(tj.uint32) | tj.uint32(1 << 31))
    return (tj.uint64(order if x == x else tj.uint32(0)) << 32) | tj.uint64(~tj.uint32(index))


@tj.function
def bound_of(bins: tj.Region, keys: Callable[[int], Any], count: int, k: int, room: int, last: int) -> Any:
    """Return the k-th largest key's digits, to bit `last` or until `room` keys or fewer reach them, and how many do."""
    low, shift, total, above = tj.uint64(1), 64, 2**31 - 1, 0
    while total > room and shift > last:
        shift -= BITS
        tj.cta.fill(bins[0:BINS], 0)
        tj.cta_sync()
        for i in range(tj.thread_id(), count, tj.num_threads()):
            for key in keys(i):
                if key >= low and (key - low) >> shift < BINS:
                    tj.atomic.add(bins[tj.int32((key - low) >> shift)], 1)
        tj.cta_sync()
        if tj.warp_id() == 0:
            reached = tj.cumsum(tj.warp.load(bins[0:BINS], layout=IN_ORDER), 0, reverse=True) + above
            is_enough = reached >= k
            bins[BINS] = tj.sum(is_enough.astype(tj.int32)) - 1
            bins[BINS + 1] = tj.min(tj.where(is_enough, reached, 2**31 - 1))
            bins[BINS + 2] = tj.max(tj.where(is_enough, above, reached))
        tj.cta_sync()
        low, total, above = low + (tj.uint64(bins[BINS]) << shift), bins[BINS + 1], bins[BINS + 2]
    return low, total


@tj.kernel(threads=THREADS)
def top_k(
    X: tj.Tensor, values: tj.Tensor, indices: tj.Tensor, K: tj.constexpr = K, PARTS: tj.constexpr = PARTS,
    LOADS: tj.constexpr = LOADS, ROOM: tj.constexpr = ROOM,
) -> None:
    """X: floats of up to 32 bits, in rows of at least K elements. values: of X's type. indices: int32."""
    row, N, thread, THREADS = tj.cta_id(0), tj.int32(X.shape[1]), tj.thread_id(), tj.num_threads()
    GROUPS, BLOCK = PARTS * THREADS, 4 * PARTS * THREADS * LOADS  # vector i is in group i % GROUPS
    tj.static_assert(min(ROOM, GROUPS) >= K, "K elements need as many groups, and room")
    maxima, found = tj.alloc_shared(GROUPS, X.dtype), tj.alloc_shared(GROUPS, tj.int32)
    best, bins, counts = (tj.alloc_shared(n, t) for n, t in ((ROOM, tj.uint64), (BINS + 3, tj.int32), (3, tj.int32)))
    tj.cta.fill(counts, 0)
    x = tj.alloc_local((LOADS, PARTS, 4), X.dtype)

    def largest_of(first: int, is_whole: bool) -> Any:
        for k in tj.static_range(LOADS * PARTS):
            vector = X[row].tile(4, first // 4 + k * THREADS + thread)
            tj.thread.copy(x[k // PARTS, k % PARTS], tj.assume_in_bounds(vector) if is_whole else vector, fill=-tj.inf)
        return tj.max(x, axis=(0, 2))

    largest = tj.thread.full(PARTS, -tj.inf, X.dtype)
    for first in range(0, N - BLOCK + 1, BLOCK):
        largest = tj.maximum(largest, largest_of(first, True))
    if N % BLOCK != 0:
        largest = tj.maximum(largest, largest_of(N // BLOCK * BLOCK, False))
    for k in tj.static_range(PARTS):
        maxima[k * THREADS + thread] = largest[k]
    tj.cta_sync()

    def group_key(g: int) -> tuple[int]:
        return (key_of(maxima[g], 0) if maxima[g] > -tj.inf else tj.uint64(1),)  # perhaps of NaNs only

    low, total = bound_of(bins, group_key, GROUPS, K, max(K + K // 8, (K + ROOM) // 2), 32)
    for g in range(thread, GROUPS, THREADS):
        if not maxima[g] <= tj.inf or group_key(g)[0] >= low:
            found[tj.atomic.add(counts[0], 1)] = g
    tj.cta_sync()
    level = 32 - tj.clz(tj.cdiv(N, 4 * GROUPS) - 1)  # a group has up to 2^level vectors

    def keys(i: int) -> tuple[int, ...]:
        at = 4 * ((i & (1 << level) - 1) * GROUPS + found[i >> level])
        vector = tj.thread.load(X[row, at : at + 4])
        return tuple(key_of(vector[j], at + j) if at + j < N else tj.uint64(0) for j in tj.static_range(4))

    for attempt in range(1, 3):
        if total > ROOM:
            low, total = bound_of(bins, keys, counts[0] << level, K, ROOM, 0)
        for i in range(thread, counts[0] << level, THREADS):
            for key in keys(i):
                if key >= low:
                    place = tj.atomic.add(counts[attempt], 1)
                    if place < ROOM:
                        best[place] = key
        tj.cta_sync()
        total = counts[attempt]
        if total <= ROOM:
            break
    rank = tj.cta.indices(ROOM, 0)
    order = tj.cta.load(best, mask=rank < total)
    if 80 * THREADS >= ROOM * ROOM:  # fewer instructions than a sort takes
        rank = tj.sum((order[:, None] < order[None, :]).astype(tj.int32), axis=1)
    else:
        order = tj.sort(order, descending=True)
    index = (~order.astype(tj.uint32)).astype(tj.int32)
    tj.cta.store(indices[row].at(rank), index, mask=rank < K)
    tj.cta.store(values[row].at(rank), tj.cta.load(X[row].at(index), mask=rank < K), mask=rank < K)


def check(rows: int, columns: int, k: int = K, ties: int = 0, threads: int = THREADS, *sizes: int) -> None:
    """ties: the number of different values, or 0 for random ones. sizes: PARTS, LOADS, ROOM."""
    random = np.random.default_rng(columns)
    x = random.standard_normal((rows, columns), np.float32)
    if ties:
        x = random.binomial(ties - 1, 0.3, (rows, columns)).astype(np.float32)
        x[:, ::7], x[:, 1::7] = np.nan, -x[:, 1::7]
    values, indices = np.empty((rows, k), np.float32), np.empty((rows, k), np.int32)

    top_k[(rows,), threads](x, values, indices, k, *sizes)

    # NumPy sorts NaNs last, too
    wanted = np.argsort(-x, axis=1, kind="stable")[:, :k]
    assert np.array_equal(indices, wanted), "the indices are wrong"
    assert values.tobytes() == np.take_along_axis(x, wanted, axis=1).tobytes(), "the values are wrong"
    print(f"{k} of {rows}x{columns} on {tj.device()}: right")


def main() -> None:
    check(2, 3_001, threads=256)
    x = tj.spec((4096, 65_536), tj.float32)
    print(top_k.explain(x, tj.spec((4096, K), tj.float32), tj.spec((4096, K), tj.int32)))


if __name__ == "__main__":
    main()
