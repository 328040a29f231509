"""The inclusive sum of an array in a single pass, by decoupled look-back.

Each CTA sums its block, publishes the sum, and needs the sum of all preceding blocks. It needn't wait for the CTA
before it: it adds the published sums of the blocks before its own, back to the nearest total that is known already. So
an element is read once and written once, and CTAs wait for sums only, which need no other CTA.

Blocks form groups of 32. The last of a group publishes the total up to its end. A warp looks at its own group and at
those before, a lane at one block of each. How far back it must look depends on timing, but the result doesn't: a group
is added up in one order, and a total is the total before the group plus the group's sum, whichever CTA adds them. Runs
have equal bits, which usual look-backs don't give.

A block's state is one word of 64 bits, a flag and the value, so that both change together and no fence is needed. The
words must be 0 before a launch. A CTA waits for blocks of lower index only, so the CTAs must start in order of their
index, as they do on GPUs (CUB's scans rely on it, too).

Run it: `python examples/scan.py`.

source: Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016).
"""

from typing import Any

import numpy as np

import tilejit as tj
from tilejit import S, laneid, warpid

THREADS = 512
BLOCK = 32 * THREADS  # elements of a CTA
GROUPS = 3  # that a warp looks at, before its own
LANES = 32  # and blocks of a group
VECTOR = 4  # elements that a thread loads at once

SUM, TOTAL = 1, 2  # flags: the value is the block's sum, or that of the array up to its end


@tj.function
def word(flag: int, value: Any) -> Any:
    return (tj.uint64(flag) << 32) | tj.uint64(value.view(tj.uint32))


@tj.function
def sum_of_lanes(x: Any) -> Any:
    for bit in tj.static_range(5):
        x += tj.shuffle_xor(x, 1 << bit)
    return x


@tj.function
def state_of(state: tj.Tensor, block: int) -> Any:
    """Return the word of a block; before the first, a total that changes no float, not even a zero."""
    found = tj.load_volatile(state[max(block, 0)])
    return found if block >= 0 else word(TOTAL, tj.float32(-0.0))


@tj.function
def look_back(state: tj.Tensor, block: int, GROUPS: int) -> Any:
    """Return the sum of all blocks before `block`; called by a warp."""
    lane, place = tj.lane_id(), tj.int32(block % LANES)  # in the group
    while True:
        own = state_of(state, block - max(place - lane, 0))
        groups = tuple(state_of(state, block - place + lane - k * LANES) for k in tj.static_range(GROUPS, 0, -1))
        have_total = tuple(tj.vote_any(tj.int32(each >> 32) == TOTAL) for each in groups)
        is_known = False
        for each, has_total in zip(groups, have_total, strict=True):
            is_full = tj.vote_all(each != 0)
            is_known = has_total or (is_known and is_full)
        if tj.vote_all(is_known and own != 0):
            break
    start = tj.float32(-0.0)
    for each, has_total in zip(groups, have_total, strict=True):
        value = tj.uint32(each).view(tj.float32)
        last, whole = tj.shuffle(value, LANES - 1), sum_of_lanes(value)
        start = last if has_total else start + whole
    value = tj.uint32(own).view(tj.float32)
    if place == LANES - 1:
        through = start + sum_of_lanes(value)
        if lane == 0:
            tj.atomic.exch(state[block], word(TOTAL, through))
    return start + sum_of_lanes(value if lane < place else -0.0)


@tj.kernel(threads=THREADS)
def inclusive_sum(
    X: tj.Tensor, Y: tj.Tensor, state: tj.Tensor, BLOCK: tj.constexpr = BLOCK, GROUPS: tj.constexpr = GROUPS
) -> None:
    """state: a word of uint64 for each block, all 0."""
    block, warps = tj.cta_id(0), tj.num_threads() // LANES
    preceding = tj.alloc_shared((1,), tj.float32)
    # a warp's elements are adjacent, so that only its sum is exchanged with other warps
    rows = S[(warps, BLOCK // (warps * LANES * VECTOR), LANES, VECTOR) : (1 @ warpid, VECTOR, 1 @ laneid, 1)]
    x = tj.cta.load(X.tile(BLOCK, block), layout=rows)
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


def check(count: int, block: int = BLOCK, threads: int = THREADS, groups: int = GROUPS) -> None:
    x = np.random.default_rng(count).standard_normal(count, np.float32)
    results = [np.full(count, np.nan, np.float32) for _ in range(2)]
    blocks = tj.cdiv(count, block)

    for y in results:
        inclusive_sum[(blocks,), threads](x, y, np.zeros(blocks, np.uint64), BLOCK=block, GROUPS=groups)

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
