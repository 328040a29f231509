"""Judgements of CUDA C++, in the integration tier."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sanitize.test_for_cuda import nvrtc_works
from tilejit.testing import CudaCandidate, CudaLaunch, judge

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not nvrtc_works(), reason="NVRTC is not installed: pip install -e '.[cuda]'"),
]

SOURCE = """
template <typename T> __global__ void squared(const T* x, T* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (GUARD) y[i] = x[i] * x[i];
}
"""


def launch(x: np.ndarray, y: np.ndarray) -> CudaLaunch:
    return CudaLaunch((-(-x.size // 64),), (64,), (x, y, np.int32(x.size)))


def launch_first(x: np.ndarray, y: np.ndarray) -> CudaLaunch:
    return CudaLaunch((1,), (64,), (x, y, np.int32(x.size)))


def launch_halves(x: np.ndarray, y: np.ndarray) -> CudaLaunch:
    half = x.size // 2
    rest = x.size - half
    return CudaLaunch((-(-rest // 64),), (64,), (x[half:], y[half:], np.int32(rest), x, y, np.int32(half)))


def judged(guard: str, launch=launch):
    candidate = CudaCandidate(SOURCE.replace("GUARD", guard), "squared<float>", launch)
    draw = lambda seed: [np.random.default_rng(seed).random(128, np.float32)]  # noqa: E731
    return judge(candidate, lambda x: x * x, draw)


def test_an_honest_kernel_is_accepted() -> None:
    verdict = judged("i < n")
    assert verdict, str(verdict)
    assert verdict.launches == len(verdict.trials)


def test_what_a_comparison_of_one_shape_accepts_is_refused() -> None:
    verdict = judged("true")
    assert verdict.rules == {"bounds"} and "y" in str(verdict) and "candidate.cu:4" in str(verdict)
    assert judged("i < n", launch_first).rules == {"unwritten"}


def test_several_arguments_may_be_views_of_one_array() -> None:
    source = """
    __device__ void square(const float* x, float* y, int n) {
        int i = blockIdx.x * 64 + threadIdx.x;
        if (i < n) y[i] = x[i] * x[i];
    }
    extern "C" __global__ void halves(const float* a, float* b, int n, const float* x, float* y, int m) {
        square(a, b, n);
        square(x, y, m);
    }
    """
    candidate = CudaCandidate(source, "halves", launch_halves)
    verdict = judge(candidate, lambda x: x * x, [np.arange(128, dtype=np.float32)])
    assert verdict, str(verdict)


def test_source_that_does_not_compile_is_an_error_of_the_candidate() -> None:
    (reason,) = judged("i <").reasons
    assert reason.rule == "error" and "candidate.cu(4)" in reason.message
