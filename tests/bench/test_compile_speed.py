"""Compile time as ratios: of our stages to LLVM's, of compiling to a look into the cache, of work to length.

Work is the number of Python functions that a compilation calls. The numbers recorded here were measured once, and a
count may be `MARGIN` times the recorded one.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import tilejit as tj
from examples.matmul import matmul
from tests.bench.bench_compile import demonstrations
from tests.support.example_sizes import EXAMPLES
from tests.support.ptx import length
from tilejit import pipeline
from tilejit.compiled import Compiled
from tilejit.dataclass import replace
from tilejit.executable.census import census
from tilejit.ir.nodes import Buffer
from tilejit.lower.open import lay_out
from tilejit.runtime import devices

pytestmark = pytest.mark.integration

ROUNDS = 5


@pytest.fixture(autouse=True)
def as_users_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "VERIFY_EACH", False)


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
def test_our_own_stages_take_less_than_three_times_llvms(
    name: str, benchmark: BenchmarkFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured: 0.9 to 1.5 times, in CPU time, to which other work on the machine adds little."""
    make = demonstrations()[name]
    benchmark.pedantic(make, rounds=3, warmup_rounds=1)
    monkeypatch.setattr(time, "perf_counter", time.thread_time)
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


def chain(turns: int) -> Compiled:
    """A kernel of three elementwise operations per iteration, unrolled."""

    def chained(X: tj.Tensor, Y: tj.Tensor, TURNS: tj.constexpr):
        x = tj.cta.load(X[0:4, 0:128])
        y = x
        for _ in tj.static_range(TURNS):
            y = (y + x) * x - y
        tj.cta.store(Y[0:4, 0:128], y)

    array = tj.spec((4, 128), tj.float32)
    return tj.kernel(threads=128)(chained).compile(array, array, turns, target="sm_90a")


#: a count may be this many times the recorded one: helper functions are welcome, growth is not
MARGIN = 1.25

#: which Python 3.12 runs in the frame around them, older ones in frames of their own
_COMPREHENSIONS = frozenset(("<listcomp>", "<dictcomp>", "<setcomp>"))


def calls_of(run: Callable[[], object]) -> int:
    """How many functions of Python a run calls: a measure that other work on the machine doesn't touch.

    What is remembered of an earlier run isn't counted.
    """
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_name not in _COMPREHENSIONS

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


def test_a_kernel_ten_times_as_long_takes_ten_times_the_work() -> None:
    """Recorded for 9, 99 and 999 operations: 5.9 and 9.3 times; 658 calls for each further operation."""
    chain(1)
    few, some, many = (calls_of(partial(chain, turns)) for turns in (3, 33, 333))
    assert 4 * few < some < 1.3 * 10 * few
    assert 5 * some < many < 1.3 * 10 * some
    assert many - some < MARGIN * 658 * 900


