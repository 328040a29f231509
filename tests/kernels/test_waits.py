"""`tj.wait`: conditions, orders, timeouts, deadlocks, and loops of users that read the time."""

import ml_dtypes
import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of
from tests.support.ptxas import ptxas_accepts


@tj.function
def is_set(x, least=3):
    return x >= least


@tj.kernel(threads=32)
def message(F: tj.Tensor, A: tj.Tensor, B: tj.Tensor, order: tj.constexpr):
    i = tj.thread_id()
    if tj.cta_id(0) == 0:
        A[i] = i + 5
        tj.warp_sync()
        if i == 0:
            tj.store_release(F[1, 0], 7)
    else:
        flag = tj.wait(F[1, 0], is_set, order=order)
        B[i] = A[i] + flag


@pytest.fixture(params=["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def where(request):
    with tj.use_device(request.param):
        yield request.param


def test_a_wait_sees_what_was_written_before_the_release(where):
    b = np.zeros(32, np.int32)
    message[2](np.zeros((2, 2), np.int32), np.zeros(32, np.int32), b, order="acquire")
    np.testing.assert_array_equal(b, np.arange(32) + 12)


@pytest.mark.parametrize("schedule", range(3))
def test_a_wait_is_independent_of_the_schedule(schedule):
    b = np.zeros(32, np.int32)
    arrays = np.zeros((2, 2), np.int32), np.zeros(32, np.int32), b
    tj.simulate(message, 2, *arrays, order="acquire", schedule=schedule, checks="strict")
    np.testing.assert_array_equal(b, np.arange(32) + 12)


def test_a_relaxed_wait_orders_nothing():
    arrays = np.zeros((2, 2), np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32)
    with pytest.raises(tj.RaceError, match="A"):
        tj.simulate(message, 2, *arrays, order="relaxed")


def test_a_wait_without_a_timeout_is_part_of_the_deadlock_report():
    arrays = np.zeros((2, 2), np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32)

    @tj.kernel(threads=32)
    def alone(F: tj.Tensor):
        tj.wait(F[1, 0], is_set)

    with pytest.raises(tj.DeadlockError, match=r"31 more spin at[\s\S]*tj.wait\(F\[1, 0\], is_set\)"):
        tj.simulate(alone, 1, arrays[0])


@tj.kernel(threads=64)
def limited(F: tj.Tensor, O: tj.Tensor, n: tj.int64):  # noqa: E741
    s = tj.alloc_shared((1,), F.dtype)
    if tj.thread_id() == 0:
        s[0] = 2
    tj.cta_sync()

    def differs(x):
        if x == 2:
            return False
        return x != 1

    O[0, tj.thread_id()] = tj.wait(F[0], differs, timeout=1000)
    O[1, tj.thread_id()] = tj.wait(s[0], differs, scope="cta", timeout=n)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16, ml_dtypes.bfloat16, np.float32, np.int64], ids=str)
def test_a_wait_ends_at_its_timeout_with_the_last_value(dtype, where):
    o = np.zeros((2, 64), dtype)
    limited[1](np.ones(1, dtype), o, 10**6)
    assert (o.astype(np.int64) == [[1], [2]]).all()
    ptxas_accepts(limited.compile(np.ones(1, dtype), o, 10**6, target="sm_90a").ptx, "sm_90a")


def test_time_passes_only_when_nothing_else_can_run():
    @tj.kernel(threads=64)
    def slow(F: tj.Tensor, O: tj.Tensor):  # noqa: E741
        if tj.warp_id() == 0:
            O[tj.thread_id()] = tj.wait(F[0], is_set, timeout=1)
        else:
            total = 0
            for k in range(3000):
                total += F[k % 2 + 1]
            if tj.lane_id() == 0:
                tj.store_release(F[0], total + 3)

    for schedule in range(3):
        o = np.zeros(32, np.int32)
        tj.simulate(slow, 1, np.zeros(3, np.int32), o, schedule=schedule)
        np.testing.assert_array_equal(o, 3)


def test_the_shorter_of_two_timeouts_ends_first():
    @tj.kernel(threads=64)
    def chained(F: tj.Tensor, O: tj.Tensor):  # noqa: E741
        if tj.warp_id() == 0:
            O[0] = tj.wait(F[0], is_set, timeout=10_000_000)
        else:
            O[1] = tj.wait(F[1], is_set, timeout=1000)
            tj.store_release(F[0], 9)

    o = np.zeros(2, np.int32)
    tj.simulate(chained, 1, np.zeros(2, np.int32), o)
    assert o.tolist() == [9, 0]


def test_a_program_that_reads_the_time_can_still_deadlock():
    @tj.kernel(threads=32)
    def both(F: tj.Tensor):
        tj.wait(F[0], is_set, timeout=1000)
        tj.wait(F[1], is_set)

    with pytest.raises(tj.DeadlockError, match=r"tj.wait\(F\[1\], is_set\)"):
        tj.simulate(both, 1, np.zeros(2, np.int32))


BAD = [
    ("tj.wait(F[0:2], is_set)", "wait reads one element"),
    ("tj.wait(F[0], 3)", "this must be a function of one value; it is the constant 3"),
    ("tj.wait(F[0], two)", "this must be a function of one value"),
    ("tj.wait(F[0], is_set, order='release')", "'release' is not a memory order"),
    ("tj.wait(F[0], is_set, timeout=2.5)", "2.5 is not an integer"),
    ("tj.wait(F[0], is_set, timeout=-1)", "-1"),
    ("tj.wait(F[0], is_set, timeout=F[1] * 0.5)", "the timeout is a float32"),
    ("tj.wait(F[0], nothing)", "the condition returns nothing"),
    ("r = tj.alloc_local((2,), tj.int32)\n    tj.wait(r[0], is_set)", "r is a local buffer"),
]


@pytest.mark.parametrize(("statement", "message"), BAD, ids=[m[:30] for _, m in BAD])
def test_what_makes_no_sense_is_refused(statement, message):
    text = f"""def k(F):
    def is_set(x):
        return x > 0
    def two(x, y):
        return x > y
    def nothing(x):
        pass
    {statement}
"""
    with pytest.raises(tj.KernelTypeError) as caught:
        tj.kernel(threads=32)(source_of(text)).compile(tj.spec((4,), tj.int32), target="sm_90a")
    assert message in str(caught.value) and "help: " in str(caught.value)
