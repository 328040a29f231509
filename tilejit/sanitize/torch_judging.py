"""Candidates of `tilejit.testing.judge` that take tensors of torch: kernels of Triton in a simulated context."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from ..dtypes import DTYPES

Array = NDArray[Any]

#: operators that allocate, copy or move data, beside those that return views
_MOVES = frozenset({
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "zeros", "zeros_like",
    "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full", "fill_", "zero_", "copy_", "clone",
    "_to_copy", "contiguous", "_unsafe_view", "reshape", "lift_fresh", "detach", "arange", "resize_", "set_",
    "constant_pad_nd", "is_same_size", "record_stream",
})
#: name of a type that NumPy lacks -> the integer type of as many bits, in torch
_BITS = {"bfloat16": torch.int16, "float8_e4m3fn": torch.uint8, "float8_e5m2": torch.uint8}


def to_numpy(tensor: torch.Tensor) -> Array:
    """Return a copy of a tensor, in row-major order."""
    host = tensor.detach().cpu().contiguous()
    name = str(host.dtype).removeprefix("torch.")
    bits = host.view(_BITS[name]).numpy().view(DTYPES[name].numpy) if name in _BITS else host.numpy()
    return np.array(bits)


def to_torch(array: Array) -> torch.Tensor:
    """Return a copy of an array as a tensor of the host."""
    copied = np.array(array, order="C")
    if array.dtype.name not in _BITS:
        return torch.from_numpy(copied)
    carrier = np.int16 if copied.itemsize == 2 else np.uint8
    return torch.from_numpy(copied.view(carrier)).view(getattr(torch, array.dtype.name))


def call(function: Callable[..., Any], values: Sequence[Any]) -> list[Array]:
    """Call a reference with tensors of the host; return its results."""
    with torch.no_grad():
        results = function(*[to_torch(x) if isinstance(x, np.ndarray) else x for x in values])
    listed = results if isinstance(results, (tuple, list)) else [results]
    return [to_numpy(torch.as_tensor(x)) for x in listed]


@contextmanager
def double(function: Any) -> Iterator[None]:
    """Convert a module's parameters to float64 until the context ends."""
    if not isinstance(function, torch.nn.Module):
        yield
        return
    state = copy.deepcopy(function.state_dict())
    types = {name: value.dtype for name, value in (*function.named_parameters(), *function.named_buffers())}
    function.double()
    try:
        yield
    finally:
        for name, value in (*function.named_parameters(), *function.named_buffers()):
            value.data = value.data.to(types[name])
        function.load_state_dict(state)


def seed_torch(seed: int) -> None:
    torch.manual_seed(seed)


class BanningMode(TorchDispatchMode):
    """Records operators that compute. ban: see `tilejit.testing.judge`."""

    def __init__(self, ban: Any) -> None:
        super().__init__()
        self.ban = ban

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not _is_move(func):
            self.ban.record(f"torch.{func._schema.name}", sys._getframe(1))
        return func(*args, **(kwargs or {}))


@cache
def _is_move(func: Any) -> bool:
    """True if an operator allocates, copies, or returns a view."""
    name = func._schema.name.rpartition("::")[2]
    views = [x.alias_info is not None and not x.alias_info.is_write for x in func._schema.returns]
    return name in _MOVES or bool(views and all(views))


class TorchRunner:
    """Runs functions that launch kernels of Triton."""

    def __init__(self, context: AbstractContextManager[Any]) -> None:
        self._context = context
        self._session: Any = SimpleNamespace()

    @contextmanager
    def session(self) -> Iterator[None]:
        with self._context as self._session:
            yield

    def array(self, room: Array, view: Callable[[Any], Any]) -> torch.Tensor:
        tensor: torch.Tensor = view(to_torch(room).to("cuda"))
        return tensor

    def write(self, array: torch.Tensor, values: Array) -> None:
        array.copy_(to_torch(values).to("cuda"))

    def read(self, array: torch.Tensor) -> Array:
        return to_numpy(array)

    def poison(self, array: torch.Tensor) -> None:
        with torch.no_grad():
            bits = torch.full((array.element_size(),), 0xFF, dtype=torch.uint8).view(array.dtype)
            array.copy_(bits.to("cuda").expand(array.shape))

    def address(self, array: torch.Tensor) -> int:
        return int(array.data_ptr())

    def is_array(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor)

    def run(self, candidate: Callable[..., Any], args: Sequence[Any], ban: Any, schedule: int) -> Any:
        self._session.forget()
        with torch.no_grad(), ban.active(), BanningMode(ban):
            results = candidate(*args)
        launches = self._session.forget()
        findings = [f for launch in launches for f in launch.findings]
        return SimpleNamespace(results=results, findings=findings, launches=len(launches))
