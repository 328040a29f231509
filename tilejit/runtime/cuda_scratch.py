"""The memory of a GPU for `tj.scratch`: blocks by stream, which successive launches on the stream share.

```
(stream id, capture id or 0, zeroed?) ─▶ ScratchBlock ─ too small? ─▶ a new block; the old one is freed on the stream
```
A launch pins its blocks until the driver has it. Only growing and clearing take the lock: `list.append` and the lookup
are atomic, and a launch that has pinned a block checks that it is still the current one, so it is never freed earlier.
A captured graph may be replayed at any time, so its blocks are its own and are never freed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from typing import Any

from cuda.bindings import driver

from ..forks import renewed_at_fork
from . import cuda_driver
from .cuda_driver import call

_ACTIVE = driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE

#: a stream's id, or its handle during a capture; the id of the capture or 0; whether the block is zeroed
Key = tuple[int, int, bool]


class ScratchBlock:
    """Memory of one stream. users: an item per launch that uses the block and that the driver doesn't have yet.

    must_clear: True if the memory must be set to 0 before the next launch.
    """

    __slots__ = ("pointer", "size", "users", "must_clear")

    def __init__(self, pointer: int, size: int) -> None:
        self.pointer = pointer
        self.size = size
        self.users: list[None] = []
        self.must_clear = False


#: represents memory of no bytes
_EMPTY = ScratchBlock(0, 0)


class ScratchPool:
    """The blocks of one GPU."""

    def __init__(self, context: Callable[[], Any]) -> None:
        self._context = context
        self._blocks: dict[Key, ScratchBlock] = {}
        # replaced blocks, some of which launches still used
        self._retired: list[tuple[Key, ScratchBlock]] = []
        # reentrant, because a finalizer may launch a kernel at any allocation of an object
        self._lock = renewed_at_fork(threading.RLock())

    def pin(self, stream: int, sizes: tuple[int, int]) -> list[ScratchBlock]:
        """Return a stream's blocks of at least these sizes, plain and zeroed.

        The caller must `unpin` them once the driver has the launch.
        raises: LaunchError; MemoryError if the GPU has too little memory.
        """
        capture = _capture_of(stream)
        # a stream that is captured has no id, but the capture has, and the handle is valid as long as it lasts
        stream_id = int(stream) if capture else call(driver.cuStreamGetId, stream)
        plain = self._pinned((stream_id, capture, False), stream, sizes[0])
        try:
            return [plain, self._pinned((stream_id, capture, True), stream, sizes[1])]
        except BaseException:
            # also MemoryError and an interrupt
            unpin([plain])
            raise

    def mark(self, blocks: Collection[ScratchBlock] | None = None) -> None:
        """Have zeroed blocks cleared before their next launch, because a launch failed. blocks: None for all."""
        with self._lock:
            for (_, _, is_zeroed), block in self._blocks.items():
                block.must_clear |= is_zeroed and (blocks is None or block in blocks)

    def release(self) -> None:
        """Free all blocks that neither a captured graph nor a launch uses, once the GPU is idle."""
        with self._lock, cuda_driver.current(self._context()), cuda_driver.uncaptured():
            for key in [key for key in self._blocks if not key[1]]:
                self._retired.append((key, self._blocks.pop(key)))
            unused = [block for _, block in self._retired if not block.users]
            if unused:
                call(driver.cuCtxSynchronize)
            self._retired = [each for each in self._retired if each[1] not in unused]
            for block in unused:
                call(driver.cuMemFree, block.pointer)

    def _pinned(self, key: Key, stream: int, size: int) -> ScratchBlock:
        if not size:
            _EMPTY.users.append(None)
            return _EMPTY
        while True:
            block = self._blocks.get(key)
            if block is None or block.size < size or block.must_clear:
                block = self._ready(key, stream, size)
            block.users.append(None)
            if self._blocks.get(key) is block:
                return block
            # another thread has replaced it, and may have freed it
            block.users.pop()

    def _ready(self, key: Key, stream: int, size: int) -> ScratchBlock:
        """Return the block for a key, after growing or clearing it if necessary."""
        # captures of this or another thread don't allow allocations in their strictest mode
        with self._lock, cuda_driver.current(self._context()), cuda_driver.uncaptured():
            block = self._blocks.get(key)
            if block is None or block.size < size:
                block = self._grown(key, stream, size)
            if block.must_clear:
                call(driver.cuMemsetD8Async, block.pointer, 0, block.size, stream)
                block.must_clear = False
            return block

    def _grown(self, key: Key, stream: int, size: int) -> ScratchBlock:
        _, capture, zeroed = key
        old = self._blocks.pop(key, None)
        if capture:
            # nodes of the graph use the old block, so it is never freed
            block = ScratchBlock(_allocated_beside(size, zeroed), size)
        else:
            if old is not None:
                self._retired.append((key, old))
            self._free_retired(key, stream)
            block = ScratchBlock(_allocated(size, stream), size)
            block.must_clear = zeroed
        self._blocks[key] = block
        return block

    def _free_retired(self, key: Key, stream: int) -> None:
        """Free a stream's replaced blocks after the work that has been enqueued on it."""
        unused = [block for its, block in self._retired if its == key and not block.users]
        self._retired = [each for each in self._retired if each[1] not in unused]
        for block in unused:
            call(driver.cuMemFreeAsync, block.pointer, stream)


def unpin(blocks: Iterable[ScratchBlock]) -> None:
    for block in blocks:
        block.users.pop()


def _capture_of(stream: int) -> int:
    """Return the id of a stream's active capture; 0 if it isn't being captured."""
    error, status = driver.cuStreamIsCapturing(stream)
    if error:
        raise cuda_driver.failure(error, "cuStreamIsCapturing")
    return int(call(driver.cuStreamGetCaptureInfo, stream)[1]) if status == _ACTIVE else 0


def _allocated(size: int, stream: Any) -> int:
    error, pointer = driver.cuMemAllocAsync(size, stream)
    if error == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
        raise MemoryError
    if error != cuda_driver.SUCCESS:
        raise cuda_driver.failure(error, "cuMemAllocAsync")
    return int(pointer)


def _allocated_beside(size: int, zeroed: bool) -> int:
    """Allocate memory, cleared if `zeroed`, on a stream of its own, during a capture of another stream."""
    # a blocking stream would synchronize with the legacy stream, which can't be used during most captures
    stream = call(driver.cuStreamCreate, int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    try:
        pointer = _allocated(size, stream)
        if zeroed:
            call(driver.cuMemsetD8Async, pointer, 0, size, stream)
        call(driver.cuStreamSynchronize, stream)
    finally:
        call(driver.cuStreamDestroy, stream)
    return pointer
