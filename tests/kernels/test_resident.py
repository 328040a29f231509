"""`tj.simulate(..., resident=n)`: CTAs that wait for others, when only some of them run at once."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj

CTAS = 8


@tj.kernel(threads=64)
def waiting(F: tj.Tensor, Out: tj.Tensor, waits_for: tj.Tensor):
    """Each CTA waits for the one that `waits_for` names, if that isn't itself, then reports itself."""
    i = tj.cta_id(0)
    j = waits_for[i]
    if j != i:
        while tj.load_acquire(F[j]) == 0:
            pass
    tj.cta_sync()
    if tj.thread_id() == 0:
        Out[i] = i + 1
        tj.store_release(F[i], 1)


@tj.kernel(threads=32, cluster=(2, 1, 1))
def clusters(F: tj.Tensor, Out: tj.Tensor, waits_for: tj.Tensor):
    i = tj.cta_id(0)
    j = waits_for[i]
    if j != i:
        while tj.load_acquire(F[j]) == 0:
            pass
    tj.cluster_sync()
    if tj.thread_id() == 0:
        Out[i] = i + 1
        tj.store_release(F[i], 1)


@tj.kernel(threads=32, cooperative=True)
def together(A: tj.Tensor):
    A[tj.cta_id(0)] = 1
    tj.grid_sync()
    A[tj.num_ctas(0) + tj.cta_id(0)] = A[tj.num_ctas(0) - 1 - tj.cta_id(0)]


def run(kernel: tj.Kernel, waits_for: list[int], **options: object) -> list[int]:
    flags, out = np.zeros(len(waits_for), np.int32), np.zeros(len(waits_for), np.int32)
    tj.simulate(kernel, len(waits_for), flags, out, np.array(waits_for, np.int32), **options)
    return out.tolist()


BEFORE = [max(i - 1, 0) for i in range(CTAS)]
AFTER = [min(i + 1, CTAS - 1) for i in range(CTAS)]
DONE = list(range(1, CTAS + 1))


@pytest.mark.parametrize("schedule", range(4))
@pytest.mark.parametrize("resident", [1, 2, 3, 7, 8, 100, None])
def test_ctas_that_wait_for_earlier_ones_end_however_few_run_at_once(resident: int | None, schedule: int) -> None:
    assert run(waiting, BEFORE, resident=resident, schedule=schedule) == DONE


@pytest.mark.parametrize("schedule", range(4))
@pytest.mark.parametrize("resident", [1, 3, 7])
def test_ctas_that_wait_for_later_ones_are_a_deadlock_unless_all_run_at_once(resident: int, schedule: int) -> None:
    message = rf"{CTAS - resident} of 8 CTAs have not started: at most {resident} run at once"
    with pytest.raises(tj.DeadlockError, match=message) as error:
        run(waiting, AFTER, resident=resident, schedule=schedule)
    assert error.value.span is not None and "while tj.load_acquire" in error.value.span.text
    assert "lower indices" in str(error.value)
    assert run(waiting, AFTER, resident=CTAS, schedule=schedule) == DONE == run(waiting, AFTER, schedule=schedule)


def test_the_next_cta_starts_when_any_one_ends() -> None:
    # CTA 1 ends, so CTA 2 starts, while CTA 0 still waits for it; CTA 3 can't start before one of the two ends
    assert run(waiting, [2, 1, 2, 3], resident=2) == [1, 2, 3, 4]
    with pytest.raises(tj.DeadlockError, match="1 of 4 CTAs have not started: at most 2"):
        run(waiting, [2, 1, 3, 3], resident=2)


def test_a_deadlock_of_ctas_that_all_run_says_nothing_of_others() -> None:
    with pytest.raises(tj.DeadlockError, match="deadlock") as error:
        run(waiting, [1, 0], resident=2)
    assert "have not started" not in str(error.value)


@pytest.mark.parametrize("resident", [2, 3, 4, 5, 8])
def test_clusters_start_whole(resident: int) -> None:
    # cluster 0 waits for cluster 1, which needs two more places
    waits_for = [2, 1, 2, 3, 3, 5, 5, 7]
    if resident < 4:
        with pytest.raises(tj.DeadlockError, match=f"6 of 8 CTAs have not started: at most {resident}"):
            run(clusters, waits_for, resident=resident)
    else:
        assert run(clusters, waits_for, resident=resident) == DONE


def test_less_than_a_cluster_is_refused() -> None:
    with pytest.raises(tj.LaunchError, match="a cluster of 2 CTAs runs at once; got 1"):
        run(clusters, BEFORE, resident=1)


def test_a_cooperative_launch_needs_all_its_ctas() -> None:
    a = np.zeros(8, np.int32)
    tj.simulate(together, 4, a, resident=4)
    assert (a == 1).all()
    with pytest.raises(tj.LaunchError, match="the 4 CTAs of a cooperative launch .*; resident=3"):
        tj.simulate(together, 4, a, resident=3)


@pytest.mark.parametrize("resident", [0, -1, True, 2.0, "2"])
def test_what_is_no_number_of_ctas_is_refused(resident: object) -> None:
    with pytest.raises(tj.LaunchError, match=r"resident=.* is not a number of CTAs"):
        run(waiting, BEFORE, resident=resident)


def test_orders_are_those_of_ctas_that_all_run() -> None:
    with pytest.raises(tj.LaunchError, match="orders="):
        run(waiting, BEFORE, resident=2, orders="all")


def test_races_and_reports_are_the_same() -> None:
    flags, out, waits_for = (np.zeros(CTAS, np.int32) for _ in range(3))
    waits_for[:] = BEFORE
    report = tj.simulate(waiting, CTAS, flags, out, waits_for, resident=2, profile=True)
    flags[:] = 0
    assert report.lines.keys() == tj.simulate(waiting, CTAS, flags, out, waits_for, profile=True).lines.keys()

    @tj.kernel(threads=32)
    def unordered(A: tj.Tensor, F: tj.Tensor):
        if tj.cta_id(0) == 1:
            while tj.load_acquire(F[0]) == 7:
                pass
        A[0] = tj.cta_id(0)

    # one CTA runs after the other, which orders nothing
    for resident in (1, 2):
        with pytest.raises(tj.RaceError):
            tj.simulate(unordered, 2, np.zeros(1, np.int32), np.zeros(1, np.int32), resident=resident)
