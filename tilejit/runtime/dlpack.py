"""A reader of DLPack capsules.

source: DLPack 1.1, `dlpack.h`; Python Array API standard, "`__dlpack__`".
"""

from __future__ import annotations

import ctypes
from typing import Any

from ..dtypes import DTYPES, DType
from ..errors import LaunchError
from .arrays import ArrayView, facts_of, is_immutable, row_major, unreadable, unsupported, view_of_memory

_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_LEGACY_STREAM = 1

#: flag bits: the memory must not be written; it is a copy, in which writes would be lost
_READ_ONLY, _IS_COPIED = 1, 2

#: type code -> prefix of the dtype's name; the whole name if the code determines the width
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool_", 10: "float8_e4m3fn", 12: "float8_e5m2"}


class _DLDevice(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype = ctypes.c_int
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]


def view(value: Any) -> ArrayView:
    """Return the view of the tensor that `value` exports; on a GPU, it is synchronized with the legacy stream.

    raises: LaunchError if the tensor is unsupported, or its library raises an error.
    """
    try:
        return _view(value)
    except LaunchError:
        raise
    except Exception as error:
        # the array's library can raise anything
        raise unreadable(value, error) from error


def _view(value: Any) -> ArrayView:
    device_type = value.__dlpack_device__()[0]
    if device_type not in (_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise LaunchError(
            f"{type(value).__name__} is on DLPack device type {int(device_type)}",
            hint="move it to host memory or to a CUDA device",
        )
    # the capsule is never consumed, so its destructor releases the memory
    capsule = _export(value, _LEGACY_STREAM if device_type == _CUDA else None)
    if not _is_valid(capsule, b"dltensor_versioned"):
        tensor, writable = _DLTensor.from_address(_get_pointer(capsule, b"dltensor")), True
    else:
        managed = _Versioned.from_address(_get_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise LaunchError(
                f"{type(value).__name__} exports DLPack {managed.major}; only version 1 is supported",
                hint="update tilejit, or pass a NumPy array",
            )
        tensor, writable = managed.tensor, not managed.flags & (_READ_ONLY | _IS_COPIED)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else row_major(shape)
    device = tensor.device.id if tensor.device.type in (_CUDA, _CUDA_MANAGED) else None
    facts = facts_of(_dtype(tensor.dtype), shape, strides, device)
    producer = None if device is None else _LEGACY_STREAM
    pointer = (tensor.data or 0) + tensor.byte_offset
    return view_of_memory(value, pointer, facts, writable and not is_immutable(value), producer, capsule)


def _export(value: Any, stream: int | None) -> object:
    try:
        return value.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:
        return value.__dlpack__(stream=stream)


def _dtype(found: _DataType) -> DType:
    name = _CODES.get(found.code, "")
    known = DTYPES.get(name) or DTYPES.get(f"{name}{found.bits}")
    if known is None or known.bits != found.bits or found.lanes != 1:
        raise unsupported(f"DLPack type (code {found.code}, bits {found.bits}, lanes {found.lanes})")
    return known
