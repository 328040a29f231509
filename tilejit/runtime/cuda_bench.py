"""Timing on a CUDA device: by events on the stream, each time with a cold L2 cache."""

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

#: bytes that are written before each timing: five times the largest L2 cache. It takes an H100 90 us, in which the
#: launch that is timed gets there, so that no time of Python's is counted.
_FLUSH_BYTES = 256 << 20
_LEAST_BYTES = 16 << 20


class CudaBench:
    """Times work that is enqueued on one stream; see `device.Bench`."""

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
                saved = CudaMemory(size, device.number, device.context, _nothing)
                self._kept.append((view.pointer + view.facts.low_bytes, saved, size))
                call(driver.cuMemcpyDtoDAsync, saved.pointer, self._kept[-1][0], size, stream)

    def staged(self, launched: Call) -> Call:
        """The call with copies on the device for its host arrays."""
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
        """Restores what is kept, and gives back memory and events once the stream has done its work."""
        try:
            self.restore()
            call(driver.cuStreamSynchronize, self._stream)
        finally:
            for event in (event for pair in self._events for event in pair):
                driver.cuEventDestroy(event)


@contextmanager
def timing(device: CudaDevice, launched: Call | None, stream: int, kept: Sequence[int]) -> Iterator[CudaBench]:
    """A bench on a stream. launched: whose host arrays get copies on the device while it lasts.

    kept: positions of the arrays that are restored before each timing and at the end.
    raises: LaunchError while the stream is captured.
    """
    with current(device.context):
        if is_capturing(stream):
            raise LaunchError(
                "nothing can be timed while a graph is being captured",
                hint="launch once before, with arguments like these",
            )
        with staged(launched.arguments if launched else (), (), stream) as arguments:
            bench = CudaBench(device, stream, arguments, kept)
            try:
                yield bench
            finally:
                bench.close()


def _flush_memory(device: CudaDevice) -> tuple[CudaMemory, int]:
    """As much as there is, down to what no longer fills a cache, with its bytes."""
    size = _FLUSH_BYTES
    while True:
        try:
            return CudaMemory(size, device.number, device.context, _nothing), size
        except LaunchError:
            size //= 2
            if size < _LEAST_BYTES:
                raise


def _nothing() -> None:
    """What moves is ordered by the stream."""
