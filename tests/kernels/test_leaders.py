"""`tj.elect()` is the thread that issues its warp's copies and waits for them, whichever lane that is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit as tj

SCHEDULES = range(8)


@tj.kernel(threads=64)
def which(L: tj.Tensor, n: tj.int32):
    for i in range(n):
        if tj.elect():
            L[tj.warp_id(), i] = tj.lane_id()


@tj.kernel(threads=64)
def which_of_some(L: tj.Tensor, n: tj.int32):
    if tj.lane_id() >= n:
        if tj.elect():
            L[tj.warp_id(), 0] = tj.lane_id()
    elif tj.elect():
        L[tj.warp_id(), 0] = tj.lane_id()


@tj.kernel(threads=32)
def flag_after_wait(X: tj.Tensor, S: tj.Tensor, F: tj.Tensor, Y: tj.Tensor):
    s = tj.alloc_shared((32, 32), X.dtype)
    if tj.cta_id(0) == 0:
        tj.warp.copy(s, X[0:32, 0:32])
        tj.warp_sync()
        tj.warp.copy_async(S[0:32, 0:32], s)
        tj.bulk.wait(0)
        if tj.elect():
            tj.store_release(F[0], 1, scope="sys")
    else:
        while tj.load_acquire(F[0], scope="sys") < 1:
            pass
        tj.warp.copy(Y[0:32, 0:32], S[0:32, 0:32])


@tj.kernel(threads=32)
def copied_by_the_elected(X: tj.Tensor, S: tj.Tensor, F: tj.Tensor, Y: tj.Tensor):
    s = tj.alloc_shared((32, 32), X.dtype)
    full = tj.alloc_barrier(1)
    if tj.cta_id(0) == 0:
        if tj.elect():
            tj.thread.copy_async(s, X[0:32, 0:32], barrier=full)
            tj.thread.arrive(full)
        full.wait(0)
        if tj.elect():
            tj.thread.copy_async(S[0:32, 0:32], s)
        tj.bulk.wait(0)
        if tj.elect():
            tj.store_release(F[0], 1, scope="sys")
    else:
        while tj.load_acquire(F[0], scope="sys") < 1:
            pass
        tj.warp.copy(Y[0:32, 0:32], S[0:32, 0:32])


def lanes(kernel: Any, schedule: int, n: int, target: str = "sm_90a") -> np.ndarray:
    found = np.full((2, 3), -1, np.int32)
    tj.simulate(kernel, 1, found, n, target=target, schedule=schedule)
    return found


def test_one_lane_of_each_warp_is_elected_and_it_stays_the_same() -> None:
    seen = set()
    for schedule in SCHEDULES:
        found = lanes(which, schedule, 3)
        assert (found >= 0).all() and (found == found[:, :1]).all()
        seen |= set(found[:, 0].tolist())
    assert len(seen) > 2, "the simulator elects lane 0 alone"


@pytest.mark.parametrize("n", [0, 1, 16, 32])
def test_the_elected_lane_is_the_same_where_lanes_are_apart(n: int) -> None:
    for schedule in SCHEDULES:
        assert (lanes(which_of_some, schedule, n)[:, 0] == lanes(which, schedule, 1)[:, 0]).all()


def test_lane_0_is_elected_where_no_instruction_elects() -> None:
    for schedule in SCHEDULES:
        assert (lanes(which, schedule, 3, "sm_80") == 0).all()


@pytest.mark.parametrize("kernel", [flag_after_wait, copied_by_the_elected], ids=lambda k: k.__name__)
def test_what_the_leader_has_waited_for_is_done_for_the_elected_thread(kernel: Any) -> None:
    for schedule in SCHEDULES:
        x = np.arange(1024, dtype=np.float32).reshape(32, 32)
        s, f, y = np.zeros_like(x), np.zeros(1, np.int32), np.zeros_like(x)
        tj.simulate(kernel, 2, x, s, f, y, schedule=schedule)
        np.testing.assert_array_equal(x, y)
