"""A reader of DLPack capsules.

source: DLPack 1.1, `dlpack.h`; Python Array API standard, "`__dlpack__`".
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from ..dtypes import DTYPES, DType
from ..errors import LaunchError

_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
LEGACY_STREAM = 1

#: flags of memory that must not be written, and of a copy, in which writes would be lost
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


class DLPackTensor(NamedTuple):
    """The contents of a capsule. strides: in elements; None for row-major. device: CUDA ordinal; None for host memory.

    capsule: keeps the memory alive. It is never consumed, so its destructor releases the memory.
    """

    pointer: int
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    device: int | None
    writable: bool
    capsule: object


def read(value: Any) -> DLPackTensor:
    """Return the tensor that `value` exports, synchronized with the legacy stream; raise LaunchError if unsupported."""
    device_type = value.__dlpack_device__()[0]
    if device_type not in (_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise LaunchError(
            f"{type(value).__name__} is on DLPack device type {int(device_type)}",
            hint="tilejit supports host memory and CUDA devices",
        )
    capsule = _export(value, LEGACY_STREAM if device_type == _CUDA else None)
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_get_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise LaunchError(
                f"{type(value).__name__} exports DLPack {managed.major}; only version 1 is supported",
                hint="update tilejit, or pass a NumPy array",
            )
        return _read(managed.tensor, not managed.flags & (_READ_ONLY | _IS_COPIED), capsule)
    return _read(_DLTensor.from_address(_get_pointer(capsule, b"dltensor")), True, capsule)


def _export(value: Any, stream: int | None) -> object:
    try:
        return value.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:
        return value.__dlpack__(stream=stream)


def _read(tensor: _DLTensor, writable: bool, capsule: object) -> DLPackTensor:
    shape = tuple(tensor.shape[d] for d in range(tensor.ndim))
    strides = tuple(tensor.strides[d] for d in range(tensor.ndim)) if tensor.strides else None
    device = tensor.device.id if tensor.device.type in (_CUDA, _CUDA_MANAGED) else None
    pointer = (tensor.data or 0) + tensor.byte_offset
    return DLPackTensor(pointer, _dtype(tensor.dtype), shape, strides, device, writable, capsule)


def _dtype(found: _DataType) -> DType:
    name = _CODES.get(found.code, "")
    known = DTYPES.get(name) or DTYPES.get(f"{name}{found.bits}")
    if known is None or known.bits != found.bits or found.lanes != 1:
        raise LaunchError(
            f"an array of DLPack type (code {found.code}, bits {found.bits}, lanes {found.lanes}) can't be passed",
            hint=f"convert it to one of {', '.join(DTYPES)}",
        )
    return known
