"""Tensors that answer as CUDA tensors do: their device, their address, and their moves between host and GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _device

from .torch_memory import GPU, TorchMemory, is_cuda, storage_key, tensors_in

_CPU = torch.device("cpu")
#: functions whose result may share the memory of an array
_CONVERSIONS = (torch.as_tensor, torch.asarray)


class TensorMode(TorchFunctionMode):
    """Answer questions about tensors on the simulated GPU as torch answers those about CUDA tensors."""

    def __init__(self, memory: TorchMemory) -> None:
        super().__init__()
        self.memory = memory
        tensor, on_gpu = torch.Tensor, memory.is_on_gpu
        self._answers: dict[Any, Callable[..., Any]] = {
            # getters are new objects at each access, but equal ones
            tensor.device.__get__: lambda x, *_: GPU if on_gpu(x) else x.device,
            tensor.is_cuda.__get__: lambda x, *_: on_gpu(x),
            tensor.is_cpu.__get__: lambda x, *_: x.is_cpu and not on_gpu(x),
            tensor.get_device: lambda x: 0 if on_gpu(x) else x.get_device(),
            # a kernel may get this pointer in another array
            tensor.data_ptr: memory.address,
            tensor.to: self.to,
            tensor.cuda: lambda x, *_, **__: self.moved(x, x, True),
            tensor.cpu: lambda x, *_, **__: self.moved(x, x, False),
            tensor.numpy: self.numpy,
            tensor.__array__: lambda x, dtype=None: np.asarray(self.numpy(x), dtype),
            tensor.type_as: lambda x, other: self.moved(x, x.type_as(other), on_gpu(other)),
            tensor.__deepcopy__: lambda x, memo: self.moved(x, x.__deepcopy__(memo), on_gpu(x)),
            tensor.pin_memory: lambda x, *_, **__: x,
            **{func: partial(_product, func) for func in (torch.mm, torch.bmm, torch.addmm, torch.baddbmm)},
        }

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        answer = self._answers.get(func)
        if answer is not None:
            return answer(*args, **named)
        if "pin_memory" in named:
            named["pin_memory"] = False
        device = named.get("device")
        if device is None and func in _device._device_constructors():
            # torch.get_default_device creates a tensor
            device = _device.CURRENT_DEVICE
        if device is None:
            return self.computed(func(*args, **named), (args, named))
        to_gpu = is_cuda(device)
        if to_gpu:
            named["device"] = _CPU
        result = func(*args, **named)
        if not isinstance(result, torch.Tensor):
            return result
        return self.moved(result if func in _CONVERSIONS else args, result, to_gpu)

    def computed(self, result: Any, values: Any) -> Any:
        """Return a result, on the GPU if one of the values is: operators may allocate it as a CPU tensor."""
        if isinstance(result, torch.Tensor) and not self.memory.is_on_gpu(result):
            operands = list(tensors_in(values))
            if any(map(self.memory.is_on_gpu, operands)) and not _share(operands, result):
                self.memory.move(result, True)
        return result

    def moved(self, x: Any, result: torch.Tensor, to_gpu: bool) -> torch.Tensor:
        """Return `result`, which `x` was converted to, on the GPU or the host; copy it if it shares x's memory."""
        if self.memory.is_on_gpu(result) != to_gpu and _share(x, result):
            result = result.clone()
        self.memory.move(result, to_gpu)
        return result

    def to(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Convert a tensor as `Tensor.to` does; copy it if it moves between the host and the GPU."""
        to_gpu = self.memory.is_on_gpu(x)
        other = args[0] if args else kwargs.get("other", kwargs.get("device"))
        if isinstance(other, torch.Tensor):
            to_gpu = self.memory.is_on_gpu(other)
        elif isinstance(other, (str, torch.device, int)):
            to_gpu = is_cuda(other)
            if args:
                args = (_CPU, *args[1:])
            else:
                kwargs = {**kwargs, "device": _CPU}
        return self.moved(x, x.to(*args, **kwargs), to_gpu)

    def numpy(self, x: torch.Tensor, *, force: bool = False) -> Any:
        if self.memory.is_on_gpu(x) and not force:
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )
        host = self.moved(x, x, False)
        # NumPy may write to the array
        self.memory.write(host)
        return host.numpy(force=force)


def _product(func: Any, *args: Any, out_dtype: Any = None, out: Any = None, **named: Any) -> Any:
    """Compute a product. For a result wider than its operands, which torch has only on CUDA, widen the operands."""
    if args and isinstance(args[-1], torch.dtype):
        args, out_dtype = args[:-1], args[-1]
    if out_dtype is not None:
        args = tuple(x.to(out_dtype) for x in args)
        named = {name: x.to(out_dtype) if isinstance(x, torch.Tensor) else x for name, x in named.items()}
    return func(*args, **named, out=out)


def _share(values: Any, result: torch.Tensor) -> bool:
    return storage_key(result) in map(storage_key, tensors_in(values))
