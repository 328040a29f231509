"""What the lanes of a warp see of each other's values: shuffles of every type, votes, and values that all hold."""

import re

import numpy as np
import pytest

import tilejit as tj
from tests.support.ptxas import ptxas_accepts
from tilejit.dtypes import DTYPES

LANES = np.arange(64) % 32
WARPS = np.arange(64) - LANES


@pytest.fixture(params=["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def where(request):
    with tj.use_device(request.param):
        yield request.param


@tj.kernel(threads=64)
def shuffled(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    t = tj.thread_id()
    x = X[t]
    Y[0, t] = tj.shuffle(x, (t * 7 + n) % 32)
    Y[1, t] = tj.shuffle_xor(x, n)
    Y[2, t] = tj.shuffle_up(x, n)
    Y[3, t] = tj.shuffle_down(x, n)
    Y[4, t] = tj.shuffle(x, 9)


def wanted(x, n):
    up, down = LANES - n, LANES + n
    sources = [
        (np.arange(64) * 7 + n) % 32, LANES ^ n, np.where(up >= 0, up, LANES), np.where(down < 32, down, LANES),
        np.full(64, 9),
    ]
    return np.stack([x[WARPS + source] for source in sources])


def bits(dtype):
    """64 values whose bytes all differ from each other's, NaNs among them; of bool_ both."""
    made = np.random.default_rng(5).integers(0, 256, 64 * dtype.itemsize, dtype=np.uint8)
    return (made & 1).astype(bool) if dtype == np.bool_ else made.view(dtype)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
@pytest.mark.parametrize("n", [1, 6, 31])
def test_every_type_goes_from_lane_to_lane_by_its_bits(dtype, n, where):
    x = bits(dtype.numpy)
    y = np.zeros((5, 64), x.dtype)
    shuffled[1](x, y, n)
    unsigned = f"u{x.dtype.itemsize}"
    np.testing.assert_array_equal(y.view(unsigned), wanted(x, n).view(unsigned))


@pytest.mark.parametrize(("dtype", "each"), [(np.float32, 1), (np.int8, 1), (np.float64, 2), (np.int64, 2)])
def test_64_bits_take_two_shuffles(dtype, each):
    ptx = shuffled.compile(np.zeros(64, dtype), np.zeros((5, 64), dtype), np.int32(1), target="sm_75").ptx
    ptxas_accepts(ptx, "sm_75")
    assert [len(re.findall(rf"shfl\.sync\.{mode}\.b32", ptx)) for mode in ("idx", "bfly", "up", "down")] == [
        2 * each, each, each, each
    ]


@tj.kernel(threads=64)
def summed(X: tj.Tensor, Y: tj.Tensor):
    t = tj.thread_id()
    total = X[t]
    for k in tj.static_range(5):
        total = total + tj.shuffle_xor(total, 16 >> k)
    running = X[t]
    step = 1
    while step < 32:
        below = tj.shuffle_up(running, step)
        if tj.lane_id() >= step:
            running = running + below
        step = step * 2
    Y[0, t] = total
    Y[1, t] = running


@pytest.mark.parametrize("dtype", [np.int32, np.float64, np.float16])
def test_sums_and_running_sums_over_a_warp_are_numpys(dtype, where):
    x = (np.arange(64) % 5).astype(dtype)
    y = np.zeros((2, 64), dtype)
    summed[1](x, y)
    rows = x.reshape(2, 32)
    np.testing.assert_array_equal(y[0].reshape(2, 32), np.repeat(rows.sum(1, dtype)[:, None], 32, 1))
    np.testing.assert_array_equal(y[1].reshape(2, 32), np.cumsum(rows, 1, dtype))


@tj.kernel(threads=64)
def voted(X: tj.Tensor, Y: tj.Tensor):
    t = tj.thread_id()
    Y[0, t] = tj.uint32(tj.vote_any(X[t] > 0))
    Y[1, t] = tj.uint32(tj.vote_all(X[t] > 0))
    Y[2, t] = tj.vote_ballot(X[t] > 0)
    Y[3, t] = tj.vote_ballot(X[t])
    Y[4, t] = tj.vote_ballot(True)


@pytest.mark.parametrize("seed", range(3))
def test_votes_are_numpys(seed, where):
    x = np.random.default_rng(seed).integers(0, 2 + seed // 2, 64).astype(np.int32) + (seed == 1)
    y = np.zeros((5, 64), np.uint32)
    voted[1](x, y)
    rows = (x > 0).reshape(2, 32)
    ballots = (rows.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(1)
    for k, each in enumerate([rows.any(1), rows.all(1), ballots, ballots, np.full(2, 2**32 - 1)]):
        np.testing.assert_array_equal(y[k].reshape(2, 32), np.repeat(each.astype(np.uint32)[:, None], 32, 1))


def test_a_vote_is_the_same_for_the_whole_warp_and_a_shuffle_isnt():
    @tj.kernel(threads=64)
    def by_vote(X: tj.Tensor):
        while tj.vote_any(X[tj.thread_id()] > 0):
            tj.warp_sync()
            X[tj.thread_id()] = X[tj.thread_id()] - 1

    @tj.kernel(threads=64)
    def by_shuffle(X: tj.Tensor):
        if tj.shuffle_xor(X[tj.thread_id()], 1) > 0:
            tj.warp_sync()

    x = (np.arange(64) % 7).astype(np.int32)
    by_vote[1](x)
    assert x.max() == 0
    with pytest.raises(tj.DispatchError, match="warp_sync"):
        by_shuffle.compile(x)


def test_a_vote_of_one_warp_doesnt_bind_the_others():
    @tj.kernel(threads=64)
    def kernel(X: tj.Tensor):
        if tj.vote_any(X[tj.thread_id()] > 0):
            tj.cta_sync()

    with pytest.raises(tj.DispatchError, match="cta_sync"):
        kernel.compile(np.zeros(64, np.int32))


@tj.kernel(threads=128)
def agreed(X: tj.Tensor, Y: tj.Tensor, scope: tj.constexpr):
    t = tj.thread_id()
    for turn in range(3):
        n = tj.uniform(X[turn, t], scope)
        if n > 0:
            if scope == "warp":
                tj.warp_sync()
            elif scope == "warpgroup":
                tj.warpgroup_sync()
            else:
                tj.cta_sync()
            Y[t] = Y[t] + tj.int32(n)


AGREED = {"warp": 32, "warpgroup": 128, "cta": 128}


@pytest.mark.parametrize("scope", AGREED)
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
def test_a_value_that_all_hold_may_decide_about_a_barrier(scope, dtype, where):
    rows = np.random.default_rng(7).integers(0, 3, (3, 128 // AGREED[scope])).astype(dtype)
    x, y = np.repeat(rows, AGREED[scope], 1), np.zeros(128, np.int32)
    agreed[1](x, y, scope=scope)
    np.testing.assert_array_equal(y, x.astype(np.int32).sum(0))


@pytest.mark.parametrize("scope", AGREED)
@pytest.mark.parametrize("turn", range(3))
@pytest.mark.parametrize("schedule", range(3))
def test_that_all_hold_a_value_is_checked(scope, turn, schedule):
    x = np.full((3, 128), 2, np.int64)
    x[turn, 70] += 1 << 40
    with pytest.raises(tj.SimulationError, match=f"differs in another thread of the {scope}"):
        tj.simulate(agreed, 1, x, np.zeros(128, np.int32), scope=scope, schedule=schedule)


def test_what_checks_a_value_hides_no_race():
    @tj.kernel(threads=64)
    def kernel(X: tj.Tensor, Y: tj.Tensor):
        Y[tj.thread_id()] = 1
        n = tj.uniform(X[0], tj.cta)
        X[1] = n + Y[63 - tj.thread_id()]

    with pytest.raises(tj.RaceError, match="Y"):
        tj.simulate(kernel, 1, np.zeros(2, np.int32), np.zeros(64, np.int32))


def test_a_plain_build_tests_nothing():
    arrays = np.zeros((3, 128), np.int32), np.zeros(128, np.int32)
    ptx = agreed.compile(*arrays, target="sm_90a", scope="cta").ptx
    assert "atom" not in ptx and ".shared" not in ptx and ptx.count("bar") == 1


def test_a_value_is_said_to_agree_over_a_scope_that_comes_there():
    @tj.kernel(threads=64)
    def in_a_branch(X: tj.Tensor):
        if tj.thread_id() < 40:
            X[0, 0] = tj.uniform(X[1, 1], tj.warp)

    @tj.kernel(threads=64)
    def one_thread(X: tj.Tensor):
        X[0, 0] = tj.uniform(X[1, 1], tj.thread)

    @tj.kernel(threads=64)
    def misspelt(X: tj.Tensor):
        X[0, 0] = tj.uniform(X[1, 1], "block")

    @tj.kernel(threads=64)
    def of_floats(X: tj.Tensor):
        X[0, 0] = tj.int32(tj.uniform(tj.float32(X[1, 1]), tj.cta))

    refused("tj.uniform.*needs all threads of its warp", in_a_branch, tj.DispatchError)
    refused("tj.thread is not a scope of several threads", one_thread)
    refused("'block' is not a scope of several threads", misspelt)
    refused("takes an integer or a bool_; this is float32", of_floats)


def refused(words, kernel, error=tj.KernelTypeError):
    with pytest.raises(error, match=words):
        kernel.compile(np.zeros((64, 4), np.int32))


def test_a_shuffle_needs_whole_warps():
    @tj.kernel(threads=64)
    def in_a_branch(X: tj.Tensor):
        if tj.lane_id() < 7:
            X[0, 0] = tj.shuffle(X[1, 1], 0)

    @tj.kernel(threads=40)
    def of_a_part(X: tj.Tensor):
        X[0, 0] = tj.vote_ballot(X[1, 1] > 0)

    refused("shfl.idx.*needs all threads of its warp", in_a_branch, tj.DispatchError)
    refused("needs whole warps", of_a_part, tj.DispatchError)


def test_values_are_a_threads_own():
    @tj.kernel(threads=32)
    def region(X: tj.Tensor):
        X[0, 0] = tj.shuffle(X[0:4], 0)

    @tj.kernel(threads=32)
    def lane(X: tj.Tensor):
        X[0, 0] = tj.shuffle(X[0, 0], tj.float32(X[0, 0]))

    @tj.kernel(threads=32)
    def tile(X: tj.Tensor):
        X[0, 0] = tj.int32(tj.vote_any(X[0:4]))

    refused("takes one scalar per thread", region)
    refused("lane must be an integer", lane)
    refused("a condition must be a scalar", tile)


@tj.kernel(threads=64)
def kept_together(X: tj.Tensor, Y: tj.Tensor, counts: tj.Tensor):
    """What is positive, without gaps, for each warp."""
    x = X[tj.thread_id()]
    votes = tj.vote_ballot(x > 0)
    if x > 0:
        Y[tj.warp_id(), tj.popcount(votes & ((1 << tj.lane_id()) - 1))] = x
    counts[tj.warp_id(), 0] = tj.popcount(votes)
    counts[tj.warp_id(), 1] = 31 - tj.clz(votes)
    counts[tj.warp_id(), 2] = tj.clz(tj.brev(votes))


def test_bits_of_a_ballot_are_counted(where):
    x = np.random.default_rng(3).standard_normal(64, np.float32)
    y, counts = np.zeros((2, 32), np.float32), np.zeros((2, 3), np.int32)
    kept_together[1](x, y, counts)
    for warp, values in enumerate(x.reshape(2, 32)):
        (positive,) = np.nonzero(values > 0)
        np.testing.assert_array_equal(y[warp, : len(positive)], values[positive])
        np.testing.assert_array_equal(counts[warp], (len(positive), positive[-1], positive[0]))
    ptx = kept_together.compile(x, y, counts, target="sm_75").ptx
    assert all(re.search(rf"{name}\.b32", ptx) for name in ("popc", "clz", "brev"))
    ptxas_accepts(ptx, "sm_75")
