"""Which device a launch runs on.

Arrays in a device's memory decide; else `use_device`, else `TILEJIT_DEVICE`, else `cuda:0` when a driver and a GPU
answer, else the simulator.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import Any

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
from .device import NO_DRIVER, Device
from .preparation import Preparation, import_during
from .signature import Call

_chosen: ContextVar[str | None] = ContextVar("tilejit_device", default=None)

#: the GPUs that were used so far, by ordinal
_used: dict[int, Device] = {}

_PACKAGE = __name__.partition(".")[0]

#: what compiles, in parts of some 10 ms: whoever asks for a GPU is about to launch a kernel
_COMPILER = (
    "isa", "ops.tile", "ir.nodes", "ir.verify", "frontend.vocabulary", "frontend.values", "frontend.kernel",
    "lower.variant", "lower.variants", "lower", "codegen", "pipeline",
)

_SYNTAX = "write cuda, cuda:1, sim or sim:sm_100a"


@contextmanager
def use_device(name: str) -> Iterator[None]:
    """Launches inside run on this device: `cuda`, `cuda:1`, `sim`, `sim:sm_100a`.

    raises: DeviceError at once where there is no such device.

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
    """The name of the device on which a launch without device arrays runs now.

    Example:
        with tj.use_device("sim"):
            assert tj.device().startswith("sim")
    """
    chosen = default()
    chosen.open()
    return chosen.name


def num_sms() -> int:
    """How many multiprocessors the device has on which a launch without device arrays runs now; 4 on the simulator.

    A kernel whose CTAs go through tiles in a loop is launched with as many.

    Example:
        with tj.use_device("sim"):
            assert tj.num_sms() == 4
    """
    chosen = default()
    chosen.open()
    return chosen.multiprocessors


def default() -> Device:
    """The device of a launch whose arguments don't decide."""
    name = _chosen.get() or os.environ.get("TILEJIT_DEVICE")
    return named(name) if name else _best()


def reason() -> str:
    """Why `default` is what it is."""
    if _chosen.get():
        return "tj.use_device says so"
    name = os.environ.get("TILEJIT_DEVICE")
    if name:
        return f"TILEJIT_DEVICE={name}"
    problem = cuda_problem()
    return "a driver and a GPU answer" if problem is None else problem


def gpus() -> list[str]:
    """Every GPU in a line of its own, and the driver's version; empty where none can be used."""
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
    """The device on which these arguments run.

    raises: LaunchError for a GPU's array where the simulator is asked for by name.
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
    # the environment takes 1 us to read, so it isn't asked at every launch
    if opened is None or chosen_name is not None:
        _refuse_simulator(number, chosen_name)
    return _cuda(number) if opened is None else opened


def check_environment(call: Call) -> None:
    """Whether the environment asks for the simulator, which `of` doesn't look at because it runs at every launch.

    raises: LaunchError as `of`.
    """
    number = None if call.first is None else call.first.facts.device
    if number is not None and number != SIMULATOR:
        _refuse_simulator(number, _chosen.get())


def _refuse_simulator(number: int, chosen: str | None) -> None:
    """An array in a GPU's memory while the simulator is asked for by name."""
    name = chosen or os.environ.get("TILEJIT_DEVICE")
    if name and is_simulator(name):
        raise LaunchError(
            f"an array lies on cuda:{number}, and the simulator can't read a GPU's memory",
            hint="copy it to host memory first (.cpu(), cupy.asnumpy), or leave the simulator",
        )


def is_simulator(name: str) -> bool:
    """Whether that is what a device's name says."""
    return name.partition(":")[0] == "sim"


#: the name that `use_device` set, or None
chosen = _chosen.get


@cache
def named(name: str) -> Device:
    """The device called `name`; a DeviceError where there is none."""
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
    # the simulator takes 40 ms to import, which a program on a GPU needn't wait for
    with importing:
        from .simulated import SimulatedDevice
    return SimulatedDevice(target)


@cache
def _best() -> Device:
    return _cuda(0) if cuda_problem() is None else named("sim")


@cache
def cuda_problem() -> str | None:
    """Why no GPU can be used, or None where one answers."""
    try:
        if find_spec("cuda.bindings") is not None and not _has_driver():
            return NO_DRIVER
        from . import cuda
    except ImportError as missing:
        return f"the package {missing.name or 'cuda'} isn't installed"
    initialization = Preparation(cuda.problem)
    # the driver takes 0.1 s, in which Python is free
    import_during(initialization, [f"{_PACKAGE}.{module}" for module in _COMPILER])
    initialization.wait()
    return cuda.problem()


def _has_driver() -> bool:
    """Whether the driver's library can be loaded; `cuda.bindings`, which loads the same one, takes 40 ms to import."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


@cache
def _cuda(ordinal: int) -> Device:
    problem = cuda_problem()
    if problem is not None:
        raise DeviceError(f"no device cuda:{ordinal}: {problem}", hint="TILEJIT_DEVICE=sim runs on the simulator")
    from . import cuda

    opened = cuda.CudaDevice(ordinal)
    _used[ordinal] = opened
    return opened


@entry_point
def to_device(array: Any, device: str | None = None) -> DeviceArray:
    """A copy of an array in a device's memory, row-major; `device` else the one in use.

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
    """An array in a device's memory that nothing has been written to; `device` else the one in use.

    Example:
        with tj.use_device("sim"):
            a = tj.empty((4, 8), tj.float32)
    """
    kind = as_dtype(dtype)
    if kind is None:
        raise LaunchError(f"{shown(dtype)} is not an element type", hint=f"one of {', '.join(DTYPES)}")
    given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if any(not hasattr(n, "__index__") or n < 0 for n in given):
        raise LaunchError(f"an array can't have shape {shown(shape)}", hint="write an integer or a tuple of integers")
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
            hint=f"shape {extents} of {kind} is too large: work on it part by part",
        ) from None
    return DeviceArray(memory, kind, extents)


def machine_code(executable: Executable) -> MachineCode:
    """What the driver of the GPU in use makes of a kernel's PTX.

    raises: DeviceError where no GPU is in use, or one that doesn't run code for the kernel's target.
    """
    number = default().number
    if number == SIMULATOR:
        raise DeviceError(
            f"machine code of {executable.name} is made by a GPU's driver, and {default().name} is in use: {reason()}",
            hint="save PTX, which every driver compiles when it loads it, or save where there is a GPU",
        )
    from . import cuda

    opened = _cuda(number)
    assert isinstance(opened, cuda.CudaDevice)
    return opened.machine_code(executable)


def synchronize() -> None:
    """Waits until every device has done its work, and raises what asserts and the driver report.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        k[1](np.zeros(32, np.float32))
        tj.synchronize()
    """
    for used in tuple(_used.values()):
        used.synchronize()
