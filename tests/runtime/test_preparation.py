"""Work that is done ahead: errors come from where the result is needed, and nothing depends on a thread."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tilejit import pipeline
from tilejit.errors import LaunchError
from tilejit.runtime import devices
from tilejit.runtime.device import Preparation


def test_it_runs_beside_and_once() -> None:
    begin, runs = threading.Event(), []
    preparation = Preparation(lambda: (begin.wait(), runs.append(threading.current_thread())))
    assert preparation.is_running and not runs
    begin.set()
    preparation.wait()
    preparation.wait()
    assert len(runs) == 1 and runs[0] is not threading.current_thread() and not runs[0].daemon
    assert not preparation.is_running


def test_its_error_is_nobodys() -> None:
    def fail() -> None:
        raise ValueError("as the caller that needs it will see")

    preparation = Preparation(fail)
    preparation.wait()
    assert not preparation.is_running


def test_where_no_thread_can_be_started_it_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    runs: list[int] = []
    preparation = Preparation(lambda: runs.append(1))
    preparation.wait()
    assert not runs and not preparation.is_running


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork_the_child_does_not_wait_for_the_parents_thread() -> None:
    finish = threading.Event()
    preparation = Preparation(finish.wait)
    child = os.fork()
    if not child:
        preparation.wait()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    finish.set()
    preparation.wait()
    assert status == 0


def test_what_is_imported_ahead_exists() -> None:
    for name in devices._COMPILER:
        __import__(f"tilejit.{name}")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("cuda.bindings")
    from tests.runtime.fake_driver import FakeDriver, install

    driver = install(FakeDriver(), monkeypatch.setattr)
    retained: list[threading.Thread] = []
    retain = driver.cuDevicePrimaryCtxRetain

    def counted(device: int) -> Any:
        retained.append(threading.current_thread())
        return retain(device)

    driver.cuDevicePrimaryCtxRetain = counted
    driver.retained = retained
    return driver


def test_modules_are_imported_while_the_driver_is_initialized_and_no_longer(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilejit.runtime import cuda

    class Finished(Preparation):
        def __init__(self, work: Any) -> None:
            super().__init__(work)
            self.wait()

    finish = threading.Event()
    monkeypatch.setattr(cuda, "problem", lambda: None if finish.wait(10) else "too late")
    monkeypatch.setattr(devices, "_has_driver", lambda: True)
    monkeypatch.setattr(devices, "_COMPILER", ("isa", "runtime.not_there"))
    with pytest.raises(ModuleNotFoundError):
        devices.cuda_problem.__wrapped__()
    finish.set()
    monkeypatch.setattr(devices, "Preparation", Finished)
    assert devices.cuda_problem.__wrapped__() is None


def test_a_context_is_made_when_it_is_needed_and_ahead_in_a_thread_of_its_own(fake: Any) -> None:
    from tilejit.runtime.cuda import CudaDevice

    device = CudaDevice(0)
    assert device.target.name == "sm_90a" and not fake.retained
    device.prepare()
    device.prepare()
    assert device.context == 100
    assert [thread is threading.current_thread() for thread in fake.retained] == [False, True]
    device.prepare()
    assert device.context == 100 and len(fake.retained) == 2


def test_a_context_that_cant_be_made_is_the_launchs_error(fake: Any) -> None:
    from tilejit.runtime.cuda import CudaDevice

    fake.errors["cuDevicePrimaryCtxRetain"] = fake.CUresult.CUDA_ERROR_DEVICE_UNAVAILABLE
    fake.cuDevicePrimaryCtxRetain.__name__ = "cuDevicePrimaryCtxRetain"
    device = CudaDevice(0)
    device.prepare()
    with pytest.raises(LaunchError, match="CUDA_ERROR_DEVICE_UNAVAILABLE from cuDevicePrimaryCtxRetain"):
        device.allocate(16)


def test_use_device_refuses_a_gpu_without_a_context_at_once(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cuda_problem", lambda: None)
    for cached in (devices.named, devices._cuda, devices._best):
        cached.cache_clear()
    fake.errors["cuDevicePrimaryCtxRetain"] = fake.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    try:
        with pytest.raises(LaunchError, match="OUT_OF_MEMORY"), tj.use_device("cuda"):
            pass
    finally:
        devices._used.clear()
        for cached in (devices.named, devices._cuda, devices._best):
            cached.cache_clear()


@pytest.fixture
def first_launch(fake: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The driver as a launch of host arrays finds it that is the first of a process."""
    from tests.runtime.fake_driver import forget_devices

    monkeypatch.delenv("TILEJIT_DEVICE", raising=False)
    monkeypatch.setattr(devices, "_has_driver", lambda: True)
    monkeypatch.setattr(devices, "_used", {})
    forget_devices()
    yield fake
    forget_devices()


@tj.kernel(threads=32)
def one(A: tj.Tensor) -> None:
    A[tj.lane_id()] = 1


def test_a_kernels_first_launch_makes_the_context_while_it_compiles(
    first_launch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiling ends only after another thread has begun to make the context."""
    begun, compiling, retain = threading.Event(), pipeline.compile, first_launch.cuDevicePrimaryCtxRetain

    def retaining(device: int) -> Any:
        begun.set()
        return retain(device)

    def waiting(*args: Any, **named: Any) -> Any:
        assert begun.wait(10)
        return compiling(*args, **named)

    first_launch.cuDevicePrimaryCtxRetain = retaining
    monkeypatch.setattr(pipeline, "compile", waiting)
    tj.Kernel(one.__wrapped__, one.options)[1](np.zeros(32, np.float32))  # type: ignore[attr-defined]
    assert first_launch.retained[0] is not threading.current_thread()
    assert threading.current_thread() in first_launch.retained[1:]


def test_a_loaded_kernels_first_launch_makes_the_context_while_its_arguments_are_checked(
    first_launch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = one.compile(tj.spec((32,), tj.float32), target="sm_90a")
    compiled.save(tmp_path / "one.ptx")
    loaded = tj.load_compiled(tmp_path / "one.ptx")
    begun, checking = threading.Event(), loaded.compiled_for
    retain = first_launch.cuDevicePrimaryCtxRetain

    def retaining(device: int) -> Any:
        begun.set()
        return retain(device)

    def waiting(*args: Any) -> Any:
        assert begun.wait(10)
        return checking(*args)

    first_launch.cuDevicePrimaryCtxRetain = retaining
    monkeypatch.setattr(loaded, "compiled_for", waiting)
    loaded[1](np.zeros(32, np.float32))
    assert first_launch.retained[0] is not threading.current_thread()
