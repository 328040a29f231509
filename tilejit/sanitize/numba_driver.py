"""CUDA's driver as far as Numba's arrays, streams and events use it: memory of the simulator, and no waiting.

The methods of `NumbaDriver` replace functions of Numba's driver with the same names.
"""

from __future__ import annotations

import ctypes
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
from numba.cuda.cudadrv.driver import binding
from numpy.typing import NDArray

from ..errors import LaunchError
from ..simulator import Device, DeviceArray

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


def host_bytes(address: int, size: int) -> Bytes:
    """Return a view of the host's memory."""
    view: Bytes = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
    return view


class NumbaDriver:
    """Memory, streams and events. Each operation ends before its call returns."""

    def __init__(self, device: Device) -> None:
        self.device = device
        #: address -> the array there
        self.arrays: dict[int, DeviceArray] = {}
        self._addresses: list[int] = []
        #: address in the host's memory -> its bytes, which this object keeps alive
        self._host: dict[int, Bytes] = {}
        self._mapped: dict[int, DeviceArray] = {}
        self._handles = count(1)
        self._recorded: dict[int, float] = {}

    def functions(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        """Yield the names and the functions of the driver."""
        for name in dir(self):
            if name.startswith("cu"):
                yield name, getattr(self, name)

    def find(self, address: int, size: int = 0) -> tuple[DeviceArray, int]:
        """Return the array that contains an address, and the offset of the address in it, in bytes.

        raises: LaunchError if no array contains `size` bytes from there.
        """
        address = int(address)
        index = bisect_right(self._addresses, address) - 1
        if index >= 0:
            array = self.arrays[self._addresses[index]]
            offset = address - array.address
            if offset + size <= array.memory.size:
                return array, offset
        raise LaunchError(
            f"no array of the simulated device has {size} bytes at {address:#x}",
            hint="create all device arrays in the context of tilejit.sanitize.numba",
        )

    def _placed(self, memory: Bytes, initialized: bool) -> DeviceArray:
        array = self.device.place(memory, initialized=initialized)
        self.arrays[array.address] = array
        # addresses only increase
        self._addresses.append(array.address)
        return array

    def _remove(self, array: DeviceArray) -> None:
        del self.arrays[array.address]
        self._addresses.remove(array.address)
        self.device.free(array)

    def cuMemAlloc(self, size: int) -> Any:
        return binding.CUdeviceptr(self._placed(np.empty(size, np.uint8), False).address)

    def cuMemFree(self, address: Any) -> None:
        array = self.arrays.get(int(address))
        if array is not None:
            self._remove(array)

    def cuMemGetInfo(self) -> tuple[int, int]:
        return _MEMORY_BYTES - sum(array.memory.size for array in self.arrays.values()), _MEMORY_BYTES

    def cuMemHostAlloc(self, size: int, flags: int) -> int:
        memory = np.empty(size, np.uint8)
        address = memory.ctypes.data
        self._host[address] = memory
        return address

    def cuMemHostRegister(self, address: int, size: int, flags: int) -> None:
        self._host[int(address)] = host_bytes(int(address), size)

    def cuMemHostUnregister(self, address: int) -> None:
        self._host.pop(int(address), None)
        array = self._mapped.pop(int(address), None)
        if array is not None:
            self._remove(array)

    def cuMemHostGetDevicePointer(self, address: int, flags: int) -> Any:
        key = int(address)
        if key not in self._mapped:
            self._mapped[key] = self._placed(self._host[key], True)
        return binding.CUdeviceptr(self._mapped[key].address)

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
        array.memory[offset : offset + size] = other.memory[start : start + size].copy()
        if other.written is None:
            array.define(offset, size)
            return
        if array.written is None:
            array.written = np.ones(array.memory.size, bool)
        array.written[offset : offset + size] = other.written[start : start + size].copy()

    def cuMemsetD8(self, target: Any, value: int, size: int, stream: object = None) -> None:
        array, offset = self.find(target, size)
        array.memory[offset : offset + size] = value & 0xFF
        array.define(offset, size)

    cuMemcpyHtoDAsync = cuMemcpyHtoD
    cuMemcpyDtoHAsync = cuMemcpyDtoH
    cuMemcpyDtoDAsync = cuMemcpyDtoD
    cuMemsetD8Async = cuMemsetD8

    def cuCtxSynchronize(self) -> None:
        pass

    def cuStreamCreate(self, flags: int) -> Any:
        return binding.CUstream(next(self._handles))

    def cuStreamSynchronize(self, stream: object) -> None:
        pass

    def cuStreamWaitEvent(self, stream: object, event: object, flags: int) -> None:
        pass

    def cuEventCreate(self, flags: int) -> Any:
        return binding.CUevent(next(self._handles))

    def cuEventRecord(self, event: Any, stream: object) -> None:
        self._recorded[int(event)] = time.perf_counter()

    def cuEventSynchronize(self, event: object) -> None:
        pass

    def cuEventQuery(self, event: object) -> None:
        pass

    def cuEventElapsedTime(self, start: Any, end: Any) -> float:
        """Return the milliseconds that the simulation took."""
        return 1000 * (self._recorded[int(end)] - self._recorded[int(start)])

    def cuDeviceGetAttribute(self, code: Any, device: int) -> int:
        return _ATTRIBUTES.get(code.name.removeprefix("CU_DEVICE_ATTRIBUTE_"), 0)

    def cuDeviceGetCount(self) -> int:
        return 1

    def cuDriverGetVersion(self) -> int:
        return 13000
