"""What goes wrong while a kernel is tuned: what is a configuration's own is a row that is kept, all else is raised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tilejit as tj
from tests.tuning.kernels import adding, configs, grid
from tilejit.runtime import simulated
from tilejit.runtime.workers import WorkerError
from tilejit.tuning import search

Patch = pytest.MonkeyPatch

@contextmanager
def misspelt_grid(patch: Patch, a: Any) -> Iterator[tuple[Any, Any]]:
    yield lambda meta: (tj.cdiv(meta["NN"], meta["B"]),), a


@contextmanager
def failing_grid(patch: Patch, a: Any) -> Iterator[tuple[Any, Any]]:
    yield lambda meta: (1 // 0,), a


@contextmanager
def read_only_array(patch: Patch, a: Any) -> Iterator[tuple[Any, Any]]:
    a.flags.writeable = False
    try:
        yield grid, a
    finally:
        a.flags.writeable = True


@contextmanager
def low_limit(patch: Patch, a: Any) -> Iterator[tuple[Any, Any]]:
    with patch.context() as inner:
        inner.setenv("TILEJIT_SIM_LIMIT", "100")
        yield grid, a


def at_load(error: Exception) -> Callable[..., Any]:
    """As if the device couldn't load the second configuration, this time."""

    @contextmanager
    def broken(patch: Patch, a: Any) -> Iterator[tuple[Any, Any]]:
        load, count = simulated.SimulatedDevice.load, 0

        def failing(self: Any, compiled: Any) -> Any:
            nonlocal count
            count += 1
            if count == 2:
                raise error
            return load(self, compiled)

        with patch.context() as inner:
            inner.setattr(simulated.SimulatedDevice, "load", failing)
            yield grid, a

    return broken


OUT_OF_MEMORY = tj.LaunchError("CUDA_ERROR_OUT_OF_MEMORY from cuModuleGetFunction: out of memory")
ILLEGAL_ADDRESS = tj.LaunchError("CUDA_ERROR_ILLEGAL_ADDRESS from cuStreamSynchronize: an illegal memory access")

#: permanent faults of a launch, and temporary ones of the machine, with their messages
OF_THE_LAUNCH = {
    "a grid function that misspells a name": (misspelt_grid, "the launch has no argument 'NN'"),
    "a grid function that raises": (failing_grid, "the grid function <lambda> raised ZeroDivisionError"),
    "a read-only array": (read_only_array, "A is a read-only array, but the kernel writes it"),
    "a limit of the environment's": (low_limit, "TILEJIT_SIM_LIMIT"),
    "memory that another program has": (at_load(OUT_OF_MEMORY), "CUDA_ERROR_OUT_OF_MEMORY"),
    "an error of an earlier launch": (at_load(ILLEGAL_ADDRESS), "CUDA_ERROR_ILLEGAL_ADDRESS"),
    "an array that no address is known of": (at_load(tj.SimulationError("address 0")), "address 0"),
}


@pytest.mark.parametrize("name", OF_THE_LAUNCH)
def test_what_is_wrong_with_a_launch_is_raised_and_the_next_one_tunes(
    name: str, arrays: Any, disk: Path, monkeypatch: Patch
) -> None:
    broken, message = OF_THE_LAUNCH[name]
    (a, t), k = arrays, adding(reset=["A"])
    with broken(monkeypatch, a) as (wrong_grid, wrong), pytest.raises(tj.TilejitError, match=message):
        k[wrong_grid](wrong, t, 256)
    assert not k.tuning and not a.any()
    # in this process, and in another one, which has the disk alone
    for kernel in (k, adding(reset=["A"])):
        a[:] = 0
        kernel[grid](a, t, 256)
        (tuning,) = kernel.tuning
        assert [trial.reason for trial in tuning.trials] == [None] * 3 and (a == 1).all()


@pytest.mark.parametrize("name", ["a grid function that misspells a name", "a read-only array"])
def test_what_is_wrong_with_a_launch_is_said_as_without_tuning(
    name: str, arrays: Any, monkeypatch: Patch
) -> None:
    (a, t), k, errors = arrays, adding(), []
    with OF_THE_LAUNCH[name][0](monkeypatch, a) as (wrong_grid, wrong):
        for launch in (lambda: k[wrong_grid](wrong, t, 256), lambda: k.kernel[wrong_grid](wrong, t, 256, 32)):
            with pytest.raises(tj.TilejitError) as error:
                launch()
            errors.append((type(error.value), str(error.value)))
    assert errors[0] == errors[1]


