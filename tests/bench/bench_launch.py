"""Host time of one launch with three arrays, by who owns them and how it is written.

Run it: `python -m pytest tests/bench/bench_launch.py --benchmark-only`. Without a GPU a fake driver takes the calls,
so that only tilejit's own part is measured.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.runtime.test_arrays import Tensor
from tilejit.runtime import devices

pytest.importorskip("cuda.bindings")

HAS_GPU = devices.cuda_problem() is None


@tj.kernel(threads=32)
def three_arrays(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, n: tj.int32):
    if n > 1_000_000:
        C[0, 0] = A[0, 0] + B[0, 0]


@pytest.fixture(scope="module")
def driver() -> None:
    """The real driver, or a fake one where there is none: for good, since memory outlives the tests."""
    if devices.cuda_problem() is None:
        return
    from tests.runtime.fake_driver import SUCCESS, FakeDriver
    from tilejit.runtime import cuda, cuda_driver, cuda_memory

    fake = FakeDriver()
    fake.cuLaunchKernel = lambda *args: (SUCCESS,)
    for module in (cuda, cuda_driver, cuda_memory):
        module.driver = fake
    for cached in (devices.cuda_problem, devices.named, devices._cuda, devices._best):
        cached.cache_clear()


@pytest.fixture(params=["torch", "tilejit"])
def arguments(request: pytest.FixtureRequest, driver: None) -> list[Any]:
    if request.param == "tilejit":
        return [*(tj.empty((128, 64), tj.float32) for _ in range(3)), 1]
    if not HAS_GPU:
        return [*(Tensor(np.zeros((128, 64), np.float32)) for _ in range(3)), 1]
    torch = pytest.importorskip("torch")
    return [*(torch.zeros(128, 64, device="cuda") for _ in range(3)), 1]


def test_launch(benchmark: Any, arguments: list[Any]) -> None:
    benchmark(lambda: three_arrays[4](*arguments))


def test_launch_with_the_grid_kept(benchmark: Any, arguments: list[Any]) -> None:
    benchmark(three_arrays[4], *arguments)


def test_prepared_launch(benchmark: Any, arguments: list[Any]) -> None:
    benchmark(three_arrays[4].bind(*arguments))
