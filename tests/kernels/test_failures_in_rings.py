"""A thread that fails an assertion fills and releases no further stage; its waiters end, too, and this is reported."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import tilejit as tj

STEPS, ENOUGH, TOO_FEW = 8, 8, 3


@tj.kernel(threads=256, debug=True, target="sm_90a")
def in_a_cta(A: tj.Tensor, allowed: tj.int32, producer: tj.int32, first: tj.int32) -> None:
    ring = tj.alloc_ring(2)
    x = tj.alloc_shared((2, 128), tj.float32)
    column = tj.thread_id() % 128
    fails = tj.cta_id() >= first
    if tj.warpgroup_id() == 0:
        for i in range(STEPS):
            t = ring[i]
            t.acquire()
            if fails and producer == 1:
                assert i < allowed, "too many produced"
            x[t.stage, column] = i
            tj.wg.commit(t)
    else:
        for i in range(STEPS):
            t = ring[i]
            t.wait()
            if fails and producer == 0 and column == 77:
                assert i < allowed, "too many consumed"
            A[tj.cta_id(), i, column] = x[t.stage, column]
            tj.wg.release(t)


@tj.kernel(threads=64, cluster=2, debug=True, target="sm_90a")
def in_a_cluster(A: tj.Tensor, D: tj.Tensor, allowed: tj.int32, producer: tj.int32, first: tj.int32) -> None:
    ring = tj.alloc_ring(2, multicast=0)
    x = tj.alloc_shared((2, 8, 128), tj.float32)
    fails = tj.cta_id() >= first and tj.cluster.rank() == 1
    if tj.warp_id() == 0:
        for i in range(STEPS):
            t = ring[i]
            t.acquire()
            if fails and producer == 1:
                assert i < allowed, "too many produced"
            tj.warp.copy_async(x[t.stage], D.tile((8, 128), (i, 0)), barrier=t, multicast=0)
            tj.warp.commit(t)
    else:
        for i in range(STEPS):
            t = ring[i]
            t.wait()
            if fails and producer == 0:
                assert i < allowed, "too many consumed"
            tj.warp.copy_async(A[tj.cta_id(), i * 8 : i * 8 + 8, 0:128], x[t.stage])
            tj.bulk.wait_read(0)
            tj.warp.release(t)
        tj.bulk.wait(0)


def check(ctas: int, rounds: int) -> None:
    """Launches that fail here and there, each followed by one that must be right; on the device that is used."""
    rows = np.repeat(np.arange(STEPS, dtype=np.float32), 8)[:, None] + np.zeros((1, 128), np.float32)
    for _, first, producer in product(range(rounds), (0, ctas - 2), (0, 1)):
        message = "too many produced" if producer else "too many consumed"
        a, b = np.zeros((ctas, STEPS, 128), np.float32), np.zeros((ctas, 8 * STEPS, 128), np.float32)
        with pytest.raises(AssertionError, match=message):
            in_a_cta[ctas](a, TOO_FEW, producer, first)
        in_a_cta[ctas](a, ENOUGH, producer, first)
        with pytest.raises(AssertionError, match=message):
            in_a_cluster[ctas](b, rows, TOO_FEW, producer, first)
        in_a_cluster[ctas](b, rows, ENOUGH, producer, first)
        assert (a == np.arange(STEPS)[:, None]).all() and (b == rows).all()


def test_the_simulator_tells_what_failed() -> None:
    with tj.use_device("sim"):
        check(ctas=4, rounds=1)


@pytest.mark.gpu
def test_a_gpu_doesnt_wait_for_ever() -> None:
    # another process: one that a kernel keeps busy for ever can't be asked to go on
    code = "import tests.kernels.test_failures_in_rings as t\nt.check(ctas=300, rounds=3)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=Path(__file__).parents[2])
