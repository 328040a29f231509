"""Readers of array arguments: NumPy arrays, tensors, and objects with `__cuda_array_interface__` or DLPack.

The attributes of tensors, such as `data_ptr`, are read directly if an object has them: on an H100 host, reading a torch
tensor takes 0.7 us this way, 3.2 us through `__cuda_array_interface__`, and 5.3 us through DLPack.

source: Numba's documentation, "CUDA Array Interface (Version 3)".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

import numpy as np

from ..dtypes import DTYPES, DType, from_numpy
from ..errors import LaunchError
from ..wording import with_article
from . import dlpack
from .arrays import (
    FACTS_LIMIT,
    ArrayFacts,
    ArrayView,
    DeviceArray,
    facts_of,
    is_immutable,
    known_facts,
    remember_facts,
    row_major,
    unreadable,
    unsupported,
    view_of_memory,
)

_INTERFACE = "__cuda_array_interface__"

#: type of an array -> the function that returns its view, for types that have been passed and need no inspection
readers: dict[type, Callable[[Any], ArrayView]] = {}


def is_array(value: object) -> bool:
    """True if the value looks like an array; `view_of` may still reject it."""
    if type(value) in readers or isinstance(value, (ArrayView, DeviceArray, np.ndarray)):
        return True
    if isinstance(value, (np.generic, int, float)):
        return False
    # checked last, because `hasattr` makes the object compute its interface
    return _has(value, "data_ptr") or _has(value, "__dlpack__") or _has(value, _INTERFACE)


def _has(value: object, name: str) -> bool:
    try:
        return hasattr(value, name)
    except Exception:
        # the object's own code can raise anything; reading the array reports the error
        return True


def view_of(value: Any) -> ArrayView:
    """Return the view of an array argument.

    accepts: NumPy arrays; objects with `data_ptr`, `shape`, `stride`, `dtype` and `device`; `DeviceArray`; `ArrayView`;
    anything with `__cuda_array_interface__` or DLPack.
    raises: LaunchError for anything else, and for arrays that kernels can't use, such as those of unsupported dtypes.
    """
    reader = readers.get(type(value))
    if reader is not None:
        return reader(value)
    if _has(value, "data_ptr"):
        return _remembered(value, _view_of_tensor)
    if isinstance(value, np.ndarray) and hasattr(value, "mask"):
        raise LaunchError("a masked array can't be passed", hint="pass the data and the mask as two arrays")
    if isinstance(value, np.ndarray):
        return _remembered(value, _view_of_numpy)
    interface = _interface_of(value)
    if interface is not None:
        return _view_of_interface(value, interface)
    if _has(value, "__dlpack__"):
        return dlpack.view(value)
    if isinstance(value, DeviceArray):
        return _remembered(value, DeviceArray.view)
    if isinstance(value, ArrayView):
        return value
    if value is None:
        raise LaunchError(
            "None is not an array",
            hint="annotate a parameter that may be None as `tj.Tensor | None`; the kernel can then test it",
        )
    raise LaunchError(
        f"{type(value).__name__} is not an array",
        hint="pass a NumPy array, a PyTorch tensor, a CuPy or JAX array, or a tj.DeviceArray",
    )


def _remembered(value: Any, reader: Callable[[Any], ArrayView]) -> ArrayView:
    if len(readers) >= FACTS_LIMIT:
        readers.clear()
    readers[type(value)] = reader
    return reader(value)


def _view_of_numpy(array: np.ndarray[Any, Any]) -> ArrayView:
    key = (array.dtype, array.shape, array.strides)
    facts = known_facts.get(key) or remember_facts(key, numpy_facts(array.dtype, array.shape, array.strides, None))
    return ArrayView(array.ctypes.data, facts, array.flags.writeable, array, array)


def numpy_facts(
    dtype: np.dtype[Any], shape: tuple[int, ...], strides_bytes: tuple[int, ...], device: int | None
) -> ArrayFacts:
    """Return the facts of an array from its NumPy attributes; raise LaunchError for unsupported dtypes or strides."""
    if not dtype.isnative and dtype.isbuiltin == 0 and from_numpy(dtype.newbyteorder("=")) is not None:
        native = dtype.newbyteorder("=").name
        raise LaunchError(
            f"an array of dtype {dtype} can't be passed: its byte order is not native",
            hint=f"pass a.astype(np.{native})",
        )
    found = from_numpy(dtype) if dtype.isnative else None
    if found is None:
        raise unsupported(f"dtype {dtype}")
    if any(s % found.bytes for s in strides_bytes):
        raise LaunchError(
            f"an array has strides of {strides_bytes} bytes, not all multiples of its element size, {found.bytes}",
            hint="pass a copy, such as a.copy()",
        )
    return facts_of(found, shape, tuple(s // found.bytes for s in strides_bytes), device)


def _refuse_bits(tensor: Any) -> None:
    if getattr(tensor, "is_neg", bool)():
        raise LaunchError(
            "a tensor has its negative bit set: its memory holds the negatives of its values",
            hint="pass a.resolve_neg(), a copy that holds the values",
        )
    if getattr(tensor, "is_conj", bool)():
        raise LaunchError(
            "a tensor has its conjugate bit set: its memory holds the conjugates of its values",
            hint="pass torch.view_as_real(a.resolve_conj()), the real and imaginary parts of a copy",
        )


def _view_of_tensor(tensor: Any) -> ArrayView:
    try:
        _refuse_bits(tensor)
        key = (tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
        facts = known_facts.get(key) or remember_facts(key, tensor_facts(*key))
        pointer = tensor.data_ptr()
    except LaunchError:
        raise
    except Exception as error:
        # the tensor's library can raise anything
        raise unreadable(tensor, error) from error
    return view_of_memory(tensor, pointer, facts, True)


def tensor_facts(dtype: Any, shape: Any, strides: Any, device: Any) -> ArrayFacts:
    """Return a tensor's facts from its torch attributes; raise LaunchError if its dtype or device is unsupported."""
    return facts_of(_dtype_of_name(str(dtype)), tuple(shape), tuple(strides), _ordinal(device))


