"""A device of Numba that the simulator provides: CUDA's driver as far as arrays, streams and events use it.

The methods of `NumbaDriver` replace functions of Numba's driver with the same names. No function waits: each operation
ends before its call returns.
"""

from __future__ import annotations

import ctypes
import time
from bisect import bisect_right
from collections.abc import Callable
from itertools import count
from operator import attrgetter
from typing import Any

import numpy as np
from numba.cuda.cudadrv import driver
from numba.cuda.cudadrv.driver import binding
from numpy.typing import NDArray

from ..errors import LaunchError
from ..simulator import Device, DeviceArray
from ..target import Target

Bytes = NDArray[np.uint8]

#: properties of the simulated device; others are 0
_ATTRIBUTES = {
    "WARP_SIZE": 32, "MAX_THREADS_PER_BLOCK": 1024, "MAX_BLOCK_DIM_X": 1024, "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64, "MAX_GRID_DIM_X": 2**31 - 1, "MAX_GRID_DIM_Y": 65535, "MAX_GRID_DIM_Z": 65535,
    "MAX_SHARED_MEMORY_PER_BLOCK": 48 << 10, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 100 << 10,
    "MULTIPROCESSOR_COUNT": 16, "MAX_THREADS_PER_MULTIPROCESSOR": 2048, "MAX_REGISTERS_PER_BLOCK": 65536,
    "CAN_MAP_HOST_MEMORY": 1, "UNIFIED_ADDRESSING": 1, "COOPERATIVE_LAUNCH": 1,
}
_MEMORY_BYTES = 16 << 30


