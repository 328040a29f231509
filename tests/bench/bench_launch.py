"""Host time of one launch with three arrays, by who owns them and how it is written, and of Triton's launch.

Run it: `python -m pytest tests/bench/bench_launch.py --benchmark-only`. Without a GPU a fake driver takes the calls,
so that only tilejit's own part is measured; Triton takes part where it, torch and a GPU are there.
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


def triton_kernel() -> Any:
    """What `three_arrays` does, as a Triton kernel."""
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(a, b, c, n):  # type: ignore[no-untyped-def]
        if n > 1_000_000:
            tl.store(c, tl.load(a) + tl.load(b))

    return kernel


def test_launch_of_triton(benchmark: Any) -> None:
    """With the same arguments; Triton wants the grid as a tuple."""
    if not HAS_GPU:
        pytest.skip("Triton launches on a GPU only")
    torch, _ = pytest.importorskip("torch"), pytest.importorskip("triton")
    kernel = triton_kernel()
    a, b, c = (torch.zeros(128, 64, device="cuda") for _ in range(3))
    benchmark(lambda: kernel[(4,)](a, b, c, 1))
