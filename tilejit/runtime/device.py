"""The interface shared by the CUDA device and the simulator device."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from ..errors import LaunchError
from ..target import Target
from . import counting
from .arrays import Argument, ArrayView, DeviceMemory
from .packing import Workspace
from .signature import Call

if TYPE_CHECKING:
    from ..compiled import Compiled

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
    streams: stream objects by handle.
    """

    launch: Callable[..., tuple[Any, ...]]
    launch_in_context: Callable[..., tuple[Any, ...]]
    is_current: Callable[[], bool]
    handle: Any
    dynamic_bytes: int
    streams: Mapping[int, Any]
    workspace: Workspace


class PreparedRun(NamedTuple):
    """A resolved launch. quick: launches and returns True, or returns False; then `run` launches or raises an error."""

    quick: Callable[[], bool]
    run: Callable[[], None]


class LoadedKernel(Protocol):
    """A compiled kernel on a device, ready to launch."""

    compiled: Compiled
    #: for launches with parameters packed by the caller; None if only `launch` can launch the kernel
    direct: DirectLaunch | None

    def launch(self, launch: Launch, call: Call) -> None:
        """Launch the kernel; arguments are in the order of its Python parameters."""

    def prepare(self, launch: Launch, call: Call) -> PreparedRun:
        """Return functions that launch the kernel with these arguments each time they are called."""


class Bench(Protocol):
    """Times work on a device. unit: the unit of times. is_exact: True if the same work always takes the same time."""

    unit: str
    is_exact: bool

    def staged(self, call: Call) -> Call:
        """Return `call` for repeated launches, with host arrays replaced by the bench's device copies, if any."""

    def round(self, works: Sequence[Callable[[], object]]) -> list[float]:
        """Run each piece of work once and return the times. A GPU's L2 cache is cold before each."""


class Device(Protocol):
    """A device that runs kernels."""

    #: the CUDA ordinal, or `SIMULATOR`
    number: int

    @property
    def name(self) -> str:
        """The device's name: `cuda:0`, `sim`, `sim:sm_100a`."""

    @property
    def target(self) -> Target:
        """The default target of kernels."""

    @property
    def multiprocessors(self) -> int:
        """The number of multiprocessors."""

    @property
    def checks(self) -> bool:
        """True if all launches run checked builds."""

    def check(self, target: Target) -> None:
        """Raise DeviceError if the device can't run code for `target`."""

    def prepare(self) -> None:
        """Start any work that `load` would wait for, and return at once."""

    def open(self) -> None:
        """Open the device, so that an error that would prevent all launches is raised now."""

    def load(self, compiled: Compiled) -> LoadedKernel: ...

    def allocate(self, size: int) -> DeviceMemory:
        """Allocate `size` bytes of memory."""

    @property
    def identity(self) -> str:
        """A string that identifies the device and its driver; earlier timings are invalid if it changes."""

    def bench(self, call: Call | None, stream: Any, kept: Sequence[int]) -> AbstractContextManager[Bench]:
        """Return a context manager that yields a bench on a stream. stream: None for the current one.

        call: the launch whose host arrays the bench stages; None if there is none, and then `kept` is empty.
        kept: positions of the call's arrays to restore before each timing and at the end.
        """

    def synchronize(self) -> None: ...


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


_CHECKS: dict[str, bool | Literal["strict"]] = {"0": False, "1": True, "strict": "strict"}


def checks_wanted() -> bool | Literal["strict"]:
    """Return the setting of `TILEJIT_SIM_CHECKS`, False while costs are counted; raise LaunchError if it is invalid."""
    if counting.ledger.get() is not None:
        return False
    wanted = os.environ.get("TILEJIT_SIM_CHECKS") or "1"
    if wanted not in _CHECKS:
        raise LaunchError(
            f"TILEJIT_SIM_CHECKS={wanted!r} is not one of {', '.join(_CHECKS)}",
            hint="write 0 for no checks, 1 for the default ones, strict for more",
        )
    return _CHECKS[wanted]
