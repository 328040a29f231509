"""A grid with a 0, in every way to launch: arguments are checked, nothing is launched, tuned or remembered."""

from __future__ import annotations

import contextvars
import itertools
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tilejit.runtime.grid import check_grid
from tilejit.tuning.search import Search

#: the sizes of each axis; launches of kernels that don't ask for an axis are warned of
GRIDS = [g for n in (1, 2, 3) for g in itertools.product((0, 1, 4), repeat=n) if 0 in g]


@tj.kernel(threads=32)
def plain(A: tj.Tensor, n: tj.int32 = 1):
    A[tj.cta_id(0) + tj.cta_id(1) + tj.cta_id(2)] = n


@tj.kernel(threads=32, cooperative=True, target="sm_90a")
def cooperative(A: tj.Tensor, n: tj.int32 = 1):
    A[tj.cta_id(0) + tj.cta_id(1) + tj.cta_id(2)] = n
    tj.grid_sync()


@tj.kernel(threads=32, cluster=4, target="sm_90a")
def clustered(A: tj.Tensor, n: tj.int32 = 1):
    A[tj.cta_id(0) + tj.cta_id(1) + tj.cta_id(2)] = n


@tj.kernel(threads=32, debug=True)
def debugged(A: tj.Tensor, n: tj.int32 = 1):
    assert n > 1
    A[tj.cta_id(0) + tj.cta_id(1) + tj.cta_id(2)] = n


KERNELS = [plain, cooperative, clustered, debugged]


def ways(k: Any, grid: Any) -> Iterator[Callable[[Any], object]]:
    """Everything that launches a kernel on a grid."""
    yield lambda a: k[grid](a)
    yield lambda a: k[lambda A: grid](a, 1)
    yield lambda a: k[lambda m: grid](a, n=1)
    yield lambda a: k[grid].bind(a)()
    yield lambda a: k[grid].bind(np.ones_like(a))(a, 1)
    yield lambda a: k[lambda A: grid].bind(a)()


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("k", KERNELS, ids=lambda k: k.name)
@pytest.mark.parametrize("grid", [*GRIDS, 0, np.int32(0)], ids=str)
def test_nothing_is_launched_on_the_simulator(grid: Any, k: Any) -> None:
    if k is clustered and isinstance(grid, tuple) and grid[0] % 4:
        pytest.skip("no whole clusters")
    a = np.zeros(16, np.float32)
    with tj.use_device("sim:sm_90a"):
        for launch in ways(k, grid):
            for _ in range(3):
                launch(a)
    for options in ({}, {"checks": False}, {"checks": "strict"}, {"profile": True}, {"on_finding": "collect"}):
        report = tj.simulate(k, grid, a, target="sm_90a", **options)
        assert report.thread_instructions == 0 and not report.findings and str(report)
    assert not a.any()


def test_a_saved_kernel_launches_nothing(tmp_path: Path) -> None:
    a = np.zeros(16, np.float32)
    path = str(tmp_path / "k.ptx")
    plain.compile(a, 1, target="sm_90a").save(path)
    with tj.use_device("sim:sm_90a"):
        k = tj.load_compiled(path)
        for grid in (0, (4, 0), lambda m: 0):
            k[grid](a, 1)
            k[grid].bind(a, 1)()
    assert not a.any()


@pytest.mark.parametrize("bad", [-1, (0, -1), (-1, 0, 1), np.int64(-3)], ids=str)
def test_negative_numbers_are_refused(bad: Any) -> None:
    with pytest.raises(tj.LaunchError, match=r"has -\d CTAs along axis"):
        check_grid(bad)


NO_GRIDS = [False, np.bool_(False), 0.0, np.float64(0), (0, False), "0", None, (), np.zeros(1, int)]


@pytest.mark.parametrize("bad", NO_GRIDS, ids=repr)
def test_what_is_no_integer_is_refused(bad: Any) -> None:
    with pytest.raises(tj.LaunchError, match="is not a grid"):
        check_grid(bad)


def tuned(**options: Any) -> Any:
    @tj.autotune(configs=[tj.Config({"B": b}) for b in (64, 32)], **{"key": [], **options})
    @tj.kernel(threads=32)
    def ones(A: tj.Tensor, n: tj.int32, B: tj.constexpr):
        tj.cta.store(A[tj.cta_id(0) * B : tj.cta_id(0) * B + B], tj.cta.full((B,), 1.0, A.dtype))

    return ones


def rounded_up(m: Any) -> int:
    return tj.cdiv(m["n"], m["B"])


@pytest.mark.parametrize("key", [[], ["n"], ["A"]], ids=str)
@pytest.mark.parametrize("grid", [0, (0,), rounded_up], ids=["int", "tuple", "function"])
def test_nothing_is_tuned(grid: Any, key: list[str]) -> None:
    k, a = tuned(key=key), np.zeros(64, np.float32)
    with tj.use_device("sim"):
        k[grid](a, 0)
        k[grid].bind(a, 0)()
        k[grid](a, 0)
        tj.simulate(k, grid, a, 0)
        assert not k.tuning and not k._chosen and not a.any()
        # the next launch with the same key is tuned
        k[rounded_up](a, 64)
    assert len(k.tuning) == 1 and a.all()


def test_a_configuration_without_ctas_does_not_win() -> None:
    k, a = tuned(), np.zeros(64, np.float32)
    with tj.use_device("sim"):
        k[lambda m: m["n"] // m["B"]](a, 32)
    (tuning,) = k.tuning
    assert tuning.best.config.values == {"B": 32} and a.sum() == 32
    assert tuning.trials[0].reason == "EmptyGrid: the grid has no CTAs" and not tuning.is_final


def test_a_launch_that_waited_for_an_empty_one_is_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    k, a, waiting = tuned(), np.zeros(64, np.float32), threading.Event()
    begun, run = threading.Event(), Search.run

    def slowly(self: Search, launcher: Any) -> None:
        begun.set()
        waiting.wait(10)
        run(self, launcher)

    monkeypatch.setattr(Search, "run", slowly)
    with tj.use_device("sim"):
        contexts = [contextvars.copy_context() for _ in range(2)]
    threads = [
        threading.Thread(target=context.run, args=(k[rounded_up], a, n))
        for context, n in zip(contexts, (0, 64), strict=True)
    ]
    threads[0].start()
    assert begun.wait(60)
    threads[1].start()
    threads[1].join(0.2)
    waiting.set()
    for thread in threads:
        thread.join(60)
    assert len(k.tuning) == 1 and a.all()
