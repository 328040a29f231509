"""Storages of torch at addresses of the simulator: their device, their address, and their uninitialized bytes.

CPU tensors represent CUDA tensors. A storage belongs to the simulated GPU if the program created it there, or if a
tensor on it is the result of an operation on such a tensor.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from ..errors import LaunchError
from ..simulator import Device, DeviceArray

#: the device that tensors on the simulated GPU name
GPU = torch.device("cuda", 0)

#: operators whose results are uninitialized
_UNINITIALIZED = frozenset(
    getattr(torch.ops.aten, name)
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)
#: the byte of which the simulator's fresh memory consists: other bytes must have been written
_FRESH = 0xFF
#: minimum number of records before those of freed storages are removed
_FEW = 256


class StorageRecord:
    """A storage that the program holds or has freed."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        # the reference keeps the number `_cdata` from being reused
        self.reference = StorageWeakRef(storage)
        self.is_on_gpu = False
        #: a mask of the bytes that are written, None if all are; once the storage is placed, that of `placed` holds
        self.written: NDArray[np.bool_] | None = None
        self.placed: DeviceArray | None = None
        #: the host's address and size that `placed` covers
        self.extent = (0, 0)

    def mask(self, size: int) -> NDArray[np.bool_] | None:
        """Return the mask of written bytes of the storage, which has `size` bytes; None if all are written.

        A storage whose size has changed counts as written.
        """
        written = (self.placed or self).written
        return written if written is not None and written.size == size else None


class TorchMemory:
    """The storages of a program. Those that kernels may access have addresses on `device`."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._records: dict[int, StorageRecord] = {}
        self._limit = _FEW

    def record(self, tensor: torch.Tensor) -> StorageRecord | None:
        """Return the record of a tensor's storage; None if it has none, or is initialized memory of the host."""
        key = storage_key(tensor)
        return None if key is None else self._records.get(key)

    def is_on_gpu(self, tensor: torch.Tensor) -> bool:
        record = self.record(tensor)
        return record is not None and record.is_on_gpu

    def move(self, tensor: torch.Tensor, to_gpu: bool) -> None:
        """Declare that a tensor's storage belongs to the GPU or to the host."""
        record = self._recorded(tensor) if to_gpu else self.record(tensor)
        if record is not None:
            record.is_on_gpu = to_gpu

    def address(self, tensor: torch.Tensor) -> int:
        """Return the address of a tensor's first element; place its storage if it has no address. 0 if it is empty."""
        array = self.place(tensor)
        return 0 if array is None else array.address + tensor.storage_offset() * tensor.element_size()

    def place(self, tensor: torch.Tensor) -> DeviceArray | None:
        """Return the array of a tensor's storage on the device; None if the storage has no bytes."""
        storage = tensor.untyped_storage()
        if storage.device.type != "cpu":
            raise LaunchError(
                f"a tensor is on the device {storage.device}, whose memory the simulator can't access",
                hint="create it in the context, with device='cuda'",
            )
        record = self._recorded(tensor)
        if record is None:
            return None
        extent = (storage.data_ptr(), storage.nbytes())
        if record.placed is not None and record.extent != extent:
            self._free(record)
        if record.placed is None and extent[1]:
            # this view of the storage doesn't keep it alive
            view = np.ctypeslib.as_array((ctypes.c_uint8 * extent[1]).from_address(extent[0]))
            written = record.mask(extent[1])
            record.placed = self.device.place(view)
            record.placed.written = written
            record.extent = extent
        return record.placed

    def uninitialized(self, tensor: torch.Tensor) -> None:
        """Mark a tensor's storage, which is new, as not written."""
        record = self._recorded(tensor)
        if record is not None:
            storage = tensor.untyped_storage()
            record.written = np.zeros(storage.nbytes(), bool)
            storage.fill_(_FRESH)

    def write(self, tensor: torch.Tensor) -> None:
        """Mark the elements of a tensor as written."""
        record = self.record(tensor)
        mask = None if record is None else record.mask(tensor.untyped_storage().nbytes())
        if record is None or mask is None:
            return
        width = tensor.element_size()
        strides = (*(stride * width for stride in tensor.stride()), 1)
        first = mask[tensor.storage_offset() * width :]
        np.lib.stride_tricks.as_strided(first, (*tensor.shape, width), strides)[...] = True
        if mask.all():
            (record.placed or record).written = None

    def hold(self) -> list[torch.UntypedStorage]:
        """Free what the program has freed; return the placed storages, so that they live until a launch ends."""
        held = []
        for key, record in list(self._records.items()):
            # None if the program has freed it
            storage = torch.UntypedStorage._new_with_weak_ptr(record.reference.cdata)
            if storage is None:
                self._free(self._records.pop(key))
            elif record.placed is not None:
                if record.extent != (storage.data_ptr(), storage.nbytes()):
                    self._free(record)
                held.append(storage)
        return held

    def _recorded(self, tensor: torch.Tensor) -> StorageRecord | None:
        key = storage_key(tensor)
        if key is None:
            return None
        record = self._records.get(key)
        if record is None:
            if len(self._records) >= self._limit:
                self.hold()
                self._limit = max(_FEW, 2 * len(self._records))
            record = self._records[key] = StorageRecord(tensor.untyped_storage())
        return record

    def _free(self, record: StorageRecord) -> None:
        if record.placed is not None:
            self.device.free(record.placed)
            record.written, record.placed = record.placed.written, None


class MarkingMode(TorchDispatchMode):
    """Run operators that name a CUDA device on the CPU; record the places of results, and the bytes that are written.

    The device is named where the functions of torch are called without `TensorMode`.
    """

    def __init__(self, memory: TorchMemory) -> None:
        super().__init__()
        self.memory = memory

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # otherwise torch imports torch._dynamo at the first operator, which takes seconds
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        names_gpu = is_cuda(named.get("device"))
        if names_gpu:
            named["device"] = torch.device("cpu")
        inputs = list(tensors_in((args, named)))
        result = func(*args, **named)
        is_on_gpu = names_gpu or any(map(self.memory.is_on_gpu, inputs))
        is_uninitialized = func.overloadpacket in _UNINITIALIZED
        if is_on_gpu or is_uninitialized:
            old = {storage_key(x) for x in inputs}
            for output in tensors_in(result):
                if storage_key(output) not in old:
                    self.memory.move(output, is_on_gpu)
                    if is_uninitialized:
                        self.memory.uninitialized(output)
        for position, keyword in _written(func):
            value = args[position] if position < len(args) else named.get(keyword)
            for tensor in tensors_in(value):
                self.memory.write(tensor)
        return result


def is_cuda(device: Any) -> bool:
    """True if a value passed as a device names a GPU; torch takes a number for the index of one."""
    return isinstance(device, int) or str(device).startswith("cuda")


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list, dict)):
        for x in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(x)


@cache
def _written(func: Any) -> list[tuple[int, str]]:
    """Return the positions and names of the parameters that an operator writes."""
    parameters = enumerate(func._schema.arguments)
    return [(i, x.name) for i, x in parameters if x.alias_info is not None and x.alias_info.is_write]


def storage_key(tensor: torch.Tensor) -> int | None:
    """Return a number that identifies a tensor's storage while a reference to it exists; None without a storage."""
    try:
        key: int = tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        # sparse tensors and those of functorch
        return None
    return key
