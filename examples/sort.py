"""A radix sort of uint32 keys in device memory: one sweep for each digit of 8 bits, lowest first.

`count` counts the digits of all keys, and `first_places` adds the counts up: to the place of the first key with each
digit. Each `sweep` then moves the keys to their places for one digit: that of the digit's first key, plus the number of
keys with the digit in the blocks before, plus the rank in the block. Warps count their keys first, so that blocks
publish counts early. Then each places 32 keys at a time, in order; votes tell a lane which others have its digit.

For the number of keys in the blocks before, thread d looks back at the counts of digit d, which preceding blocks
publish, to the nearest that knows its total. A state is one word of a flag and the count, and must be 0 before a sweep.
A CTA waits for blocks of lower index only, so CTAs must start in order of their index, as they do on GPUs.

Run it: `python examples/sort.py`.

source: Adinets and Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs" (2022).
"""

from typing import Any

import numpy as np

import tilejit as tj
from tilejit import S, laneid, tx, warpid

BITS = 8  # of a digit
DIGITS, PASSES = 1 << BITS, 32 // BITS
THREADS, WARPS = DIGITS, DIGITS // 32
ITEMS, WINDOW = 24, 2  # keys of a thread; states that are loaded together
PADDING = 0xFFFFFFFF  # comes last in the last block; only counts of the last digit include it, and they aren't used
SUM, TOTAL, FLAG = 1, 2, 30  # flags: the count is of the block, or of all blocks up to it; the bits below the flag


@tj.kernel(threads=THREADS)
def count(X: tj.Tensor, counts: tj.Tensor) -> None:
    """counts: int32, (PASSES, DIGITS), all 0."""
    bins = tj.alloc_shared((PASSES, DIGITS), tj.int32)
    tj.cta.fill(bins, 0)
    tj.cta_sync()
    for part in range(tj.cta_id(0) * THREADS + tj.thread_id(), tj.cdiv(X.shape[0], 8), tj.num_ctas(0) * THREADS):
        x = tj.thread.load(X.tile(8, part), fill=PADDING)
        for i in tj.static_range(8):
            for k in tj.static_range(PASSES):
                tj.atomic.add(bins[k, (x[i] >> (k * BITS)) % DIGITS], 1)
    tj.cta_sync()
    tj.atomic.add(counts[0:PASSES, 0:DIGITS], tj.cta.load(bins))


@tj.kernel(threads=THREADS)
def first_places(counts: tj.Tensor) -> None:
    """Replace the counts of each pass by their exclusive sum; one CTA for each pass."""
    tj.cta.cumsum(counts[tj.cta_id(0), 0:DIGITS], counts[tj.cta_id(0), 0:DIGITS], 0, exclusive=True)


@tj.function
def look_back(states: tj.Tensor, block: int, digit: int, WINDOW: int) -> Any:
    """Return the number of keys with `digit` in all blocks before `block`."""
    before = tj.uint32(0)
    at = tj.int32(block) - 1
    while at >= 0:
        window = tuple(tj.load_volatile(states[max(at - i, 0), digit]) for i in tj.static_range(WINDOW))
        is_open = True
        for state in window:
            is_open = is_open and at >= 0 and state >> FLAG != 0
            if is_open:
                before += state % (1 << FLAG)
                at = -1 if state >> FLAG == TOTAL else at - 1
    return before


@tj.function
def lanes_with(digit: int) -> Any:
    """Return a bit for each lane of the warp: 1 if its digit is this one's."""
    lanes = tj.uint32(0xFFFFFFFF)
    for bit in tj.static_range(BITS):
        is_clear = digit & (1 << bit) == 0
        votes = tj.vote_ballot(is_clear)
        lanes &= votes if is_clear else ~votes
    return lanes


@tj.kernel(threads=THREADS)
def sweep(
    X: tj.Tensor, Y: tj.Tensor, places: tj.Tensor, states: tj.Tensor, k: tj.int32,
    ITEMS: tj.constexpr = ITEMS, WINDOW: tj.constexpr = WINDOW,
) -> None:
    """places: of `first_places`. states: uint32, (blocks, DIGITS), all 0. k: the number of the digit."""
    size, block, thread, shift = THREADS * ITEMS, tj.cta_id(0), tj.thread_id(), k * BITS % 32
    bins, keys = tj.alloc_shared((WARPS, DIGITS), tj.uint32), tj.alloc_shared((size,), tj.uint32)
    first = tj.alloc_shared((DIGITS,), tj.uint32)  # where keys[0] would be in Y if it had the digit
    warp_bins = bins[tj.warp_id()]
    order = S[(WARPS, ITEMS, 32) : (1 @ warpid, 1, 1 @ laneid)]
    x = tj.cta.load(X.tile(size, block), layout=order, fill=PADDING).registers
    left, place_of_first = tj.int32(min(X.shape[0] - block * size, size)), tj.uint32(places[k, thread])
    tj.cta.fill(bins, 0)
    tj.cta_sync()
    for i in tj.static_range(ITEMS):
        # written as below, the digits would be kept in registers until then
        tj.atomic.add(warp_bins[(x[i] & (tj.uint32(DIGITS - 1) << shift)) >> shift], 1)
    tj.cta_sync()
    counts = tj.cta.load(bins, layout=S[(WARPS, DIGITS) : (1, 1 @ tx)])
    sums = tj.sum(counts, 0)
    own = sums.registers[0]
    tj.atomic.exch(states[block, thread], own | (SUM << FLAG))
    starts = tj.cumsum(sums, 0, exclusive=True)
    tj.cta.store(bins, tj.cumsum(counts, 0, exclusive=True) + starts)
    tj.cta_sync()
    for i in tj.static_range(ITEMS):
        digit = (x[i] >> shift) % DIGITS
        lanes, place = lanes_with(digit), warp_bins[digit]
        keys[place + tj.popcount(lanes & ((tj.uint32(1) << tj.lane_id()) - 1))] = x[i]
        tj.warp_sync()
        warp_bins[digit] = place + tj.popcount(lanes)
        tj.warp_sync()
    before = look_back(states, block, thread, WINDOW)
    tj.atomic.exch(states[block, thread], (before + own) | (TOTAL << FLAG))
    first[thread] = place_of_first + before - starts.registers[0]
    tj.cta_sync()
    for i in tj.static_range(ITEMS):
        rank = i * THREADS + thread
        key = keys[rank]
        place = first[(key >> shift) % DIGITS] + tj.uint32(rank)
        if rank < left:
            Y[place] = key


def sort(x: np.ndarray, items: int = ITEMS) -> np.ndarray:
    blocks, places = tj.cdiv(len(x), THREADS * items), np.zeros((PASSES, DIGITS), np.int32)
    count[min(blocks, 8 * 132)](x, places)
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
    x, states = tj.spec((2**28,), tj.uint32), tj.spec((tj.cdiv(2**28, THREADS * ITEMS), DIGITS), tj.uint32)
    print(sweep.explain(x, x, tj.spec((PASSES, DIGITS), tj.int32), states, 0))


if __name__ == "__main__":
    main()
