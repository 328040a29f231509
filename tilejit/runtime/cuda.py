"""CUDA devices: their contexts, memory allocation and loading of kernels."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver

from ..errors import DeviceError
from ..executable import Executable, MachineCode
from ..forks import cached_property
from ..target import Target, for_capability
from ..wording import counted
from . import cuda_driver
from .cuda_driver import call
from .cuda_function import CudaFunction
from .cuda_memory import CudaMemory
from .cuda_scratch import ScratchPool
from .device import NO_DRIVER, Preparation
from .grid import stream_handle
from .signature import Call

if TYPE_CHECKING:
    from ..compiled import Compiled
    from .cuda_bench import CudaBench


def problem() -> str | None:
    """Return the reason why no GPU can be used, or None."""
    try:
        (error,) = driver.cuInit(0)
    except RuntimeError:
        return NO_DRIVER
    if error == cuda_driver.NOT_INITIALIZED:
        return f"{cuda_driver.FORKED}: {cuda_driver.SPAWN}"
    if error != cuda_driver.SUCCESS:
        return f"the CUDA driver reports {cuda_driver.name(error)}"
    return None if device_count() else "the CUDA driver has no device"


def device_count() -> int:
    return int(call(driver.cuDeviceGetCount))


class CudaDevice:
    """A GPU, used through its primary context, which other frameworks use, too.

    number: the CUDA ordinal. target: the default target of kernels. checks: True if all launches run checked builds.
    scratch: the memory for `tj.scratch`.
    """

    def __init__(self, ordinal: int) -> None:
        if not 0 <= ordinal < device_count():
            found = counted(device_count(), "device")
            raise DeviceError(f"no device cuda:{ordinal}", hint=f"the driver reports {found}; the first is cuda:0")
        self.number = ordinal
        self.name = f"cuda:{ordinal}"
        self.checks = False
        self._device = call(driver.cuDeviceGet, ordinal)
        self._preparation: Preparation | None = None
        attribute = driver.CUdevice_attribute
        major = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        minor = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        self.capability = 10 * major + minor
        self.target = for_capability(major, minor)
        self.scratch = ScratchPool(lambda: self.context)
        self._asserting: weakref.WeakSet[CudaFunction] = weakref.WeakSet()

    @cached_property
    def context(self) -> Any:
        """The primary context. Its first use takes 0.25 s, unless a framework has already created it."""
        if self._preparation is not None:
            self._preparation.wait()
        return call(driver.cuDevicePrimaryCtxRetain, self._device)

    @cached_property
    def _context_handle(self) -> int:
        return int(self.context)

    def prepare(self) -> None:
        """Start any work that `load` would wait for, and return at once."""
        if self._preparation is None and "context" not in self.__dict__:
            self._preparation = Preparation(partial(driver.cuDevicePrimaryCtxRetain, self._device))

    def open(self) -> None:
        """Open the device, so that an error that would prevent all launches is raised now."""
        self.context  # noqa: B018

    @property
    def product(self) -> str:
        text = call(driver.cuDeviceGetName, 256, self._device)
        return str(text.split(b"\0", 1)[0].decode())

    @property
    def multiprocessors(self) -> int:
        return self._attribute(driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)

    def _attribute(self, attribute: Any) -> int:
        return int(call(driver.cuDeviceGetAttribute, attribute, self._device))

    def check(self, target: Target) -> None:
        """Raise DeviceError if the device can't run code for `target`."""
        if not target.runs_on(self.capability):
            raise DeviceError(
                f"{self.name} has compute capability {self.capability // 10}.{self.capability % 10} "
                f"and can't run code for {target}",
                hint=f"compile for {self.target}, or run on the simulator: TILEJIT_DEVICE=sim:{target}",
            )

    def load(self, compiled: Compiled) -> CudaFunction:
        with cuda_driver.current(self.context), cuda_driver.uncaptured():
            function = CudaFunction(self, compiled)
        if function.asserts:
            self._asserting.add(function)
        return function

    def machine_code(self, executable: Executable) -> MachineCode:
        self.check(executable.target)
        with cuda_driver.current(self.context):
            return cuda_driver.link(executable, self.capability)

    def allocate(self, size: int) -> CudaMemory:
        return CudaMemory(size, self.number, self.context, self.synchronize)

    @property
    def identity(self) -> str:
        """A string that identifies the device and its driver; earlier timings are invalid if it changes."""
        return f"{self.product} {self.capability} driver {cuda_driver.driver_version()}"

    def stream(self, stream: Any, call: Call | None) -> int:
        """Return the handle of `stream` or, if it is None, of the current stream.

        For a call, `cuda_driver.stream_of_framework` of its first device array determines the current stream, which is
        0, the legacy stream, if there is no such array. Without a call, `cuda_driver.current_stream` determines it.
        """
        if stream is not None:
            return stream_handle(stream)
        if call is not None:
            return 0 if call.first is None else cuda_driver.stream_of_framework(call.first.owner)(self.number)
        return cuda_driver.current_stream(self.number)

    def bench(self, call: Call | None, stream: Any, kept: Sequence[int]) -> AbstractContextManager[CudaBench]:
        """Return a context manager that yields a bench on a stream. stream: None for the current one.

        call: the launch whose host arrays the bench stages; None if there is none, and then `kept` is empty.
        kept: positions of the call's arrays to restore before each timing and at the end.
        """
        from . import cuda_bench

        return cuda_bench.timing(self, call, self.stream(stream, call), kept)

    def synchronize(self) -> None:
        with cuda_driver.current(self.context):
            call(driver.cuCtxSynchronize)
        self.check_assertions()

    def check_assertions(self) -> None:
        for function in tuple(self._asserting):
            function.check_assertions()

    def is_current(self) -> bool:
        """Return True if this device's context is current in the calling thread; if no context is, make it current."""
        error, context = driver.cuCtxGetCurrent()
        if error != cuda_driver.SUCCESS:
            raise cuda_driver.failure(error, "cuCtxGetCurrent")
        handle = int(context)
        if handle == self._context_handle:
            return True
        if handle == 0:
            call(driver.cuCtxSetCurrent, self.context)
        return handle == 0
