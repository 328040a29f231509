"""NumPy's array protocols for device arrays, and errors for attributes of other libraries' arrays.

NumPy gets copies in host memory. Accessing a common attribute of arrays of NumPy, CuPy or torch that a `DeviceArray`
lacks raises an AttributeError that names the replacement.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

_COPY = "a.numpy(), a copy in host memory"
_MOVE = "tj.to_device(a, 'cuda:1'), a copy on another device"
_CONVERT = "tj.to_device(a.numpy().astype(...))"
_OVERWRITE = "a.copy_from(array)"

#: name in another library -> its replacement
_INSTEAD = {
    **{name: f"a.numpy().{name}" for name in dir(np.ndarray) if not name.startswith("_")},
    **dict.fromkeys(("bfloat16", "double", "float", "half", "int", "long", "type"), _CONVERT),
    **dict.fromkeys(("get", "cpu", "asnumpy", "copy_to_host"), _COPY),
    **dict.fromkeys(("to", "cuda", "to_device"), _MOVE),
    **dict.fromkeys(("clone", "copy"), "tj.to_device(a), another array with the same values"),
    **dict.fromkeys(("set", "copy_", "copy_to_device"), _OVERWRITE),
    **dict.fromkeys(("fill", "fill_", "zero_"), "a.copy_from(np.full(a.shape, value, a.numpy().dtype))"),
    **dict.fromkeys(("detach", "contiguous", "requires_grad_"), "a: it is row-major and has no gradients"),
    **dict.fromkeys(("data_ptr", "data", "ptr"), "k[grid](a): kernels take the array itself"),
    "stride": "a.strides, in elements",
    "numel": "a.size",
    "dim": "a.ndim",
    "is_cuda": "a.device",
    "itemsize": "a.dtype.bytes",
    "element_size": "a.dtype.bytes",
    "block_until_ready": "tj.synchronize()",
}


class _Listing(type):
    """Omits from `dir` and `help` the names whose access raises AttributeError."""

    def __dir__(cls) -> Iterable[str]:
        return [name for name in super().__dir__() if hasattr(cls, name)]


class ArrayProtocols(metaclass=_Listing):
    """Lets NumPy treat a device array as an array: `np.asarray(a)`, `len(a)`, `a == b`."""

    __slots__ = ()

    shape: tuple[int, ...]

    @abstractmethod
    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a copy in host memory."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return a copy of the values as a NumPy array; raise ValueError for copy=False."""
        if copy is False:
            raise ValueError("the values of a DeviceArray must be copied from its device: leave copy=False out")
        values = self.numpy()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a DeviceArray without dimensions")
        return self.shape[0]

    def __bool__(self) -> bool:
        """Return the truth value of the only element. raises: ValueError for several elements, as in NumPy."""
        return bool(self.numpy())

    def __eq__(self, other: object) -> Any:
        """Compare elements as NumPy does, and return an array of bools."""
        return self.numpy() == np.asarray(other)

    def __ne__(self, other: object) -> Any:
        return self.numpy() != np.asarray(other)

    # hash by identity, because the contents can change
    __hash__ = object.__hash__

    def __dir__(self) -> Iterable[str]:
        return [name for name in super().__dir__() if hasattr(self, name)]


class _Missing:
    """A descriptor that raises an AttributeError with a hint. `__getattr__` would slow down every attribute access."""

    def __init__(self, name: str, instead: str) -> None:
        self._text = f"a DeviceArray has no {name!r}: write {instead}"

    def __get__(self, array: object, owner: type) -> NoReturn:
        raise AttributeError(self._text)


for _name, _instead in _INSTEAD.items():
    setattr(ArrayProtocols, _name, _Missing(_name, _instead))
