"""Loads kernels from machine code or PTX, and compiles PTX to machine code."""

from __future__ import annotations

import ctypes

from cuda.bindings import driver

from ..executable import Executable, MachineCode
from . import cuda_driver
from .cuda_driver import Loaded, call


def load(executable: Executable, capability: int) -> Loaded:
    """Load a kernel on the current context's GPU; raise DeviceError with the driver's log if it rejects the PTX."""
    code = executable.machine_code
    loaded = None if code is None or code.capability != capability else _loaded(code, executable.entry)
    # the driver caches the code that it compiles from PTX
    return loaded or cuda_driver.load(executable.ptx, executable.entry)


def link(executable: Executable, capability: int) -> MachineCode:
    """Compile PTX with the driver's linker for the current context's GPU; raise DeviceError if the driver rejects it.

    The code is relocatable, which makes it slower: see `runtime/disk.py`.
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
        # the image belongs to the driver until the state is destroyed
        return MachineCode(ctypes.string_at(int(place), size), capability)
    finally:
        call(driver.cuLinkDestroy, state)


def _loaded(code: MachineCode, entry: str) -> Loaded | None:
    error, module = driver.cuModuleLoadData(code.image)
    return Loaded(module, cuda_driver.function_of(module, entry)) if error == cuda_driver.SUCCESS else None
