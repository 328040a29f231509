"""Threads that tell each other what they have done: polls, acquire and release, volatile loads, fences."""

import re

import ml_dtypes
import numpy as np
import pytest

import tilejit as tj


@tj.kernel(threads=32)
def by_release(F: tj.Tensor, A: tj.Tensor, B: tj.Tensor):
    i = tj.thread_id()
    if tj.cta_id(0) == 0:
        A[i] = i + 5
        tj.warp_sync()
        if i == 0:
            tj.store_release(F[0], 1)
    else:
        while tj.load_acquire(F[0]) < 1:
            pass
        B[i] = A[i]


@tj.kernel(threads=32)
def by_fences(F: tj.Tensor, A: tj.Tensor, B: tj.Tensor):
    i = tj.thread_id()
    if tj.cta_id(0) == 0:
        A[i] = i + 5
        tj.warp_sync()
        if i == 0:
            tj.fence("gpu")
            tj.store_release(F[0], 1)
    else:
        while F[0] < 1:
            pass
        tj.fence("gpu")
        B[i] = A[i]


@tj.kernel(threads=32)
def without_order(F: tj.Tensor, A: tj.Tensor, B: tj.Tensor):
    i = tj.thread_id()
    if tj.cta_id(0) == 0:
        A[i] = i + 5
        if i == 0:
            tj.store_release(F[0], 1)
    else:
        while F[0] < 1:
            pass
        B[i] = A[i]


@pytest.fixture(params=["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def where(request):
    with tj.use_device(request.param):
        yield request.param


def arrays():
    return np.zeros(4, np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32)


@pytest.mark.parametrize("message", [by_release, by_fences])
def test_a_message_arrives(message, where):
    flags, a, b = arrays()
    message[2](flags, a, b)
    np.testing.assert_array_equal(b, np.arange(32) + 5)


@pytest.mark.parametrize("schedule", range(4))
@pytest.mark.parametrize("message", [by_release, by_fences])
def test_a_message_arrives_in_every_order(message, schedule):
    flags, a, b = arrays()
    tj.simulate(message, 2, flags, a, b, schedule=schedule, checks="strict")
    np.testing.assert_array_equal(b, np.arange(32) + 5)


def test_a_message_without_order_is_a_race():
    with pytest.raises(tj.RaceError, match="A"):
        tj.simulate(without_order, 2, *arrays())


@tj.kernel(threads=32)
def poll(Y: tj.Tensor):
    for _turn in range(1000):
        if Y[0] != Y[1]:
            break


@tj.kernel(threads=32)
def ordered(Y: tj.Tensor):
    Y[1] = tj.load_volatile(Y[0])
    tj.store_release(Y[2], tj.load_acquire(Y[3], scope="sys"), scope="cta")


TYPES = [np.bool_, np.int8, np.uint16, np.float16, ml_dtypes.bfloat16, np.int32, np.float32, np.int64, np.float64]


@pytest.mark.parametrize("target", ["sm_75", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: np.dtype(t).name)
def test_every_type_has_its_accesses(dtype, target):
    bits = 8 * np.dtype(dtype).itemsize
    text = poll.compile(np.zeros(4, dtype), target=target).ptx
    assert len(re.findall(rf"ld\.relaxed\.gpu\.global\.b{bits}", text)) == 2 and ".nc" not in text
    text = ordered.compile(np.zeros(4, dtype), target=target).ptx
    for access in ("ld.volatile.global", "ld.acquire.sys.global", "st.release.cta.global"):
        assert f"{access}.b{bits}" in text


@pytest.mark.parametrize("scope", ["cta", "gpu", "sys", "cluster"])
def test_every_scope_has_its_fence(scope):
    @tj.kernel(threads=32)
    def fenced(Y: tj.Tensor):
        tj.fence(scope)
        Y[0] = 1

    assert f"fence.acq_rel.{scope};" in fenced.compile(np.zeros(4, np.int32), target="sm_90a").ptx


def refused(kernel, error, words, target="sm_90a"):
    with pytest.raises(error, match=words):
        kernel.compile(np.zeros(4, np.int32), target=target)


def test_a_scope_that_there_isnt_is_refused():
    @tj.kernel(threads=32)
    def wrong(Y: tj.Tensor):
        tj.fence("warp")

    @tj.kernel(threads=32)
    def too_new(Y: tj.Tensor):
        tj.store_release(Y[0], 1, scope="cluster")

    refused(wrong, tj.KernelTypeError, "'warp' is not a memory scope")
    refused(too_new, tj.DispatchError, "needs sm_90", target="sm_80")


@tj.kernel(threads=32)
def regions(F: tj.Tensor, A: tj.Tensor, B: tj.Tensor):
    i = tj.thread_id()
    if tj.cta_id(0) == 0:
        if i == 0:
            tj.store_release(F[1:3, 0:2], tj.thread.indices((2, 2), 1) + 1)
    else:
        flags = tj.load_acquire(F[1:3, 0:2])
        while tj.min(flags) < 1:
            flags = tj.load_acquire(F[1:3, 0:2])
        tj.thread.store(A[i, 0:4], tj.cat(flags[0], flags[1], 0))
        tj.thread.store(B[i, 0:2], tj.load_volatile(F[2, 0:2]))


def test_regions_are_each_threads_own(where):
    flags, a, b = np.zeros((4, 3), np.int32), np.zeros((32, 4), np.int32), np.zeros((32, 2), np.int32)
    regions[2](flags, a, b)
    assert flags.sum() == 6 and (a == [1, 2, 1, 2]).all() and (b == [1, 2]).all()
    text = regions.compile(flags, a, b, target="sm_90a").ptx
    assert text.count("st.release.gpu.global.b32") == 4 and text.count("ld.volatile.global") == 2
    with pytest.raises(tj.OutOfBoundsError):
        tj.simulate(regions, 2, np.zeros((2, 3), np.int32), a, b)


def test_flags_are_places_that_others_see():
    @tj.kernel(threads=32)
    def region(Y: tj.Tensor):
        tj.store_release(Y[0:2], 1)

    @tj.kernel(threads=32)
    def local(Y: tj.Tensor):
        r = tj.alloc_local((4,), tj.int32)
        tj.store_release(r[0], 1)

    @tj.kernel(threads=32)
    def spread(Y: tj.Tensor):
        tj.store_release(Y[0:2], tj.cta.full((2,), 1, tj.int32))

    refused(region, tj.KernelTypeError, "a region of shape .2,. takes a tile of that shape; this is the constant 1")
    refused(spread, tj.KernelTypeError, "is distributed over the threads of a cta")
    refused(local, tj.KernelTypeError, "r is a local buffer; atomics and ordered accesses need")
