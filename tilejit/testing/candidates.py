"""How candidates run: kernels of tilejit on arrays of NumPy, and CUDA C++. Triton's are in `tilejit.sanitize`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..dataclass import dataclass
from ..runtime.device import Watch, watching
from ..sanitize.for_cuda import compile_cuda, declared_parameters
from ..simulator import Device, DeviceArray
from .bans import Ban, JudgedArray, plain
from .bounds import Array


class Runner(Protocol):
    """Runs candidates on arrays of one library."""

    ban: Ban

    def array(self, host: Array, is_output: bool) -> Any:
        """Return an array of the library with the contents of `host`."""

    def write(self, array: Any, values: Array) -> None: ...

    def read(self, array: Any) -> Array:
        """Return a copy of an array, in row-major order."""

    def is_array(self, value: Any) -> bool:
        """True for an array of numbers that can be read and written."""

    def run(self, candidate: Callable[..., Any], args: Sequence[Any], schedule: int) -> tuple[Any, Sequence[Any]]:
        """Return what the candidate returns, and its launches, which have `findings`."""


class NumpyRunner:
    """Runs functions that launch kernels of tilejit on arrays of NumPy."""

    def __init__(self, ban: Ban) -> None:
        self.ban = ban

    def array(self, host: Array, is_output: bool) -> Any:
        # a view of `host` would have a base that isn't watched
        array = JudgedArray(host.shape, host.dtype)
        self.write(array, host)
        array.ban, array.is_output = self.ban, is_output
        return array

    def write(self, array: Any, values: Array) -> None:
        target = np.asarray(array)
        # the candidate may have set the flag
        if target.flags.writeable:
            target[...] = values

    def read(self, array: Any) -> Array:
        return np.array(np.asarray(array), order="C")

    def is_array(self, value: Any) -> bool:
        return hasattr(value, "__array_interface__") and not np.asarray(value).dtype.hasobject

    def run(self, candidate: Callable[..., Any], args: Sequence[Any], schedule: int) -> tuple[Any, Sequence[Any]]:
        watch = Watch(schedule)
        token = watching.set(watch)
        try:
            with self.ban.active():
                return candidate(*args), watch.reports
        finally:
            watching.reset(token)


@dataclass(frozen=True, slots=True)
class Deferred:
    """A candidate that `make` constructs, once, in the context of the candidate but without a ban on foreign calls."""

    make: Callable[[], Callable[..., Any]]


class CudaLaunch(NamedTuple):
    """How a kernel is launched. args: arrays of the call and NumPy scalars, one for each parameter."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Any, ...]
    shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CudaCandidate:
    """A kernel of CUDA C++ that `judge` compiles by NVRTC. It writes to outputs; all arrays are contiguous.

    source: CUDA C++. kernel: the name of a kernel of it, also an instantiation such as `reduce<float, 4>`.
    launch: a function of the inputs and outputs of a call, which returns the launch.

    ```python
    def launch(x, out):
        return CudaLaunch((-(-x.size // 128),), (128,), (x, out, np.int32(x.size)))

    judge(CudaCandidate(source, "relu", launch), lambda x: np.maximum(x, 0), draw)
    ```
    """

    source: str
    kernel: str
    launch: Callable[..., CudaLaunch]

    def compiled(self, arch: str) -> Callable[..., None]:
        """Return a function that launches the kernel. raises: CudaSourceError if the source is rejected."""
        ptx, (entry,) = compile_cuda(self.source, "candidate.cu", arch, [self.kernel])

        def run(*arrays: Any) -> None:
            watch = watching.get()
            assert watch is not None, "only the judge calls it"
            launch = self.launch(*arrays)
            declared = declared_parameters(self.source, self.kernel, len(launch.args))
            device = Device()
            placed: dict[int, DeviceArray] = {}
            values = [
                _placed(device, placed, x, declared[i].name if declared else f"argument {i}")
                if isinstance(x, np.ndarray) else x for i, x in enumerate(launch.args)
            ]
            watch.reports.append(device.load(ptx).launch(
                entry, launch.grid, launch.block, values, shared_bytes=launch.shared_bytes, on_finding="collect",
                schedule=watch.schedule, write=lambda text: None,
            ))

        return run


def _placed(device: Device, placed: dict[int, DeviceArray], array: Array, name: str) -> int:
    """Return the address of an array on the device. placed: whole arrays there, of which others are views."""
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    if id(whole) not in placed:
        is_output = isinstance(array, JudgedArray) and array.is_output
        memory = plain(whole) if whole.flags.c_contiguous else plain(whole).ravel(order="K")
        placed[id(whole)] = device.place(memory, initialized=not is_output, name=name)
    return placed[id(whole)].address + _address(array) - _address(whole)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
