"""Runs generated code on the simulator or on a GPU, from NumPy arrays and scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tilejit.codegen import generate
from tilejit.ir.nodes import Kernel
from tilejit.ir.placements import DYNAMIC, total
from tilejit.simulator import Pointer, run
from tilejit.target import target


class Runner(Protocol):
    """Runs kernels: arrays are written in place."""

    def run(self, kernel: Kernel, args: Sequence[Any], grid: int = 1) -> None: ...


class Simulator:
    """The embedded device, with its checks."""

    def run(self, kernel: Kernel, args: Sequence[Any], grid: int = 1) -> None:
        made = generate(kernel, target(kernel.target))
        dynamic = total(kernel.memory, DYNAMIC)
        passed = [Pointer(a.view(np.uint8)) if isinstance(a, np.ndarray) else a for a in args]
        run(made.ptx, made.entry, (grid,), (kernel.threads,), passed, dynamic_shared_bytes=dynamic)


class Gpu:
    """The first CUDA device."""

    def __init__(self) -> None:
        from tilejit.runtime.cuda import CudaDevice

        self._device = CudaDevice(0)

    def run(self, kernel: Kernel, args: Sequence[Any], grid: int = 1) -> None:
        from tilejit.runtime.cuda_driver import current

        with current(self._device.context):
            _launch(kernel, args, grid)


def _launch(kernel: Kernel, args: Sequence[Any], grid: int) -> None:
    from cuda.bindings import driver

    from tilejit.runtime.cuda_driver import call, load_ptx

    made = generate(kernel, target(kernel.target))
    loaded = load_ptx(made.ptx, made.entry)
    module, function = loaded.module, loaded.function
    dynamic = total(kernel.memory, DYNAMIC)
    if dynamic:
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call(driver.cuFuncSetAttribute, function, attribute, dynamic)
    arrays = [(a, call(driver.cuMemAlloc, a.nbytes)) for a in args if isinstance(a, np.ndarray)]
    places = {id(a): np.uint64(int(p)) for a, p in arrays}
    for array, pointer in arrays:
        call(driver.cuMemcpyHtoD, pointer, array.ctypes.data, array.nbytes)
    values = [np.asarray(places[id(a)] if isinstance(a, np.ndarray) else a) for a in args]
    addresses = np.array([v.ctypes.data for v in values], np.uint64)
    call(driver.cuLaunchKernel, function, grid, 1, 1, kernel.threads, 1, 1, dynamic, 0, addresses.ctypes.data, 0)
    for array, pointer in arrays:
        call(driver.cuMemcpyDtoH, array.ctypes.data, pointer, array.nbytes)
        call(driver.cuMemFree, pointer)
    call(driver.cuModuleUnload, module)
