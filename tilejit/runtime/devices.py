"""Selection of the device on which a launch runs.

It is the device of the arrays in device memory, if there are any; else the one set by `use_device`, else the one in
`TILEJIT_DEVICE`, else `cuda:0` if a driver and a GPU are found, else the simulator.
"""

from __future__ import annotations

import ctypes
import importlib
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from ..dtypes import DTYPES, DType, as_dtype
from ..errors import DeviceError, LaunchError, ResourceError, entry_point
from ..executable import Executable, MachineCode
from ..forks import importing
from ..gc_pause import gc_paused
from ..target import Target
from ..target import target as find_target
from ..wording import shown
from .arrays import SIMULATOR, DeviceArray
from .device import NO_DRIVER, Device, Preparation
from .signature import Call

if TYPE_CHECKING:
    from .cuda import CudaDevice

_chosen: ContextVar[str | None] = ContextVar("tilejit_device", default=None)

#: the GPUs used so far, by ordinal
_used: dict[int, CudaDevice] = {}

_PACKAGE = __name__.partition(".")[0]

#: the compiler's modules, imported one by one while the driver is initialized; most programs that use a GPU need them
_COMPILER = (
    "isa", "ops.tile", "ir.nodes", "ir.verify", "frontend.words", "frontend.values", "frontend.kernel",
    "lower.variant", "lower.variants", "lower", "codegen", "pipeline",
)

_SYNTAX = "write cuda, cuda:1, sim or sim:sm_100a"


@contextmanager
def use_device(name: str) -> Iterator[None]:
    """Within the context, run launches without device arrays on device `name`: `cuda`, `cuda:1`, `sim`, `sim:sm_100a`.

    raises: DeviceError if the device does not exist.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        with tj.use_device("sim:sm_100a"):
            k[1](np.zeros(32, np.float32))
    """
    named(name).open()
    token = _chosen.set(name)
    try:
        yield
    finally:
        _chosen.reset(token)


def device() -> str:
    """Return the name of the device on which a launch without device arrays runs now.

    Example:
        with tj.use_device("sim"):
            assert tj.device().startswith("sim")
    """
    chosen = default()
    chosen.open()
    return chosen.name


def num_sms() -> int:
    """Return the number of multiprocessors of the device on which a launch without device arrays runs now.

    It is a good grid for a kernel whose CTAs loop over tiles. The simulator has 4.

    Example:
        with tj.use_device("sim"):
            assert tj.num_sms() == 4
    """
    chosen = default()
    chosen.open()
    return chosen.multiprocessors


def default() -> Device:
    """Return the device of a launch without device arrays."""
    name = _chosen.get() or os.environ.get("TILEJIT_DEVICE")
    return named(name) if name else _best()


def reason() -> str:
    """Return the reason why `default` chooses its device."""
    if _chosen.get():
        return "set by tj.use_device"
    name = os.environ.get("TILEJIT_DEVICE")
    if name:
        return f"TILEJIT_DEVICE={name}"
    problem = cuda_problem()
    return "a driver and a GPU were found" if problem is None else problem


def gpus() -> list[str]:
    """Return a description of each GPU; empty if no GPU can be used."""
    if cuda_problem() is not None:
        return []
    from . import cuda, cuda_driver

    found = [cuda.CudaDevice(n) for n in range(cuda.device_count())]
    return [
        f"{d.name} {d.product}, compute capability {d.capability // 10}.{d.capability % 10}, target {d.target}, "
        f"driver for CUDA {cuda_driver.driver_version()}"
        for d in found
    ]


def of(call: Call) -> Device:
    """Return the device of a launch.

    raises: LaunchError if an array is on a GPU, and `use_device` or, at the GPU's first use, `TILEJIT_DEVICE`
        selects the simulator.
    """
    if call.first is None:
        return default()
    number = call.first.facts.device
    assert number is not None
    if number == SIMULATOR:
        chosen = default()
        return chosen if chosen.number == SIMULATOR else named("sim")
    opened = _used.get(number)
    chosen_name = _chosen.get()
    # reading the environment takes 1 us, so it is not read at every launch
    if opened is None or chosen_name is not None:
        _refuse_simulator(number, chosen_name)
    return _cuda(number) if opened is None else opened


def check_environment(call: Call) -> None:
    """Raise LaunchError under the conditions of `of`, but read `TILEJIT_DEVICE` even after the GPU's first use."""
    number = None if call.first is None else call.first.facts.device
    if number is not None and number != SIMULATOR:
        _refuse_simulator(number, _chosen.get())


def _refuse_simulator(number: int, chosen: str | None) -> None:
    name = chosen or os.environ.get("TILEJIT_DEVICE")
    if name and is_simulator(name):
        raise LaunchError(
            f"an array is on cuda:{number}, and the simulator can't read a GPU's memory",
            hint="copy it to host memory first (.cpu(), .numpy(), cupy.asnumpy), or "
            + ("leave the tj.use_device block" if chosen else "unset TILEJIT_DEVICE"),
        )


