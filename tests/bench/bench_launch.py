"""Host time of one launch, by what is passed and how.

Run on a machine with a GPU: `python -m pytest tests/bench/bench_launch.py --benchmark-only`. Without a GPU a fake
driver takes the calls, so that only tilejit's own part is measured.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tilejit as tj
from tests.runtime.fake_driver import FakeDriver
from tests.runtime.test_arrays import Tensor
from tilejit.runtime import devices

cuda = pytest.importorskip("tilejit.runtime.cuda")


@tj.kernel(threads=32)
def three_arrays(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, n: tj.int32):
    if n > 1_000_000:
        C[0, 0] = A[0, 0] + B[0, 0]


class QuietDriver(FakeDriver):
    """Counts nothing, so that it costs little."""

    def cuLaunchKernel(self, *args):
        return self._launched

    _launched = (cuda.SUCCESS,)


@pytest.fixture(scope="module")
def arrays():
    """Three arrays on cuda:0: of torch where it is installed, else its look-alikes."""
    if devices.cuda_problem() is None and "torch" in sys.modules:
        import torch

        yield [torch.zeros(128, 64, device="cuda") for _ in range(3)]
        return
    if devices.cuda_problem() is None:
        yield [tj.empty((128, 64), tj.float32) for _ in range(3)]
        return
    patch = pytest.MonkeyPatch()
    driver = QuietDriver()
    from tilejit.runtime import cuda_driver, cuda_memory

    for module in (cuda, cuda_driver, cuda_memory):
        patch.setattr(module, "driver", driver)
    for cached in (devices.cuda_problem, devices.named, devices._cuda, devices._best):
        cached.cache_clear()
    driver.cuCtxPushCurrent(100)
    yield [Tensor(np.zeros((128, 64), np.float32)) for _ in range(3)]
    patch.undo()
    for cached in (devices.cuda_problem, devices.named, devices._cuda, devices._best):
        cached.cache_clear()


def test_launch(benchmark, arrays):
    three_arrays[4](*arrays, 1)
    benchmark(lambda: three_arrays[4](*arrays, 1))


def test_launch_with_the_grid_kept(benchmark, arrays):
    launcher = three_arrays[4]
    launcher(*arrays, 1)
    benchmark(launcher, *arrays, 1)


def test_prepared_launch(benchmark, arrays):
    benchmark(three_arrays[4].bind(*arrays, 1))
