"""Timing on a CUDA device with events on the stream and a cold L2 cache."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver

from ..errors import LaunchError
from . import cuda_driver
from .arrays import Argument, ArrayView
from .cuda_driver import call, current, is_capturing
from .cuda_memory import CudaMemory, staged
from .packing import ParameterBlock
from .signature import Call

if TYPE_CHECKING:
    from .cuda import CudaDevice

#: bytes read before each timing to flush the L2 cache: five times its size on an H100 (50 MB), or less, down to
#: `_LEAST_BYTES`, if memory is short. At 3 TB/s this takes 90 µs, which also hides the time to enqueue the launch.
#: Writing them would leave dirty lines, whose write-back the timed work would pay for
_FLUSH_BYTES = 256 << 20
_LEAST_BYTES = 16 << 20

#: a kernel that reads memory: thread t of n reads 16 bytes at begin + 16 * t, and again every 16 * n bytes. The loads
#: are volatile, because nothing uses what they read
_FLUSH = """
.version 6.3
.target sm_75
.address_size 64
.visible .entry flush(.param .u64 begin, .param .u64 bytes)
{
    .reg .pred %done;
    .reg .b32 %cta, %threads, %thread, %ctas, %word<4>;
    .reg .b64 %at, %end, %step;
    mov.u32 %cta, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mov.u32 %ctas, %nctaid.x;
    mad.lo.u32 %thread, %cta, %threads, %thread;
    mul.lo.u32 %threads, %threads, %ctas;
    mul.wide.u32 %step, %threads, 16;
    ld.param.u64 %at, [begin];
    ld.param.u64 %end, [bytes];
    add.u64 %end, %at, %end;
    mad.wide.u32 %at, %thread, 16, %at;
READ:
    setp.ge.u64 %done, %at, %end;
    @%done ret;
    ld.volatile.global.v4.u32 {%word0, %word1, %word2, %word3}, [%at];
    add.u64 %at, %at, %step;
    bra READ;
}
"""
#: its grid and CTA, which fill each of 128 multiprocessors: 32 KB of loads are in flight on each
_FLUSH_LAUNCH = (1024, 1, 1, 256, 1, 1)


class CudaBench:
    """Times work on one stream. unit: of the times. is_exact: True if the same work always takes the same time."""

    unit = "ms"
    is_exact = False

    def __init__(self, device: CudaDevice, stream: int, arguments: Sequence[Argument], kept: Sequence[int]) -> None:
        self._stream = stream
        self._arguments = arguments
        self._flushed, size = _flush_memory(device)
        self._flush = cuda_driver.load_ptx(_FLUSH, "flush")
        self._swept = ParameterBlock(16, 8, (0, 8))
        struct.pack_into("2Q", self._swept.memory, 0, self._flushed.pointer, size)
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
            call(driver.cuLaunchKernel, self._flush.function, *_FLUSH_LAUNCH, 0, self._stream, self._swept.address, 0)
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
            driver.cuModuleUnload(self._flush.module)


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