class NumbaDriver:
    """The memory, streams and events of a device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        #: by ascending address
        self._arrays: list[DeviceArray] = []
        #: address in the host's memory -> its bytes, which this object keeps alive
        self._host: dict[int, Bytes] = {}
        #: address in the host's memory -> the array of the device that it is mapped to
        self._mapped: dict[int, DeviceArray] = {}
        self._handles = count(1)
        #: event -> seconds
        self._recorded: dict[int, float] = {}

    def finalizers(self) -> dict[str, Callable[..., Any]]:
        """Return functions by which memory, streams and events are freed, by the names of those that they replace.

        Numba's own would call functions of its driver, which are replaced only until the context of the session ends.
        """
        host = _freed_by(self.cuMemHostUnregister)
        memory = {"_alloc_finalizer": _freed_by(self.cuMemFree), "_hostalloc_finalizer": host, "_pin_finalizer": host}
        return {**memory, **dict.fromkeys(("_stream_finalizer", "_event_finalizer"), lambda *_: None)}

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the functions of the driver by name."""
        return {name: getattr(self, name) for name in dir(self) if name.startswith("cu")}

    def find(self, address: Any, size: int = 0) -> tuple[DeviceArray, int]:
        """Return the array that contains an address, and the offset of the address in it, in bytes.

        raises: LaunchError if no array contains `size` bytes from there.
        """
        index = bisect_right(self._arrays, int(address), key=attrgetter("address")) - 1
        if index >= 0:
            array = self._arrays[index]
            offset = int(address) - array.address
            if offset + size <= array.memory.size:
                return array, offset
        raise LaunchError(
            f"no array of the simulated device has {size} bytes at {int(address):#x}",
            hint="create all device arrays in the context of tilejit.sanitize.numba",
        )

    def _place(self, memory: Bytes, initialized: bool) -> DeviceArray:
        array = self.device.place(memory, initialized=initialized)
        # addresses only increase
        self._arrays.append(array)
        return array

    def _free(self, array: DeviceArray) -> None:
        self._arrays.remove(array)
        self.device.free(array)

    def cuMemAlloc(self, size: int) -> Any:
        return binding.CUdeviceptr(self._place(np.empty(size, np.uint8), False).address)

    def cuMemFree(self, address: Any) -> None:
        self._free(self.find(address)[0])

    def cuMemAllocManaged(self, size: int, flags: int) -> Any:
        raise LaunchError("managed arrays can't be simulated", hint="use cuda.to_device or cuda.mapped_array")

    def cuMemGetInfo(self) -> tuple[int, int]:
        return _MEMORY_BYTES - sum(array.memory.size for array in self._arrays), _MEMORY_BYTES

    def cuMemHostAlloc(self, size: int, flags: int) -> int:
        memory = np.empty(size, np.uint8)
        address = memory.ctypes.data
        self._host[address] = memory
        return address

    def cuMemHostRegister(self, address: int, size: int, flags: int) -> None:
        self._host[address] = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))

    def cuMemHostUnregister(self, address: int) -> None:
        self._host.pop(address, None)
        array = self._mapped.pop(address, None)
        if array is not None:
            self._free(array)

    def cuMemHostGetDevicePointer(self, address: int, flags: int) -> Any:
        if address not in self._mapped:
            self._mapped[address] = self._place(self._host[address], True)
        return binding.CUdeviceptr(self._mapped[address].address)

    def cuPointerGetAttribute(self, attribute: Any, address: Any) -> Any:
        return address

    def cuMemGetAddressRange(self, address: Any) -> tuple[int, int]:
        array, _ = self.find(address)
        return array.address, array.memory.size

    def cuMemcpyHtoD(self, target: Any, source: Any, size: int, stream: object = None) -> None:
        array, offset = self.find(target, size)
        ctypes.memmove(array.memory.ctypes.data + offset, int(source), size)
        array.define(offset, size)

    def cuMemcpyDtoH(self, target: Any, source: Any, size: int, stream: object = None) -> None:
        array, offset = self.find(source, size)
        ctypes.memmove(int(target), array.memory.ctypes.data + offset, size)

    def cuMemcpyDtoD(self, target: Any, source: Any, size: int, stream: object = None) -> None:
        array, offset = self.find(target, size)
        other, start = self.find(source, size)
        array.memory[offset : offset + size] = other.memory[start : start + size]
        if other.written is None:
            array.define(offset, size)
            return
        if array.written is None:
            array.written = np.ones(array.memory.size, bool)
        array.written[offset : offset + size] = other.written[start : start + size]

    def cuMemsetD8(self, target: Any, value: int, size: int, stream: object = None) -> None:
        array, offset = self.find(target, size)
        array.memory[offset : offset + size] = value & 0xFF
        array.define(offset, size)

    cuMemcpyHtoDAsync = cuMemcpyHtoD
    cuMemcpyDtoHAsync = cuMemcpyDtoH
    cuMemcpyDtoDAsync = cuMemcpyDtoD
    cuMemsetD8Async = cuMemsetD8

    def cuCtxSynchronize(self, *_: object) -> None:
        pass

    cuStreamSynchronize = cuStreamWaitEvent = cuEventSynchronize = cuEventQuery = cuCtxSynchronize

    def cuStreamCreate(self, flags: int) -> Any:
        return binding.CUstream(next(self._handles))

    def cuEventCreate(self, flags: int) -> Any:
        return binding.CUevent(next(self._handles))

    def cuEventRecord(self, event: Any, stream: object) -> None:
        self._recorded[int(event)] = time.perf_counter()

    def cuEventElapsedTime(self, start: Any, end: Any) -> float:
        """Return the milliseconds that the simulation took."""
        return 1000 * (self._recorded[int(end)] - self._recorded[int(start)])

    def cuDeviceGetAttribute(self, code: Any, device: int) -> int:
        return _ATTRIBUTES.get(code.name.removeprefix("CU_DEVICE_ATTRIBUTE_"), 0)

    def cuDeviceGetCount(self) -> int:
        return 1

    def cuDriverGetVersion(self) -> int:
        return 13000


def _freed_by(free: Callable[[int], None]) -> Callable[..., Any]:
    """Return a function that returns a finalizer of memory, which calls `free`."""

    def finalizer(manager: Any, pointer: Any, key: object, *_: object) -> Callable[[], None]:
        allocations = manager.allocations

        def finalize() -> None:
            allocations.pop(key, None)
            free(int(pointer))

        return finalize

    return finalizer


class NumbaDevice(driver.Device):
    """The simulated device. Numba reads other properties through `cuDeviceGetAttribute`."""

    def __init__(self, target: Target) -> None:
        self.id = 0
        self.compute_capability = divmod(target.number, 10)
        self.name = f"simulated {target.name}"
        self.uuid = "GPU-00000000-0000-0000-0000-000000000000"
        # a handle that is not that of a context of CUDA
        self.primary_context = driver.Context(self, 1)

    def reset(self) -> None:
        pass
