"""Compile times as ratios: of our stages to LLVM's, and of a compilation to a look into the cache."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import tilejit as tj
from examples.matmul import matmul
from tests.bench.bench_compile import demonstrations

ROUNDS = 5


def least_seconds(run: Callable[[], object]) -> float:
    """The shortest of some runs, after one that warms up: other work on the machine only ever adds."""
    run()
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


@pytest.mark.parametrize("name", list(demonstrations()))
def test_our_own_stages_take_less_than_three_times_llvms(name: str, benchmark: BenchmarkFixture) -> None:
    """Measured: 0.9 to 1.5 times."""
    make = demonstrations()[name]
    benchmark.pedantic(make, rounds=3, warmup_rounds=1)
    llvm, own = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        timings = make().timings
        total = 1e3 * (time.perf_counter() - began)
        llvm.append(sum(ms for stage, ms in timings.items() if stage.startswith("codegen.llvm")))
        own.append(total - llvm[-1])
    assert min(own) < 3 * min(llvm)


def test_a_kernel_that_is_compiled_already_is_found_a_hundred_times_faster(benchmark: BenchmarkFixture) -> None:
    """Measured: 1,800 times."""
    square = tj.spec((8192, 8192), tj.float16)
    arguments = (square, square, None, square, None)
    again = tj.kernel(threads=256)(matmul.__wrapped__)
    benchmark(lambda: again.compile(*arguments, target="sm_90a"))
    found = least_seconds(lambda: again.compile(*arguments, target="sm_90a"))
    anew = least_seconds(demonstrations()["matmul"])
    assert 100 * found < anew