def test_what_was_found_before_an_error_is_not_looked_for_again(
    arrays: Any, disk: Path, monkeypatch: Patch
) -> None:
    (a, t), tried = arrays, []
    with at_load(OUT_OF_MEMORY)(monkeypatch, a), pytest.raises(tj.LaunchError, match="OUT_OF_MEMORY"):
        adding()[grid](a, t, 256)

    def noting(meta: Any) -> Any:
        tried.append(meta["B"])
        return grid(meta)

    adding()[noting](a, t, 256)
    assert tried == [64, 128, 128], "32 was counted, and what is launched is asked for once more"


def test_a_device_that_cannot_run_the_target_refuses_the_launch_and_no_configuration(arrays: Any) -> None:
    @tj.autotune(configs(32, 64), key=[])
    @tj.kernel(threads=32, target="sm_100a")
    def newer(A: tj.Tensor, B: tj.constexpr):
        A[tj.thread_id()] = B

    with pytest.raises(tj.DeviceError, match="sim:sm_90a can't run code for sm_100a"):
        newer[1](arrays[0])
    assert not newer.tuning


#: what the device or the compiler says of a configuration that takes too much, or can't be compiled
OF_THE_CONFIGURATION = {
    "resources": tj.ResourceError("add_one needs 300,000 bytes"),
    "the driver's compiler": tj.DeviceError("the driver (CUDA 13.0) rejected the PTX: CUDA_ERROR_INVALID_PTX"),
    "a launch": tj.LaunchError("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES from cuLaunchKernel: too many resources requested"),
    "dispatch": tj.DispatchError("no variant accepts copy"),
    "layouts": tj.LayoutError("96 elements don't fit 64 threads"),
}


@pytest.mark.parametrize("name", OF_THE_CONFIGURATION)
def test_what_is_the_configuration_s_own_is_kept(name: str, arrays: Any, disk: Path, monkeypatch: Patch) -> None:
    (a, t), error = arrays, OF_THE_CONFIGURATION[name]
    with at_load(error)(monkeypatch, a):
        k = adding()
        k[grid](a, t, 256)
    monkeypatch.setattr(search.Search, "run", lambda *_: pytest.fail("it was tuned again"))
    again = adding()
    again[grid](a, t, 256)
    for tuning in (*k.tuning, *again.tuning):
        reasons = {trial.config.values["B"]: trial.reason for trial in tuning.trials}
        assert reasons == {32: None, 64: f"{type(error).__name__}: {error.message}", 128: None}


def test_a_configuration_whose_compiling_process_ended_is_tried_again_by_the_next_process(
    arrays: Any, disk: Path, monkeypatch: Patch
) -> None:
    a, t = arrays
    with at_load(WorkerError("the process that compiled add_one was ended by signal 6"))(monkeypatch, a):
        k = adding()
        for _ in range(2):
            k[grid](a, t, 256)
    lost = "WorkerError: the process that compiled add_one was ended by signal 6"
    assert [trial.reason for trial in k.tuning[0].trials] == [None, lost, None] and lost in str(k.tuning)
    again = adding()
    again[grid](a, t, 256)
    assert [trial.reason for trial in again.tuning[0].trials] == [None] * 3
    assert all(trial.samples for trial in again.tuning[0].trials)
    monkeypatch.setattr(search.Search, "run", lambda *_: pytest.fail("it was tuned again"))
    adding()[grid](a, t, 256)


def test_where_nothing_can_run_later_processes_look_again(arrays: Any, disk: Path, monkeypatch: Patch) -> None:
    (a, t), load = arrays, simulated.SimulatedDevice.load

    def failing(*_: Any) -> Any:
        raise tj.DeviceError("the driver rejected the PTX: CUDA_ERROR_JIT_COMPILER_NOT_FOUND")

    monkeypatch.setattr(simulated.SimulatedDevice, "load", failing)
    k = adding()
    for kernel in (k, adding()):
        with pytest.raises(tj.LaunchError, match="none of the 3 configurations of add_one can run"):
            kernel[grid](a, t, 256)
    monkeypatch.setattr(simulated.SimulatedDevice, "load", load)
    for kernel in (k, adding()):
        kernel[grid](a, t, 256)
        assert [trial.reason for trial in kernel.tuning[0].trials] == [None] * 3


def test_a_mistake_in_every_configuration_is_shown_in_its_place(arrays: Any) -> None:
    @tj.autotune(configs(32, 64), key=[])
    @tj.kernel(threads=32)
    def misspelt(A: tj.Tensor, B: tj.constexpr):
        tj.cta.store(A[0:B], tj.cta.zerros((B,), A.dtype))

    with pytest.raises(tj.LaunchError, match="none of the 2 configurations of misspelt can run") as error:
        misspelt[1](arrays[0])
    assert "tj.cta.zerros((B,), A.dtype)" in str(error.value.__cause__)
