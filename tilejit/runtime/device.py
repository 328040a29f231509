"""What the CUDA device and the simulator device have in common."""

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
    from ..executable import Executable


#: why no GPU can be used where its driver's library isn't there
NO_DRIVER = "no CUDA driver was found"


class Launch(NamedTuple):
    """How one launch runs. grid: CTAs in each dimension. stream: as the user gave it, None for the default."""

    grid: tuple[int, int, int]
    threads: int
    stream: Any = None


class DirectLaunch(NamedTuple):
    """What launches a loaded kernel where nothing but its parameters has to be written.

    launch: takes handle, the grid's x, y and z, the CTA's, dynamic_bytes, a stream, the address of the parameters'
    addresses and 0; returns a tuple of one status, which is false where all went well. It launches in the calling
    thread's context, whichever that is; `launch_in_context` in the device's own. is_current: whether that is the
    thread's. streams: by their handles. workspace: see `Workspace`.
    """

    launch: Callable[..., tuple[Any, ...]]
    launch_in_context: Callable[..., tuple[Any, ...]]
    is_current: Callable[[], bool]
    handle: Any
    dynamic_bytes: int
    streams: Mapping[int, Any]
    workspace: Workspace


class PreparedRun(NamedTuple):
    """A launch that has been resolved. quick: tells whether it launched, without a word where not. run: launches."""

    quick: Callable[[], bool]
    run: Callable[[], None]


class LoadedKernel(Protocol):
    """A compiled kernel on a device, ready to launch."""

    @property
    def compiled(self) -> Compiled: ...

    @property
    def direct(self) -> DirectLaunch | None:
        """What launches it with parameters that are packed elsewhere; None where a launch takes more than that."""
        ...

    def launch(self, launch: Launch, call: Call) -> None:
        """Runs the kernel; arguments in the order of its Python parameters."""
        ...

    def prepare(self, launch: Launch, call: Call) -> PreparedRun:
        """What runs the kernel with these arguments at each call."""
        ...


class Bench(Protocol):
    """Where work is timed on a device. unit: of its numbers. is_exact: the same work gives the same number."""

    @property
    def unit(self) -> str: ...

    @property
    def is_exact(self) -> bool: ...

    def staged(self, call: Call) -> Call:
        """A call of the same arrays as the bench's, ready to be launched often: its arrays lie on the device."""
        ...

    def round(self, works: Sequence[Callable[[], object]]) -> list[float]:
        """What each piece of work takes, once, one after the other, with a cold cache."""
        ...


class Device(Protocol):
    """Where kernels run."""

    @property
    def name(self) -> str:
        """`cuda:0`, `sim`, `sim:sm_100a`."""
        ...

    @property
    def number(self) -> int:
        """CUDA ordinal, or `SIMULATOR`."""
        ...

    @property
    def target(self) -> Target:
        """What kernels are compiled for unless they say otherwise."""
        ...

    @property
    def multiprocessors(self) -> int:
        """How many CTAs run side by side, at least."""
        ...

    @property
    def checks(self) -> bool:
        """Whether launches run checked builds, whatever their kernels say."""
        ...

    def check(self, target: Target) -> None:
        """Raises DeviceError where it can't run code for `target`."""
        ...

    def prepare(self) -> None:
        """Begins with what `load` will wait for; returns at once."""
        ...

    def open(self) -> None:
        """Raises what would keep every launch from running here."""
        ...

    def load(self, compiled: Compiled) -> LoadedKernel: ...

    def allocate(self, size: int) -> DeviceMemory:
        """size: bytes."""
        ...

    @property
    def identity(self) -> str:
        """What must be the same for times that were taken before to hold."""
        ...

    def bench(self, call: Call | None, stream: Any, kept: Sequence[int]) -> AbstractContextManager[Bench]:
        """What times work on a stream, None for the current one.

        call: the launch whose arguments work is about. kept: positions of its arrays that are restored before each
        timing, and in the end.
        """
        ...

    def synchronize(self) -> None: ...


class WriteCheck:
    """Refuses read-only arrays where a kernel writes."""

    __slots__ = ("_written",)

    def __init__(self, executable: Executable) -> None:
        self._written = tuple(executable.written.items())

    def __call__(self, arguments: Sequence[Argument]) -> None:
        for name, position in self._written:
            view = arguments[position]
            assert type(view) is ArrayView
            if not view.writable:
                raise LaunchError(
                    f"{name} is a read-only array and the kernel writes it",
                    hint="pass a copy, or an array that can be written; JAX's arrays never can be",
                )


_CHECKS: dict[str, bool | Literal["strict"]] = {"0": False, "1": True, "strict": "strict"}


def checks_wanted() -> bool | Literal["strict"]:
    """What `TILEJIT_SIM_CHECKS` leaves of the simulator's checks: 0 nothing, "strict" more than without it.

    Nothing while costs are counted, which are those of what a GPU runs.
    raises: LaunchError where it says something else.
    """
    if counting.ledger.get() is not None:
        return False
    wanted = os.environ.get("TILEJIT_SIM_CHECKS") or "1"
    if wanted not in _CHECKS:
        raise LaunchError(
            f"TILEJIT_SIM_CHECKS={wanted!r} is none of {', '.join(_CHECKS)}",
            hint="write 0 for no checks, 1 for the usual ones, strict for more",
        )
    return _CHECKS[wanted]
