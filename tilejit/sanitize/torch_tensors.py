"""Tensors that answer as CUDA tensors do: their device, their address, and their moves between host and GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _device

from .torch_memory import TorchMemory, is_cuda, tensors_in

_CPU = torch.device("cpu")
_GPU = torch.device("cuda", 0)
#: functions whose result may share the memory of their argument, although the device differs
_CONVERSIONS = (torch.as_tensor, torch.asarray)


def _constructors() -> frozenset[Any]:
    """Return the functions that create a tensor on the default device."""
    names = (
        "empty", "empty_strided", "empty_permuted", "ones", "zeros", "full", "arange", "linspace", "logspace", "eye",
        "rand", "randn", "randint", "randperm", "tensor", "as_tensor", "asarray", "scalar_tensor", "complex", "range",
        "tril_indices", "triu_indices", "hann_window", "hamming_window", "bartlett_window", "blackman_window",
        "kaiser_window", "sparse_coo_tensor", "from_file", "normal",
    )
    return frozenset(getattr(torch, name) for name in names if hasattr(torch, name))


class TensorMode(TorchFunctionMode):
    """Answer questions about tensors on the simulated GPU as torch answers those about CUDA tensors."""

    def __init__(self, memory: TorchMemory) -> None:
        super().__init__()
        self.memory = memory
        tensor = torch.Tensor
        self._constructors = _constructors()
        self._answers: dict[Any, Callable[..., Any]] = {
            # getters are new objects at each access, but equal ones
            tensor.device.__get__: self.device,
            tensor.is_cuda.__get__: self.is_cuda,
            tensor.is_cpu.__get__: self.is_cpu,
            tensor.get_device: self.get_device,
            tensor.data_ptr: self.data_ptr,
            tensor.to: self.to,
            tensor.cuda: self.cuda,
            tensor.cpu: self.cpu,
            tensor.numpy: self.numpy,
            tensor.__array__: self.array,
            tensor.type: self.type,
            tensor.type_as: self.type_as,
            tensor.__deepcopy__: self.deepcopy,
            tensor.pin_memory: lambda x, *_, **__: x,
        }

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        answer = self._answers.get(func)
        if answer is not None:
            return answer(*args, **named)
        device = named.get("device")
        if device is None and func in self._constructors:
            # torch.get_default_device creates a tensor
            device = _device.CURRENT_DEVICE
        if device is None:
            return func(*args, **named)
        if not is_cuda(device):
            result = func(*args, **named)
            return self.moved(args[0] if args else None, result, False) if isinstance(result, torch.Tensor) else result
        result = func(*args, **{**named, "device": _CPU, **({"pin_memory": False} if "pin_memory" in named else {})})
        if not isinstance(result, torch.Tensor):
            return result
        if func in _CONVERSIONS and not self.memory.is_on_gpu(result):
            result = result.clone()
        self.memory.move(result, True)
        return result

    def device(self, x: torch.Tensor, *_: Any) -> torch.device:
        return _GPU if self.memory.is_on_gpu(x) else x.device

    def is_cuda(self, x: torch.Tensor, *_: Any) -> bool:
        return self.memory.is_on_gpu(x)

    def is_cpu(self, x: torch.Tensor, *_: Any) -> bool:
        return x.is_cpu and not self.memory.is_on_gpu(x)

    def get_device(self, x: torch.Tensor) -> int:
        return 0 if self.memory.is_on_gpu(x) else x.get_device()

    def data_ptr(self, x: torch.Tensor) -> int:
        # a pointer that a kernel may get, also inside another array
        return self.memory.address(x)

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

    def cuda(self, x: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return self.moved(x, x, True)

    def cpu(self, x: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return self.moved(x, x, False)

    def type_as(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return self.moved(x, x.type_as(other), self.memory.is_on_gpu(other))

    def deepcopy(self, x: torch.Tensor, memo: Any) -> torch.Tensor:
        result: torch.Tensor = x.__deepcopy__(memo)
        self.memory.move(result, self.memory.is_on_gpu(x))
        return result

    def moved(self, x: Any, result: torch.Tensor, to_gpu: bool) -> torch.Tensor:
        """Return `result`, which `x` was converted to, on the GPU or the host; copy it if it shares x's memory."""
        if self.memory.is_on_gpu(result) != to_gpu and _share(x, result):
            result = result.clone()
        self.memory.move(result, to_gpu)
        return result

    def numpy(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if self.memory.is_on_gpu(x) and not kwargs.get("force"):
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )
        # NumPy may write to the array
        self.memory.write(x)
        return x.numpy(*args, **kwargs)

    def array(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if self.memory.is_on_gpu(x):
            return self.numpy(x)
        self.memory.write(x)
        return x.__array__(*args, **kwargs)

    def type(self, x: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        is_on_gpu = self.memory.is_on_gpu(x)
        if dtype is None:
            name = x.type()
            return name.replace("torch.", "torch.cuda.", 1) if is_on_gpu else name
        if isinstance(dtype, str):
            is_on_gpu = dtype.startswith("torch.cuda.")
            dtype = dtype.replace("torch.cuda.", "torch.")
        return self.moved(x, x.type(dtype, *args, **kwargs), is_on_gpu)


@contextmanager
def active_in_backward(mode: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    """Enter `mode()` for the Python functions that a backward pass calls: torch disables modes during `backward`."""
    run = torch.autograd._engine_run_backward

    def under_mode(*args: Any, **kwargs: Any) -> Any:
        with mode():
            return run(*args, **kwargs)

    with mock.patch.object(torch.autograd, "_engine_run_backward", under_mode):
        yield


def _share(x: Any, y: torch.Tensor) -> bool:
    return any(a.untyped_storage()._cdata == b.untyped_storage()._cdata for a in tensors_in(x) for b in tensors_in(y))
