"""Definitions shared by the CUDA devices and the simulator as a device."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from ..errors import LaunchError
from .arrays import Argument, ArrayView
from .packing import Workspace

if TYPE_CHECKING:
    from .cuda import CudaDevice
    from .cuda_bench import CudaBench
    from .cuda_function import CudaFunction
    from .cuda_scratch import ScratchBlock
    from .scratch import ScratchLayout
    from .simulated import CountingBench, SimulatedDevice, SimulatedFunction

#: a device, a compiled kernel loaded on it, and a clock for work on it; the classes of each have the same interface
Device: TypeAlias = "CudaDevice | SimulatedDevice"
LoadedKernel: TypeAlias = "CudaFunction | SimulatedFunction"
Bench: TypeAlias = "CudaBench | CountingBench"

#: the reason why no GPU can be used if the driver's library can't be loaded
NO_DRIVER = "no CUDA driver was found"


class Launch(NamedTuple):
    """The configuration of a launch. grid: CTAs per dimension. stream: the user's, or None for the current one."""

    grid: tuple[int, int, int]
    threads: int
    stream: Any = None


class DirectLaunch(NamedTuple):
    """The functions and values with which callers launch a loaded kernel that needs nothing but packed parameters.

    launch: takes the handle, grid x, y, z, CTA x, y, z, dynamic_bytes, a stream, the address of the array of parameter
    addresses, and 0. Returns a tuple of one status, which is falsy on success. It uses the calling thread's context.
    launch_in_context: like `launch`, but in the device's context. is_current: see `CudaDevice.is_current`.
    streams: stream objects by handle. pin, unpin: see `ScratchPool.pin`.
    """

    launch: Callable[..., tuple[Any, ...]]
    launch_in_context: Callable[..., tuple[Any, ...]]
    is_current: Callable[[], bool]
    handle: Any
    dynamic_bytes: int
    streams: Mapping[int, Any]
    workspace: Workspace
    pin: Callable[[tuple[int, int, int], Sequence[Argument], int], tuple[ScratchLayout, list[ScratchBlock]]]
    unpin: Callable[[Iterable[ScratchBlock]], None]


class PreparedRun(NamedTuple):
    """A resolved launch. quick: launches and returns True, or returns False; then `run` launches or raises an error."""

    quick: Callable[[], bool]
    run: Callable[[], None]


class Preparation:
    """Runs `work` once in a thread.

    It is an optimization only: a caller that needs the result waits, and then repeats the work, which is quick if the
    thread succeeded and fails again if it failed. So errors are reported where the result is needed, and a thread that
    couldn't be started (as at interpreter exit), or that exists only in the parent of a fork, does no harm.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        # not a daemon: Python waits for it at exit, because the driver must not be unloaded during a call
        self._thread = threading.Thread(target=self._run, name="tilejit-preparation", daemon=False)
        with suppress(RuntimeError):
            self._thread.start()

    def _run(self) -> None:
        # the caller that needs the result repeats the work, and so gets the error
        with suppress(Exception):
            self._work()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> None:
        """Wait until the work has ended; return at once if its thread couldn't be started."""
        if self._thread.ident is not None:
            self._thread.join()


def check_writable(written: Mapping[str, int], arguments: Sequence[Argument]) -> None:
    """Raise LaunchError if a kernel would write a read-only array. written: see `Executable.written`."""
    for name, position in written.items():
        view = arguments[position]
        assert type(view) is ArrayView
        if not view.writable:
            raise LaunchError(
                f"{name} is a read-only array, but the kernel writes it",
                hint="pass a copy, or a writable array; JAX arrays are never writable",
            )


#: the list to which launches in this context append their costs, or None; with a list, the simulator's checks are off
ledger: ContextVar[list[float] | None] = ContextVar("tilejit_ledger", default=None)

class Watch:
    """How simulated launches run while their findings are collected. reports: those of the launches, in their order."""

    def __init__(self, schedule: int) -> None:
        self.schedule = schedule
        self.reports: list[Any] = []


#: the watch of the launches in this context, or None
watching: ContextVar[Watch | None] = ContextVar("tilejit_watching", default=None)

_CHECKS: dict[str, bool | Literal["strict"]] = {"0": False, "1": True, "strict": "strict"}


def checks_wanted() -> bool | Literal["strict"]:
    """Return the setting of `TILEJIT_SIM_CHECKS`, False while costs are counted; raise LaunchError if it is invalid."""
    if ledger.get() is not None:
        return False
    wanted = os.environ.get("TILEJIT_SIM_CHECKS") or "1"
    if wanted not in _CHECKS:
        raise LaunchError(
            f"TILEJIT_SIM_CHECKS={wanted!r} is not one of {', '.join(_CHECKS)}",
            hint="write 0 for no checks, 1 for the default ones, strict for more",
        )
    return _CHECKS[wanted]
