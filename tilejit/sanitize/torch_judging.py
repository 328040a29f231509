"""Candidates of `tilejit.testing.judge` that take tensors of torch: kernels of Triton in a simulated context."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from functools import cache
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
_BITS = {"bfloat16": torch.int16, "float8_e4m3fn": torch.int8, "float8_e5m2": torch.int8}


def to_numpy(tensor: torch.Tensor) -> Array:
    """Return a copy of a tensor, in row-major order."""
    host = tensor.detach().cpu().contiguous()
    name = str(host.dtype).removeprefix("torch.")
    return np.array(host.view(_BITS[name]).numpy().view(DTYPES[name].numpy) if name in _BITS else host.numpy())


def to_torch(array: Array) -> torch.Tensor:
    """Return a copy of an array as a tensor of the host."""
    copied, name = np.array(array, order="C"), array.dtype.name
    if name not in _BITS:
        return torch.from_numpy(copied)
    return torch.from_numpy(copied.view(f"i{copied.itemsize}")).view(getattr(torch, name))


def call(function: Callable[..., Any], values: Sequence[Any]) -> list[Array]:
    """Call a reference with tensors of the host; return its results."""
    with torch.no_grad():
        results = function(*[to_torch(x) if isinstance(x, np.ndarray) else x for x in values])
    listed = results if isinstance(results, (tuple, list)) else [results]
    return [to_numpy(torch.as_tensor(x)) for x in listed]


def in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of a module with parameters in float64; other functions as they are."""
    return copy.deepcopy(function).double() if isinstance(function, torch.nn.Module) else function


def seeded(seed: int, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function with torch's random numbers from a seed."""
    torch.manual_seed(seed)
    return function(*args)


class BanningMode(TorchDispatchMode):
    """Records operators that compute. ban: a `tilejit.testing.bans.Ban`."""

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
    """Runs functions that launch kernels of Triton. session: that of `tilejit.sanitize.triton`."""

    def __init__(self, session: Any, ban: Any) -> None:
        self.session, self.ban = session, ban

    def array(self, host: Array, is_output: bool) -> torch.Tensor:
        return to_torch(host).to("cuda")

    def write(self, array: torch.Tensor, values: Array) -> None:
        # torch doesn't copy to elements that share memory, those of an expanded tensor
        distinct = tuple(slice(None if stride else 1) for stride in array.stride())
        with torch.no_grad():
            array[distinct].copy_(to_torch(values)[distinct].to("cuda"))

    def read(self, array: torch.Tensor) -> Array:
        return to_numpy(array)

    def is_array(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.layout is torch.strided

    def run(self, candidate: Callable[..., Any], args: Sequence[Any], schedule: int) -> tuple[Any, Sequence[Any]]:
        self.session.forget()
        with torch.no_grad(), self.ban.active(), BanningMode(self.ban):
            return candidate(*args), self.session.forget()
