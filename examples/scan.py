"""The inclusive sum of an array in a single pass, by decoupled look-back.

Each CTA sums its block, publishes the sum, and needs the sum of all preceding blocks. It needn't wait for the CTA
before it: it adds the published sums of the blocks before its own, back to the nearest whose running total is known
already, and publishes its own total. So an element is read once and written once, and the chain of CTAs that wait for
each other is shorter than the grid by the width of the window that each looks at.

How far back a CTA must look depends on timing, but the result doesn't: it always adds from left to right, so a total
is the total before it plus one sum, in whichever CTA. Runs have equal bits, which usual look-backs don't give.

A block's state is one word of 64 bits, a flag and the value, so that both change together and no fence is needed. The
words must be 0 before a launch. A CTA waits for blocks of lower index only, so the CTAs must start in order of their
index, as they do on GPUs (CUB's scans rely on it, too).

Run it: `python examples/scan.py`.

source: Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016).
"""

from typing import Any

import numpy as np

import tilejit as tj

THREADS = 512
BLOCK = 16 * THREADS  # elements of a CTA
WORDS = 4  # that each lane of a warp looks at
LANES = 32

SUM, TOTAL = 1, 2  # flags: the value is the block's sum, or that of the array up to its end


@tj.function
def word(flag: int, value: Any) -> Any:
    return (tj.uint64(flag) << 32) | tj.uint64(value.view(tj.uint32))


@tj.function
def look_back(state: tj.Tensor, block: int, WORDS: int) -> Any:
    """Return the sum of all blocks before `block`; called by a warp. Adding -0.0 changes no float, not even a zero."""
    lane = tj.lane_id()
    first = block + (lane - LANES) * WORDS
    words, sums = tj.alloc_local((WORDS,), tj.uint64), tj.alloc_local((WORDS,), tj.float32)
    while True:
        for k in tj.static_range(WORDS):
            words[k] = tj.load_volatile(state[max(first + k, 0)])
        is_open = True  # no later word of the lane is a total
        is_ready = True
        for k in tj.static_range(WORDS - 1, -1, -1):
            found = words[k] if first + k >= 0 else word(TOTAL, tj.float32(-0.0))
            flag = tj.int32(found >> 32)
            sums[k] = tj.uint32(found).view(tj.float32) if is_open else -0.0
            is_ready = is_ready and (flag != 0 or not is_open)
            is_open = is_open and flag != TOTAL
        totals = tj.vote_ballot(not is_open)
        is_before = (totals >> lane) > 1  # a later lane has a total
        if totals != 0 and tj.vote_all(is_ready or is_before):
            break
    before = tj.float32(-0.0)
    for source in tj.static_range(LANES):
        for k in tj.static_range(WORDS):
            before += tj.shuffle(-0.0 if is_before else sums[k], source)
    return before


@tj.kernel(threads=THREADS)
def inclusive_sum(
    X: tj.Tensor, Y: tj.Tensor, state: tj.Tensor, BLOCK: tj.constexpr = BLOCK, WORDS: tj.constexpr = WORDS
) -> None:
    """state: a word of uint64 for each block, all 0."""
    block = tj.cta_id(0)
    preceding = tj.alloc_shared((1,), tj.float32)
    x = tj.cta.load(X.tile(BLOCK, block))
    total = tj.sum(x)
    if tj.thread_id() == 0:
        tj.store_release(state[block], word(SUM, total))
    y = tj.cumsum(x, 0)
    if tj.warp_id() == 0:
        before = look_back(state, block, WORDS)
        if tj.lane_id() == 0:
            tj.store_release(state[block], word(TOTAL, before + total))
            preceding[0] = before
    tj.cta_sync()
    tj.cta.store(Y.tile(BLOCK, block), y + preceding[0])


def check(count: int) -> None:
    x = np.random.default_rng(count).standard_normal(count, np.float32)
    results = [np.full(count, np.nan, np.float32) for _ in range(2)]
    blocks = tj.cdiv(count, BLOCK)

    for y in results:
        inclusive_sum[blocks](x, y, np.zeros(blocks, np.uint64))

    wanted = np.cumsum(x, dtype=np.float64)
    np.testing.assert_allclose(results[0], wanted, rtol=1e-5, atol=1e-5 * count**0.5)
    first, second = (y.view(np.uint32) for y in results)
    assert np.array_equal(first, second), "two runs have different bits"
    print(f"inclusive sum of {count} on {tj.device()}: right")


def main() -> None:
    check(100_003)
    x, state = tj.spec((2**28,), tj.float32), tj.spec((tj.cdiv(2**28, BLOCK),), tj.uint64)
    print(inclusive_sum.explain(x, x, state))


if __name__ == "__main__":
    main()
