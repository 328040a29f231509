"""A simulated GPU for PTX from any compiler. Its memory and its modules' variables persist across launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..errors import LaunchError, UnsupportedInstructionError
from .checks.report import Report
from .decode.functions import load_kernel
from .decode.parser import parse
from .decode.ptx import PtxParam
from .decode.translate import translate
from .decode.variables import initial_bytes, place_lasting
from .machine.memory import RED_ZONE_BYTES, host_memory
from .opcodes import lookup
from .placing import POISON, DeviceArray, Pointer, Resident
from .run_grid import Checks, run

# Device addresses start above those that launches assign to their arguments.
_FIRST_ADDRESS = 1 << 40
#: CUDA's allocators align arrays to 256 bytes, PyTorch's to 512
_ALIGNMENT = 512

Bytes = NDArray[np.uint8]


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

    def array(self, values: ArrayLike, name: str = "") -> DeviceArray:
        """Return a copy of `values` in the device's memory. name: for messages."""
        return self._place(np.array(values, order="C"), True, name)

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike, name: str = "") -> DeviceArray:
        """Return an uninitialized array. name: for messages.

        Its bytes are 0xFF. A byte counts as written once a checked launch has written it, or another value than 0xFF
        is found there at the start of a launch; see also `DeviceArray.define`.
        """
        return self._place(np.empty(shape, dtype), False, name)

    def place(self, array: NDArray[Any], *, initialized: bool = True, name: str = "") -> DeviceArray:
        """Give a contiguous array an address on the device, whose kernels then use it in place.

        initialized: if False, the array's bytes become 0xFF and count as unwritten, as in `empty`.
        raises: ValueError if the array isn't contiguous.
        """
        if not array.flags.c_contiguous:
            raise ValueError("the array must be contiguous, in row-major order")
        return self._place(array, initialized, name)

    def free(self, array: DeviceArray) -> None:
        """Free `array`; later accesses are out of bounds. raises: ValueError if it isn't an array of this device."""
        self._arrays.remove(array)

    def load(self, ptx: str) -> DeviceModule:
        """Load a module; raise UnsupportedInstructionError for unknown syntax. Kernels' bodies are parsed at launch."""
        return DeviceModule(self, ptx)

    def allocations(self) -> tuple[DeviceArray, ...]:
        for x in self._arrays:
            x.note_writes()
        return tuple(self._arrays)

    def _place(self, array: NDArray[Any], initialized: bool, name: str) -> DeviceArray:
        placed = DeviceArray(array, self._next, None if initialized else np.zeros(array.nbytes, bool), name)
        if not initialized:
            placed.memory[:] = POISON
        self._next += -(-(array.nbytes + RED_ZONE_BYTES) // _ALIGNMENT) * _ALIGNMENT
        self._arrays.append(placed)
        return placed


class Unsupported(NamedTuple):
    """A statement that the simulator doesn't support. ptx_line: counted from 1; 0 if unknown."""

    ptx_line: int
    reason: str


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

    def parameters(self, kernel: str) -> tuple[PtxParam, ...]:
        """Return a kernel's parameters. raises: UnsupportedInstructionError if the module lacks the kernel."""
        return self._module.kernel(kernel).params

    def unsupported(self, kernel: str) -> tuple[Unsupported, ...]:
        """Return the statements of a kernel that the simulator doesn't support; it may run if there are none.

        Of those, only the first is found that can't be parsed, or has unsupported operands.
        raises: UnsupportedInstructionError if the module lacks the kernel.
        """
        self._module.kernel(kernel)
        try:
            body = load_kernel(self._module, kernel).body
            unknown = [x for x in body if lookup(x.root, x.suffix) is None]
            if not unknown:
                translate(self._ptx, kernel, 0)
        except UnsupportedInstructionError as error:
            what, _, where = error.message.partition("\n  PTX line ")
            return (Unsupported(int(where.partition(":")[0] or 0), what),)
        return tuple(Unsupported(x.line, f"{x.root}{x.suffix} is not supported") for x in unknown)

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
        replicas_differ: Literal["error", "warning"] = "error",
        orders: int | str | None = None,
        limit: int = 10_000,
        seconds: float | None = None,
        profile: bool = False,
        cooperative: bool = False,
        write: Callable[[str], object] | None = None,
    ) -> Report:
        """Run `kernel` to completion and return its report. See `simulator.run` for the other parameters.

        args: one per parameter: a NumPy array, a DeviceArray, a Pointer or TensorMap, a NumPy scalar, an int, or the
            parameter's bytes.
        shared_bytes: size of dynamic shared memory.
        write: called with each string that the kernel prints; None for standard output.
        raises: SimulationError for errors in the kernel, unless they are collected; LaunchError for an invalid
            grid, block or argument; UnsupportedInstructionError for an unknown kernel or unsupported PTX.
        """
        values = [_pointer(x, f"argument {i}") if isinstance(x, np.ndarray) else x for i, x in enumerate(args)]
        resident = Resident(self._device.allocations(), self._variables)
        return run(
            self._ptx, kernel, grid, block, values, checks=checks, profile=profile, write=write,
            dynamic_shared_bytes=shared_bytes, resident=resident, on_finding=on_finding, schedule=schedule,
            replicas_differ=replicas_differ, orders=orders, limit=limit, seconds=seconds,
            cooperative=cooperative,
        )


def _pointer(array: NDArray[Any], name: str) -> Pointer:
    """Return a pointer to the first element of `array`; its `memory` covers all elements."""
    if not array.size:
        return Pointer(np.zeros(0, np.uint8), 0, name)
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    low = sum(min(x, 0) for x in reach)
    high = sum(max(x, 0) for x in reach) + array.itemsize
    memory = host_memory(array.__array_interface__["data"][0] + low, high - low)
    return Pointer(memory, -low, name, array.flags.writeable)
