"""CUDA device memory, and staging of host arrays for launches."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from cuda.bindings import driver

from ..dataclass import dataclass
from .arrays import MAX_ALIGN, Argument, ArrayView, is_host, laid_out
from .cuda_driver import SUCCESS, call, current


class CudaMemory:
    """Device memory. synchronize: waits for work on all streams before a copy; None if the caller orders copies."""

    def __init__(self, size: int, device: int, context: Any, synchronize: Callable[[], None] | None = None) -> None:
        self.device = device
        self.host = None
        self._context = context
        self._synchronize = synchronize or (lambda: None)
        self.pointer = _allocated(size, context) if size else 0
        self._finalizer = weakref.finalize(self, _free, driver, self.pointer, context)
        # the end of the process frees everything, and the driver may be unloaded before Python exits
        self._finalizer.atexit = False

    def copy_in(self, array: np.ndarray[Any, Any]) -> None:
        self._synchronize()
        if array.nbytes:
            with current(self._context):
                call(driver.cuMemcpyHtoD, self.pointer, array.ctypes.data, array.nbytes)

    def copy_out(self, array: np.ndarray[Any, Any]) -> None:
        self._synchronize()
        if array.nbytes:
            with current(self._context):
                call(driver.cuMemcpyDtoH, array.ctypes.data, self.pointer, array.nbytes)

    def free(self) -> None:
        self._finalizer()


def _allocated(size: int, context: Any) -> int:
    with current(context):
        return int(call(driver.cuMemAlloc, size))


def _free(allocator: Any, pointer: int, context: Any) -> None:
    if not pointer:
        return
    # finalizers can't raise; if the context is broken, the next call reports it
    if allocator.cuCtxPushCurrent(context)[0] == SUCCESS:
        allocator.cuMemFree(pointer)
        allocator.cuCtxPopCurrent()


@dataclass(frozen=True, slots=True)
class StagedRange:
    """Host memory from address `low` to `high`, exclusive; its copy is at `at`, in the device allocation at `base`."""

    low: int
    high: int
    base: int
    at: int


@contextmanager
def staged(arguments: Sequence[Argument], written: Sequence[int], stream: int) -> Iterator[list[Argument]]:
    """Copy host arrays to the current device; at the end, copy the written ones back and wait for the copies.

    Overlapping host arrays share one copy. Nothing is copied back if the `with` block raises an error.
    written: positions of arrays that the kernel writes.
    yields: the arguments with host addresses replaced by device addresses.
    """
    blocks: list[StagedRange] = []
    try:
        for low, high in merged(arguments):
            blocks.append(_copied(low, high, stream))
        moved = [_moved(a, blocks) for a in arguments]
        yield moved
        for position in written:
            _copy_back(arguments[position], moved[position], stream)
        if any(is_host(arguments[p]) for p in written):
            call(driver.cuStreamSynchronize, stream)
    finally:
        for block in blocks:
            driver.cuMemFreeAsync(block.base, stream)


def merged(arguments: Sequence[Argument]) -> list[tuple[int, int]]:
    """Return the address ranges that the host arrays span, in ascending order, with overlapping ones merged."""
    ranges = sorted(_range(a) for a in arguments if is_host(a) and type(a) is ArrayView and a.facts.high_bytes)
    found: list[tuple[int, int]] = []
    for low, high in ranges:
        if found and low < found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _range(view: ArrayView) -> tuple[int, int]:
    return view.pointer + view.facts.low_bytes, view.pointer + view.facts.high_bytes


def _copied(low: int, high: int, stream: int) -> StagedRange:
    # keep the host address's alignment, which the signature promises
    base = int(call(driver.cuMemAllocAsync, high - low + MAX_ALIGN, stream))
    at = base + low % MAX_ALIGN
    call(driver.cuMemcpyHtoDAsync, at, low, high - low, stream)
    return StagedRange(low, high, base, at)


def _moved(argument: Argument, blocks: Sequence[StagedRange]) -> Argument:
    if type(argument) is not ArrayView or argument.facts.device is not None or not argument.facts.high_bytes:
        return argument
    low, _ = _range(argument)
    block = next(b for b in blocks if b.low <= low < b.high)
    return argument._replace(pointer=argument.pointer - block.low + block.at)


def _copy_back(original: Argument, moved: Argument, stream: int) -> None:
    """Copy the elements of a written array back to host memory, but not the bytes between them."""
    if type(original) is not ArrayView or type(moved) is not ArrayView or original.facts.device is not None:
        return
    facts = original.facts
    size = facts.high_bytes - facts.low_bytes
    if not size:
        return
    source = moved.pointer + facts.low_bytes
    if facts.is_dense:
        call(driver.cuMemcpyDtoHAsync, original.pointer + facts.low_bytes, source, size, stream)
        return
    assert original.host is not None
    bounce = np.empty(size, np.uint8)
    call(driver.cuMemcpyDtoHAsync, bounce.ctypes.data, source, size, stream)
    call(driver.cuStreamSynchronize, stream)
    original.host[...] = laid_out(bounce, facts)
