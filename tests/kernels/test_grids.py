"""Grids whose CTAs wait for each other."""

import numpy as np
import pytest

import tilejit as tj
from tests.support.ptxas import ptxas_accepts


@pytest.fixture(params=["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def where(request):
    with tj.use_device(request.param):
        yield request.param


@tj.kernel(threads=64, cooperative=True)
def reversed_and_doubled(X: tj.Tensor, Y: tj.Tensor, turns: tj.int32):
    t = tj.thread_id() + tj.cta_id(0) * 64 + tj.cta_id(1) * 64 * tj.num_ctas(0)
    for _turn in range(turns):
        x = X[X.shape[0] - 1 - t]
        tj.grid_sync()
        X[t] = x * 2
        tj.grid_sync()
    Y[t] = X[t]


def wanted(x, turns):
    for _ in range(turns):
        x = x[::-1] * 2
    return x


@pytest.mark.parametrize("grid", [1, 2, 7, (2, 3)], ids=str)
def test_all_ctas_wait_for_each_other_every_time(grid, where):
    count = 64 * int(np.prod(grid))
    x = np.arange(count, dtype=np.int32)
    y = np.zeros_like(x)
    for turns in (5, 1, 2):
        before = x.copy()
        reversed_and_doubled[grid](x, y, turns)
        np.testing.assert_array_equal(y, wanted(before, turns))


@pytest.mark.parametrize("schedule", range(4))
def test_all_ctas_wait_in_every_order(schedule):
    x = np.arange(320, dtype=np.int32)
    y = np.zeros_like(x)
    tj.simulate(reversed_and_doubled, 5, x, y, 3, schedule=schedule, checks="strict")
    np.testing.assert_array_equal(y, wanted(np.arange(320, dtype=np.int32), 3))


def test_a_barrier_left_out_is_a_race():
    @tj.kernel(threads=64, cooperative=True)
    def kernel(X: tj.Tensor):
        t = tj.thread_id() + tj.cta_id(0) * 64
        x = X[X.shape[0] - 1 - t]
        tj.grid_sync()
        X[t] = x
        X[0] = X[X.shape[0] - 1]

    with pytest.raises(tj.RaceError, match="X"):
        tj.simulate(kernel, 2, np.zeros(128, np.int32))


def test_a_cta_that_stays_away_is_a_deadlock():
    @tj.kernel(threads=32, cooperative=True)
    def kernel(X: tj.Tensor):
        if tj.cta_id(0) != 1:
            tj.grid_sync()
        X[tj.cta_id(0)] = 1

    with pytest.raises(tj.DeadlockError):
        tj.simulate(kernel, 3, np.zeros(3, np.int32))


@pytest.mark.parametrize("target", ["sm_75", "sm_90a", "sm_100a"])
def test_ptxas_takes_the_barrier(target):
    arrays = np.zeros(64, np.int32), np.zeros(64, np.int32)
    made = reversed_and_doubled.compile(*arrays, np.int32(1), target=target)
    ptxas_accepts(made.ptx, target)
    assert "atom.release.gpu.global.add.u32" in made.ptx and "ld.acquire.gpu.global" in made.ptx
    assert made.executable.cooperative


@pytest.mark.gpu
def test_a_gpu_refuses_a_grid_that_cant_be_resident_and_runs_the_next():
    with tj.use_device("cuda"):
        x = np.arange(64, dtype=np.int32)
        y = np.zeros_like(x)
        with pytest.raises(tj.LaunchError, match=r"the 1,000,000 CTAs of a cooperative launch .* multiprocessors"):
            reversed_and_doubled[1_000_000](x, y, 1)
        reversed_and_doubled[1](x, y, 1)
    np.testing.assert_array_equal(y, np.arange(64)[::-1] * 2)


def test_only_a_cooperative_kernel_waits_for_its_grid():
    @tj.kernel(threads=32)
    def alone(X: tj.Tensor):
        tj.grid_sync()

    @tj.kernel(threads=32, cooperative=True)
    def divergent(X: tj.Tensor):
        if tj.lane_id() == 0:
            tj.grid_sync()

    with pytest.raises(tj.KernelTypeError, match="can't start until others have ended"):
        alone.compile(np.zeros(1, np.int32))
    with pytest.raises(tj.DispatchError, match="grid_sync"):
        divergent.compile(np.zeros(1, np.int32))