def is_simulator(name: str) -> bool:
    return name.partition(":")[0] == "sim"


#: returns the name that `use_device` set, or None
chosen = _chosen.get


@cache
def named(name: str) -> Device:
    """Return the device with this name; raise DeviceError if it does not exist."""
    if not isinstance(name, str):
        raise DeviceError(f"unknown device {shown(name)}", hint=_SYNTAX)
    kind, colon, rest = name.partition(":")
    if kind == "sim":
        return _simulated(find_target(rest) if colon else None)
    if kind == "cuda" and (not colon or rest.isdecimal()):
        return _cuda(int(rest or 0))
    raise DeviceError(f"unknown device {shown(name)}", hint=_SYNTAX)


@gc_paused
def _simulated(target: Target | None) -> Device:
    # the simulator takes 40 ms to import, so programs that run on a GPU don't import it
    with importing:
        from .simulated import SimulatedDevice
    return SimulatedDevice(target)


@cache
def _best() -> Device:
    return _cuda(0) if cuda_problem() is None else named("sim")


@cache
def cuda_problem() -> str | None:
    """Return the reason why no GPU can be used, or None."""
    try:
        if find_spec("cuda.bindings") is not None and not _has_driver():
            return NO_DRIVER
        from . import cuda
    except ImportError as missing:
        return f"the package {missing.name or 'cuda'} isn't installed"
    initialization = Preparation(cuda.problem)
    # initializing the driver takes 0.1 s and releases the GIL, so this thread imports modules meanwhile
    for module in _COMPILER:
        if not initialization.is_running:
            break
        importlib.import_module(f"{_PACKAGE}.{module}")
    initialization.wait()
    return cuda.problem()


def _has_driver() -> bool:
    """True if the driver's library can be loaded. Importing `cuda.bindings` to find out would take 40 ms."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


@cache
def _cuda(ordinal: int) -> CudaDevice:
    problem = cuda_problem()
    if problem is not None:
        raise DeviceError(f"no device cuda:{ordinal}: {problem}", hint="use the device sim, or set TILEJIT_DEVICE=sim")
    from . import cuda

    opened = cuda.CudaDevice(ordinal)
    _used[ordinal] = opened
    return opened


@entry_point
def to_device(array: Any, device: str | None = None) -> DeviceArray:
    """Copy an array to a device's memory, by default the current device's, and return the row-major copy.

    Example:
        with tj.use_device("sim"):
            a = tj.to_device(np.ones(8, np.float32))
    """
    source = np.ascontiguousarray(array).reshape(np.shape(array))
    made = empty(source.shape, source.dtype, device)
    made.copy_from(source)
    return made


@entry_point
def empty(shape: int | Sequence[int], dtype: DType | DTypeLike, device: str | None = None) -> DeviceArray:
    """Return an uninitialized array in a device's memory, by default the current device's.

    Example:
        with tj.use_device("sim"):
            a = tj.empty((4, 8), tj.float32)
    """
    kind = as_dtype(dtype)
    if kind is None:
        raise LaunchError(f"{shown(dtype)} is not an element type", hint=f"pass one of {', '.join(DTYPES)}")
    given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if any(not hasattr(n, "__index__") or n < 0 for n in given):
        raise LaunchError(f"an array can't have shape {shown(shape)}", hint="write an integer >= 0 or a tuple of them")
    extents = tuple(map(int, given))
    where = named(device) if device is not None else default()
    size = math.prod(extents) * kind.bytes
    try:
        if size >= 2**63:
            raise MemoryError
        memory = where.allocate(size)
    except MemoryError:
        raise ResourceError(
            f"an array of {size:,} bytes doesn't fit in the memory of {where.name}",
            hint=f"shape {extents} of {kind} is too large: process it in parts",
        ) from None
    return DeviceArray(memory, kind, extents)


def machine_code(executable: Executable) -> MachineCode:
    """Compile a kernel's PTX with the driver; raise DeviceError unless the current device is a GPU that can run it."""
    number = default().number
    if number == SIMULATOR:
        raise DeviceError(
            f"machine code of {executable.name} needs a GPU's driver, and {default().name} is in use: {reason()}",
            hint="save PTX, which drivers compile when they load the kernel, or save with a GPU as the current device",
        )
    return _cuda(number).machine_code(executable)


def synchronize() -> None:
    """Wait until all GPUs in use are idle, and raise errors from failed assertions and from the driver.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        k[1](np.zeros(32, np.float32))
        tj.synchronize()
    """
    for used in tuple(_used.values()):
        used.synchronize()


@entry_point
def release_scratch() -> None:
    """Wait for the GPUs in use, and free their memory for `tj.scratch`, except that of captured graphs.

    Launches reuse this memory, one block per stream, and allocate it again after it has been freed.

    Example:
        tj.release_scratch()
    """
    for used in tuple(_used.values()):
        used.scratch.release()
