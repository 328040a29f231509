"""A simulated GPU for PTX from any compiler. Its memory and its modules' variables persist across launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..errors import LaunchError
from .checks.report import Report
from .decode.parser import parse
from .decode.variables import initial_bytes, place_lasting
from .machine.memory import RED_ZONE_BYTES, host_memory
from .placing import ParameterValue, PlacedMemory, Pointer, Resident
from .run_grid import Checks, run

# Device addresses start above those that launches assign to their arguments.
_FIRST_ADDRESS = 1 << 40
_ALIGNMENT = 256
_POISON = 0xFF

Bytes = NDArray[np.uint8]


class DeviceArray:
    """An array in a device's memory."""

    def __init__(self, array: NDArray[Any], address: int, initialized: bool) -> None:
        self.array = array
        self.address = address
        self._initialized = initialized

    def __repr__(self) -> str:
        return f"DeviceArray({self.array.dtype}{list(self.array.shape)} at {self.address:#x})"

    def allocation(self) -> PlacedMemory:
        memory = self.array.reshape(-1).view(np.uint8)
        # Any byte other than the poison shows that the host or a kernel has written to the array.
        self._initialized = self._initialized or bool((memory != _POISON).any())
        return PlacedMemory(memory, self.address, repr(self), self._initialized)


class Device:
    """A simulated GPU: its memory, and the modules loaded onto it.

    Kernel arguments are arrays (used in place), NumPy scalars, ints, and bytes for structures. A pointer inside a
    structure or an array must point into an array of the device:

    ```python
    device = Device()
    module = device.load(Path("kernels.ptx").read_text())
    x = np.arange(1000, dtype=np.float32)
    module.launch("scale", grid=(8,), block=(128,), args=[x, np.float32(2), np.int32(x.size)])

    y = device.array(x)                               # a copy, in the device's memory
    task = struct.pack("QQi4x", y.address, y.address, y.array.size)
    module.launch("scale_tasks", (1,), (128,), [task])
    y.array                                           # the contents after the launch
    module.variable("counter").view(np.int32)         # a __device__ or __constant__ variable, writable
    ```

    By default, launches are checked for invalid addresses, races, misused barriers and uses of unwritten memory; the
    first error raises SimulationError.
    """

    def __init__(self) -> None:
        self._arrays: list[DeviceArray] = []
        self._next = _FIRST_ADDRESS

    def array(self, values: ArrayLike) -> DeviceArray:
        """Return a copy of `values` in the device's memory."""
        return self._place(np.array(values, order="C"), True)

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> DeviceArray:
        """Return an array of 0xFF bytes, which is uninitialized until the host or an earlier launch changes a byte."""
        dtype = np.dtype(dtype)
        count = int(np.prod(shape))
        return self._place(np.full(count * dtype.itemsize, _POISON, np.uint8).view(dtype).reshape(shape), False)

    def free(self, array: DeviceArray) -> None:
        """Free `array`; later accesses are out of bounds. raises: ValueError if it isn't an array of this device."""
        self._arrays.remove(array)

    def load(self, ptx: str) -> DeviceModule:
        """Load a module; raise UnsupportedInstructionError for unknown syntax. Kernels' bodies are parsed at launch."""
        return DeviceModule(self, ptx)

    def allocations(self) -> tuple[PlacedMemory, ...]:
        return tuple(x.allocation() for x in self._arrays)

    def _place(self, array: NDArray[Any], initialized: bool) -> DeviceArray:
        placed = DeviceArray(array, self._next, initialized)
        self._next += -(-(array.nbytes + RED_ZONE_BYTES) // _ALIGNMENT) * _ALIGNMENT
        self._arrays.append(placed)
        return placed


class DeviceModule:
    """PTX loaded onto a device. Its global and constant variables keep their values between launches."""

    def __init__(self, device: Device, ptx: str) -> None:
        self._device = device
        self._ptx = ptx
        self._module = parse(ptx)
        placed = place_lasting(self._module)
        self._variables: Mapping[str, Bytes] = {
            v.name: np.frombuffer(initial_bytes(self._module, v, placed), np.uint8) for v, _ in placed
        }

    @property
    def kernels(self) -> tuple[str, ...]:
        return tuple(self._module.kernels)

    def variable(self, name: str) -> Bytes:
        """Return a writable view of a global or constant variable's bytes; raise LaunchError if `name` is unknown."""
        if name not in self._variables:
            names = ", ".join(self._variables) or "none"
            raise LaunchError(f"the PTX has no global or constant variable {name}; it has: {names}")
        return self._variables[name]

    def launch(
        self,
        kernel: str,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        *,
        shared_bytes: int = 0,
        checks: Checks = True,
        on_finding: Literal["raise", "collect"] = "raise",
        schedule: int = 0,
        profile: bool = False,
        write: Callable[[str], object] | None = None,
    ) -> Report:
        """Run `kernel` to completion and return its report. See `simulator.run` for the other parameters.

        args: one per parameter: a NumPy array, a DeviceArray, a NumPy scalar, an int, or the parameter's bytes.
        shared_bytes: size of dynamic shared memory.
        write: called with each string that the kernel prints; None for standard output.
        raises: SimulationError for errors in the kernel, unless they are collected; LaunchError for an invalid
            grid, block or argument; UnsupportedInstructionError for an unknown kernel or unsupported PTX.
        """
        values = [_parameter_value(x, i) for i, x in enumerate(args)]
        resident = Resident(self._device.allocations(), self._variables)
        return run(
            self._ptx, kernel, grid, block, values, checks=checks, profile=profile, write=write,
            dynamic_shared_bytes=shared_bytes, resident=resident, on_finding=on_finding, schedule=schedule,
        )


def _parameter_value(value: Any, position: int) -> ParameterValue:
    if isinstance(value, DeviceArray):
        return value.address.to_bytes(8, "little")
    if isinstance(value, np.ndarray):
        return _pointer(value, f"argument {position}")
    if isinstance(value, bytes | np.generic | int):
        return value
    if isinstance(value, float):
        raise LaunchError(f"argument {position} is a Python float: pass np.float32 or np.float64 to specify its width")
    raise LaunchError(f"argument {position}, {value!r}, is not a NumPy array or scalar, a DeviceArray, an int or bytes")


def _pointer(array: NDArray[Any], name: str) -> Pointer:
    """Return a pointer to the first element of `array`; its `memory` covers all elements."""
    if not array.size:
        return Pointer(np.zeros(0, np.uint8), 0, name)
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    low = sum(min(x, 0) for x in reach)
    high = sum(max(x, 0) for x in reach) + array.itemsize
    memory = host_memory(array.__array_interface__["data"][0] + low, high - low)
    return Pointer(memory, -low, name, array.flags.writeable)