def _dtype_of_name(text: str) -> DType:
    name = text.rsplit(".", 1)[-1]
    found = DTYPES.get("bool_" if name == "bool" else name)
    if found is None:
        raise unsupported(f"dtype {text}")
    return found


def _ordinal(device: Any) -> int | None:
    kind, _, index = str(device).partition(":")
    if kind == "cpu":
        return None
    if kind == "cuda":
        return int(index or 0)
    raise LaunchError(f"a tensor is on {device}", hint="move it to host memory or to a CUDA device")


def _interface_of(value: Any) -> Any:
    """Return an object's `__cuda_array_interface__`, or None; raise LaunchError if reading the attribute fails."""
    try:
        return getattr(value, _INTERFACE, None)
    except Exception as error:
        # the object's own code can raise anything
        raise LaunchError(
            f"{_INTERFACE} of {with_article(type(value).__name__)} can't be read: {type(error).__name__}: {error}",
            hint="pass an array that reports its address, shape and type",
        ) from error


def _view_of_interface(value: Any, interface: Any) -> ArrayView:
    pointer, read_only, dtype, shape, strides = _entries(value, interface)
    if dtype.kind == "V" or from_numpy(dtype) is None:
        # bfloat16 and fp8 have no typestr, so read the object's dtype
        dtype = np.dtype(getattr(value, "dtype", dtype))
    if interface.get("mask") is not None:
        raise LaunchError("a masked array can't be passed", hint="pass the data and the mask as two arrays")
    ordinal = getattr(getattr(value, "device", None), "id", None)
    if not isinstance(ordinal, int):
        ordinal = _ordinal_at(pointer)
    facts = interface_facts(dtype, shape, strides, ordinal)
    return view_of_memory(value, pointer, facts, not (read_only or is_immutable(value)), interface.get("stream"))


def _entries(value: Any, interface: Any) -> tuple[int, bool, np.dtype[Any], tuple[int, ...], Any]:
    """Return (address, is read-only, dtype, shape, byte strides or None); raise LaunchError if an entry is invalid."""
    def refused(name: str, wanted: str) -> LaunchError:
        entry = f"{name} is {interface[name]!r}" if name in interface else f"{name} is missing"
        return LaunchError(
            f"{_INTERFACE} of {with_article(type(value).__name__)} is broken: {entry}", hint=f"{name} must be {wanted}"
        )

    if not isinstance(interface, Mapping):
        raise LaunchError(
            f"{_INTERFACE} of {with_article(type(value).__name__)} is {interface!r}",
            hint="set it to a dict with data, shape and typestr",
        )
    data: Any = interface.get("data")
    shape: Any = interface.get("shape")
    strides: Any = interface.get("strides")
    if not isinstance(data, (tuple, list)) or len(data) != 2 or not isinstance(data[0], (int, np.integer, NoneType)):
        raise refused("data", "a tuple of the address and a read-only flag")
    pointer = int(data[0] or 0)
    if not 0 <= pointer < 2**64:
        raise refused("data", "a tuple of the address, from 0 to 2**64 - 1, and a read-only flag")
    if not _is_integers(shape) or any(n < 0 for n in shape):
        raise refused("shape", "a tuple of non-negative integers")
    if strides is not None and not (_is_integers(strides) and len(strides) == len(shape)):
        raise refused("strides", "None or a tuple with one integer per dimension")
    try:
        if not isinstance(interface.get("typestr"), str):
            raise TypeError
        dtype = np.dtype(interface["typestr"])
    except (TypeError, ValueError):
        raise refused("typestr", "a string such as '<f4'") from None
    return pointer, bool(data[1]), dtype, tuple(shape), strides


def _is_integers(values: Any) -> bool:
    return isinstance(values, (tuple, list)) and all(hasattr(n, "__index__") for n in values)


def _ordinal_at(pointer: int) -> int:
    try:
        # without a GPU, cuda-python may be missing
        from .cuda_driver import ordinal_at
    except ImportError:
        return 0
    return ordinal_at(pointer)


def interface_facts(dtype: np.dtype[Any], shape: tuple[int, ...], strides_bytes: Any, ordinal: int) -> ArrayFacts:
    """Return the facts of an array from entries of `__cuda_array_interface__`. strides_bytes: None for row-major."""
    dense = [stride * dtype.itemsize for stride in row_major(shape)]
    return numpy_facts(dtype, shape, tuple(strides_bytes or dense), ordinal)