def _reductions(X: tj.Tensor, Y: tj.Tensor, TURNS: tj.constexpr):
    x = tj.cta.load(X[0:4, 0:128])
    for _ in tj.static_range(TURNS // 3):
        x = x - tj.sum(x, axis=1)[:, None]
    tj.cta.store(Y[0:4, 0:128], x)


def _loops(X: tj.Tensor, Y: tj.Tensor, TURNS: tj.constexpr):
    x = tj.cta.load(X[0:4, 0:128])
    for _ in tj.static_range(TURNS // 4):
        for k in range(X.shape[0]):
            x = x * 2 + k
    tj.cta.store(Y[0:4, 0:128], x)


def _masks(X: tj.Tensor, Y: tj.Tensor, TURNS: tj.constexpr):
    i = tj.cta.indices((4, 128), 1)
    for k in tj.static_range(TURNS // 4):
        x = tj.cta.load(X[4 * k : 4 * k + 4, 0:128], mask=i < X.shape[0])
        tj.cta.store(Y[4 * k : 4 * k + 4, 0:128], x, mask=i < X.shape[1] - k)


def _selections(X: tj.Tensor, Y: tj.Tensor, TURNS: tj.constexpr):
    x = tj.cta.load(X[0:4, 0:128])
    for _ in tj.static_range(TURNS // 4):
        x = tj.where(x > 1, x * 2, x - 1)
    tj.cta.store(Y[0:4, 0:128], x)


def _exchanges(X: tj.Tensor, Y: tj.Tensor, TURNS: tj.constexpr):
    x = tj.cta.load(X[0:32, 0:32])
    for _ in tj.static_range(TURNS // 2):
        x = x + x.T
    tj.cta.store(Y[0:32, 0:32], x)


def _products(X: tj.Tensor, Y: tj.Tensor, TURNS: tj.constexpr):
    a = tj.cta.load(X[0:32, 0:32]).astype(tj.float16)
    x = a @ a
    for _ in tj.static_range(TURNS // 3):
        x += a @ x.astype(tj.float16)
    tj.cta.store(Y[0:32, 0:32], x)


def _staged(X: tj.Tensor, Y: tj.Tensor, TURNS: tj.constexpr):
    x, s = tj.cta.load(X[0:4, 0:128]), tj.alloc_shared((4, 128), tj.float32)
    for _ in tj.static_range(TURNS // 3):
        tj.cta.store(s, x)
        tj.cta_sync()
        x = tj.cta.load(s) + 1
        tj.cta_sync()
    tj.cta.store(Y[0:4, 0:128], x)


def _copies(X: tj.Tensor, Y: tj.Tensor, TURNS: tj.constexpr):
    s = tj.sum(tj.cta.load(X[0:4, 0:128]))
    if tj.thread_id() == 0:
        t = s * 2
        for _ in tj.static_range(TURNS // 2):
            t = t * s + X[0, 0]
        Y[0, 0] = t


OF_EACH_KIND = (_reductions, _loops, _masks, _selections, _exchanges, _products, _staged, _copies)


def compiled(kernel: Callable[..., None], operations: int) -> Compiled:
    array = tj.spec((4096, 128), tj.float32)
    return tj.kernel(threads=128)(kernel).compile(array, array, operations, target="sm_90a")


@pytest.mark.parametrize(
    "kernel",
    [k if k is _selections else pytest.param(k, marks=pytest.mark.long) for k in OF_EACH_KIND],
    ids=lambda k: k.__name__.strip("_"),
)
def test_operations_of_any_kind_take_work_in_proportion(kernel: Callable[..., None]) -> None:
    """Measured of 100 and of 1,000 operations: 8.6 to 10.4 times (of 120 and 400 selections 3.1)."""
    compiled(kernel, 12)
    few, many = (120, 400) if kernel is _selections else (100, 1000)
    some = calls_of(partial(compiled, kernel, few))
    assert calls_of(partial(compiled, kernel, many)) < 1.1 * many / few * some


def test_laying_out_takes_a_small_share_of_a_long_kernels_compilation() -> None:
    """Recorded: a ninth of the calls."""
    made = chain(33)
    assert calls_of(partial(lay_out, made.derivation.open)) < MARGIN / 9 * calls_of(partial(chain, 33))


#: the passes that look at a kernel and change nothing of it, or some of its statements
LOOKING = ("initialized", "in place", "registers", "polls", "expects", "proxies", "arrivals", "pending", "packed")


def test_passes_that_only_look_take_a_small_share_of_a_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded: 0.198 of the calls, those of verification included."""
    make = EXAMPLES["attention full 128"]
    make()
    every, looking = calls_of(make), 0

    def counted(run: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any) -> Any:
            nonlocal looking
            results = []
            looking += calls_of(lambda: results.append(run(*arguments)))
            return results[0]

        return counting

    passes = [replace(step, run=counted(step.run)) if step.name in LOOKING else step for step in pipeline.PASSES]
    assert set(LOOKING) <= {step.name for step in passes}
    monkeypatch.setattr(pipeline, "PASSES", tuple(passes))
    monkeypatch.setattr(pipeline, "verify", counted(pipeline.verify))
    make()
    assert looking < MARGIN * 0.198 * every


#: example -> more work than its length: bodies of nested loops are translated until the types of their variables are
#: known
FOLDED = {"top_k": 1.87}


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_an_example_is_short_and_takes_no_more_work_than_its_length_allows(name: str) -> None:
    """Recorded: at most 2,722 PTX instructions, attention's 1,161; and 0.999 of these calls."""
    make = EXAMPLES[name]
    ptx = make().ptx
    assert census(ptx).instructions <= MARGIN * 2_400
    assert length(ptx) <= 1300 or not name.startswith("attention")
    assert calls_of(make) < MARGIN * FOLDED.get(name, 1.0) * (15_000 + 105 * length(ptx))


@pytest.mark.parametrize("name", ["attention causal 128", "cross_entropy", "matmul", "vector_add"])
def test_a_compilation_leaves_nothing_for_the_cyclic_collector_but_buffers(name: str) -> None:
    """Measured: 3.4 objects a buffer, with what only buffers refer to; 100 a buffer with a few closures in cycles."""
    make = EXAMPLES[name]
    make()
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        make()
        gc.collect()
        left = list(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert len(left) <= 5 * sum(isinstance(each, Buffer) for each in left)


@pytest.mark.parametrize(
    ("name", "recorded"), [("global_shared", 5563), ("shared_registers", 6044), ("square_root", 6677)]
)
def test_a_small_kernel_takes_few_calls(name: str, recorded: int) -> None:
    """Reading the kernel takes a seventh of the calls."""
    make = demonstrations()[name]
    make()
    assert calls_of(make) < MARGIN * recorded


def test_a_second_variant_takes_few_calls_from_the_call_to_its_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded with an empty cache: 1,950 calls, of which compiling takes four fifths."""
    pytest.importorskip("cuda.bindings")
    from tests.runtime.fake_driver import FakeDriver, forget_devices, install

    monkeypatch.setenv("TILEJIT_CACHE", "1")
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(devices, "_used", {})
    monkeypatch.setattr(devices, "_has_driver", lambda: True)
    install(FakeDriver(), monkeypatch.setattr)
    forget_devices()

    @tj.kernel(threads=128)
    def add(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor) -> None:
        i = tj.cta_id() * 128 + tj.thread_id()
        C[i] = A[i] + B[i]

    try:
        with tj.use_device("cuda"):
            single, half = ([tj.to_device(np.ones(4096, t)) for _ in range(3)] for t in (np.float32, np.float16))
            add[32](*single)
            assert calls_of(lambda: add[32](*half)) < MARGIN * 1950
    finally:
        forget_devices()
