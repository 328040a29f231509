"""Machine code of kernels: saved with them, or made of their PTX by the driver."""

from __future__ import annotations

import ctypes

from cuda.bindings import driver

from ..executable import Executable, MachineCode
from . import cuda_driver
from .cuda_driver import Loaded, call


def load(executable: Executable, capability: int) -> Loaded:
    """The module and its kernel in the current context, of a GPU of this capability.

    raises: DeviceError with the driver's log where it refuses the PTX.
    """
    code = executable.machine_code
    loaded = None if code is None or code.capability != capability else _loaded(code, executable.entry)
    # of PTX the driver keeps what it made in a cache of its own
    return loaded or cuda_driver.load(executable.ptx, executable.entry)


def link(executable: Executable, capability: int) -> MachineCode:
    """What the driver's linker makes of the PTX for the GPU of the current context, whose capability this is.

    It is code that could be linked with other code: `runtime/disk.py` says what that costs.
    raises: DeviceError as `load`.
    """
    log = bytearray(cuda_driver.LOG_BYTES)
    options, values = cuda_driver.error_log(log)
    state = call(driver.cuLinkCreate, len(options), options, values)
    try:
        image = executable.ptx.encode() + b"\0"
        kind = driver.CUjitInputType.CU_JIT_INPUT_PTX
        (error,) = driver.cuLinkAddData(state, kind, image, len(image), executable.entry.encode(), 0, [], [])
        if error == cuda_driver.SUCCESS:
            error, place, size = driver.cuLinkComplete(state)
        if error != cuda_driver.SUCCESS:
            raise cuda_driver.refusal(error, log, executable.ptx)
        # the driver's memory, until the state is destroyed
        return MachineCode(ctypes.string_at(int(place), size), capability)
    finally:
        call(driver.cuLinkDestroy, state)


def _loaded(code: MachineCode, entry: str) -> Loaded | None:
    """The module of a cubin and its kernel; None where this driver doesn't take it."""
    error, module = driver.cuModuleLoadData(code.image)
    return Loaded(module, cuda_driver.function_of(module, entry)) if error == cuda_driver.SUCCESS else None
