"""A radix sort of uint32 keys in device memory: one sweep for each digit of 8 bits, lowest first.

`count` counts the digits of all keys, and `first_places` adds the counts up: to the place of the first key with each
digit. Each `sweep` then moves the keys to their places for one digit, reading and writing every key once. Its CTA sorts
a block by the digit, stably: `tj.sort` of a tuple moves the keys along with their digits. A key's place is that of its
digit's first key, plus the number of keys with the digit in the blocks before its own, plus its rank in the block.

For the number of keys in the blocks before, thread d looks back at the counts of digit d, which preceding blocks
publish, to the nearest that knows its total. A state is one word of a flag and the count, and must be 0 before a sweep.
A CTA waits for blocks of lower index only, so CTAs must start in order of their index, as they do on GPUs.

Run it: `python examples/sort.py`.

source: Adinets and Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs" (2022).
"""

import numpy as np

import tilejit as tj

THREADS = 256
BITS = 8  # of a digit
DIGITS = 1 << BITS  # as many as threads
PASSES = 32 // BITS
ITEMS = 8  # keys of a thread

SUM, TOTAL = 1, 2  # flags: the count is that of the block, or of all blocks up to it
FLAG = 30  # the lowest bit of the flag; there are fewer keys than 2^30


@tj.kernel(threads=THREADS)
def count(X: tj.Tensor, counts: tj.Tensor) -> None:
    """counts: int32, (PASSES, DIGITS), all 0."""
    bins = tj.alloc_shared((PASSES, DIGITS), tj.int32)
    tj.cta.fill(bins, 0)
    tj.cta_sync()
    for i in range(tj.cta_id(0) * THREADS + tj.thread_id(), X.shape[0], tj.num_ctas(0) * THREADS):
        for k in tj.static_range(PASSES):
            tj.atomic.add(bins[k, (X[i] >> (k * BITS)) % DIGITS], 1)
    tj.cta_sync()
    for k in tj.static_range(PASSES):
        tj.atomic.add(counts[k, tj.thread_id()], bins[k, tj.thread_id()])


@tj.kernel(threads=THREADS)
def first_places(counts: tj.Tensor) -> None:
    """Replace the counts of each pass by their exclusive sum; one CTA for each pass."""
    bins = tj.alloc_shared((DIGITS,), tj.int32)
    bins[tj.thread_id()] = counts[tj.cta_id(0), tj.thread_id()]
    tj.cta_sync()
    total = 0
    for digit in range(tj.thread_id()):
        total += bins[digit]
    counts[tj.cta_id(0), tj.thread_id()] = total


@tj.function
def look_back(states: tj.Tensor, block: int, digit: int, own: int) -> int:
    """Return the number of keys with `digit` in all blocks before `block`, which has `own`."""
    tj.store_release(states[block, digit], tj.uint32(own) | tj.uint32(SUM << FLAG))
    before = tj.uint32(0)
    at = tj.int32(block) - 1
    while at >= 0:
        state = tj.load_acquire(states[at, digit])
        if state >> FLAG != 0:
            before += state & tj.uint32((1 << FLAG) - 1)
            at = -1 if state >> FLAG == TOTAL else at - 1
    tj.store_release(states[block, digit], (before + tj.uint32(own)) | tj.uint32(TOTAL << FLAG))
    found: int = tj.int32(before)
    return found


@tj.kernel(threads=THREADS)
def sweep(
    X: tj.Tensor, Y: tj.Tensor, places: tj.Tensor, states: tj.Tensor, k: tj.int32, ITEMS: tj.constexpr = ITEMS
) -> None:
    """places: of `first_places`. states: uint32, (blocks, DIGITS), all 0. k: the number of the digit."""
    size, block = THREADS * ITEMS, tj.cta_id(0)
    counts = tj.alloc_shared((DIGITS + 1,), tj.int32)
    first = tj.alloc_shared((DIGITS + 1,), tj.int32)  # of each digit in the block; then where it starts in Y, less that
    tj.cta.fill(counts, 0)
    tj.cta.fill(first, size)
    x = tj.cta.load(X.tile(size, block))
    rank = tj.cta.indices((size,), 0)
    left = min(X.shape[0] - block * size, size)
    digit_of = (x >> (k * BITS)) % DIGITS
    # what the block lacks comes last
    padded = tj.where(rank < left, digit_of, tj.cta.full((size,), DIGITS, tj.uint32))
    sorted_digits, keys = tj.sort((padded.astype(tj.uint16), x))
    digits = sorted_digits.astype(tj.int32)
    tj.cta_sync()
    tj.atomic.add(counts.at(digits), tj.cta.full((size,), 1, tj.int32))
    tj.atomic.min(first.at(digits), rank)
    tj.cta_sync()
    digit = tj.thread_id()
    before = look_back(states, block, digit, counts[digit])
    first[digit] = places[k, digit] + before - first[digit]
    tj.cta_sync()
    at = tj.cta.load(first.at(digits)) + rank
    tj.cta.store(Y.at(at), keys, mask=rank < left)


def sort(x: np.ndarray, items: int = ITEMS) -> np.ndarray:
    blocks = tj.cdiv(len(x), THREADS * items)
    places = np.zeros((PASSES, DIGITS), np.int32)
    count[min(blocks, 4 * 132)](x, places)
    first_places[PASSES](places)
    for k in range(PASSES):
        y = np.empty_like(x)
        sweep[blocks](x, y, places, np.zeros((blocks, DIGITS), np.uint32), k, ITEMS=items)
        x = y
    return x


def check(count: int, items: int = ITEMS) -> None:
    x = np.random.default_rng(count).integers(0, 1 << 32, count, np.uint32)
    assert np.array_equal(sort(x, items), np.sort(x)), "the result is wrong"
    print(f"{count} keys on {tj.device()}: right")


def main() -> None:
    check(5_003, items=2)
    x, states = tj.spec((2**28,), tj.uint32), tj.spec((2**28 // (THREADS * ITEMS), DIGITS), tj.uint32)
    print(sweep.explain(x, x, tj.spec((PASSES, DIGITS), tj.int32), states, 0))


if __name__ == "__main__":
    main()
