"""Timing on a CUDA device with events on the stream and a cold L2 cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver

from ..errors import LaunchError
from .arrays import Argument, ArrayView
from .cuda_driver import call, current, is_capturing
from .cuda_memory import CudaMemory, staged
from .signature import Call

if TYPE_CHECKING:
    from .cuda import CudaDevice

#: bytes written before each timing to flush the L2 cache: five times its size on an H100 (50 MB), or less, down to
#: `_LEAST_BYTES`, if memory is short. On an H100 this takes 90 µs, which also hides the time to enqueue the launch
_FLUSH_BYTES = 256 << 20
_LEAST_BYTES = 16 << 20


class CudaBench:
    """Times work on one stream. unit: of the times. is_exact: True if the same work always takes the same time."""

    unit = "ms"
    is_exact = False

    def __init__(self, device: CudaDevice, stream: int, arguments: Sequence[Argument], kept: Sequence[int]) -> None:
        self._stream = stream
        self._arguments = arguments
        self._flushed, self._flushed_bytes = _flush_memory(device)
        self._events: list[tuple[Any, Any]] = []
        self._kept: list[tuple[int, CudaMemory, int]] = []
        for position in kept:
            view = arguments[position]
            assert isinstance(view, ArrayView)
            size = view.facts.high_bytes - view.facts.low_bytes
            if size:
                saved = CudaMemory(size, device.number, device.context)
                self._kept.append((view.pointer + view.facts.low_bytes, saved, size))
                call(driver.cuMemcpyDtoDAsync, saved.pointer, self._kept[-1][0], size, stream)

    def staged(self, launched: Call) -> Call:
        """Return the call for repeated launches, with host arrays replaced by the bench's device copies."""
        if not launched.has_host:
            return launched
        moved = copy(launched)
        moved.has_host = False
        moved.arguments = [
            there if isinstance(here, ArrayView) else here
            for here, there in zip(launched.arguments, self._arguments, strict=True)
        ]
        return moved

    def round(self, works: Sequence[Callable[[], object]]) -> list[float]:
        """Run each piece of work once, with a cold L2 cache, and return their times."""
        while len(self._events) < len(works):
            self._events.append((call(driver.cuEventCreate, 0), call(driver.cuEventCreate, 0)))
        for work, (began, ended) in zip(works, self._events, strict=False):
            self.restore()
            call(driver.cuMemsetD32Async, self._flushed.pointer, 0, self._flushed_bytes // 4, self._stream)
            call(driver.cuEventRecord, began, self._stream)
            work()
            call(driver.cuEventRecord, ended, self._stream)
        call(driver.cuStreamSynchronize, self._stream)
        return [float(call(driver.cuEventElapsedTime, *pair)) for pair in self._events[: len(works)]]

    def restore(self) -> None:
        for at, saved, size in self._kept:
            call(driver.cuMemcpyDtoDAsync, at, saved.pointer, size, self._stream)

    def close(self) -> None:
        try:
            self.restore()
            call(driver.cuStreamSynchronize, self._stream)
        finally:
            for event in (event for pair in self._events for event in pair):
                driver.cuEventDestroy(event)


@contextmanager
def timing(device: CudaDevice, launched: Call | None, stream: int, kept: Sequence[int]) -> Iterator[CudaBench]:
    """Yield a bench on a stream.

    launched: the call whose host arrays have copies on the device while the bench exists; None if there is no call.
    kept: positions of the call's arrays to restore before each timing and at the end.
    raises: LaunchError if the stream, or torch's current stream, is being captured.
    """
    with current(device.context):
        if is_capturing(stream):
            raise LaunchError(
                "nothing can be timed while a graph is being captured",
                hint="launch the kernel with these arguments before the capture" if launched
                else "time it before the capture",
            )
        with staged(launched.arguments if launched else (), (), stream) as arguments:
            bench = CudaBench(device, stream, arguments, kept)
            try:
                yield bench
            finally:
                bench.close()


def _flush_memory(device: CudaDevice) -> tuple[CudaMemory, int]:
    """Allocate `_FLUSH_BYTES`, or half of that, and so on down to `_LEAST_BYTES`; return the memory and its size."""
    size = _FLUSH_BYTES
    while True:
        try:
            return CudaMemory(size, device.number, device.context), size
        except LaunchError:
            size //= 2
            if size < _LEAST_BYTES:
                raise
