"""Encoding of tensor maps by the CUDA driver."""

from __future__ import annotations

import ctypes

from cuda.bindings import driver

from ..ir.params import TensorMapParam, TensorMapSpec
from .cuda_driver import call
from .tensor_maps import MappedArray

_TYPE = driver.CUtensorMapDataType
_SWIZZLE = driver.CUtensorMapSwizzle
_LONG, _SHORT = driver.cuuint64_t, driver.cuuint32_t

#: by element type; other types are mapped by size, because copies don't interpret the elements
_TYPES = {
    "float16": _TYPE.CU_TENSOR_MAP_DATA_TYPE_FLOAT16, "bfloat16": _TYPE.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    "float32": _TYPE.CU_TENSOR_MAP_DATA_TYPE_FLOAT32, "float64": _TYPE.CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
    "int32": _TYPE.CU_TENSOR_MAP_DATA_TYPE_INT32, "int64": _TYPE.CU_TENSOR_MAP_DATA_TYPE_INT64,
}
_BY_BYTES = {
    1: _TYPE.CU_TENSOR_MAP_DATA_TYPE_UINT8, 2: _TYPE.CU_TENSOR_MAP_DATA_TYPE_UINT16,
    4: _TYPE.CU_TENSOR_MAP_DATA_TYPE_UINT32, 8: _TYPE.CU_TENSOR_MAP_DATA_TYPE_UINT64,
}

_SWIZZLES = {
    "none": _SWIZZLE.CU_TENSOR_MAP_SWIZZLE_NONE, "32B": _SWIZZLE.CU_TENSOR_MAP_SWIZZLE_32B,
    "64B": _SWIZZLE.CU_TENSOR_MAP_SWIZZLE_64B, "128B": _SWIZZLE.CU_TENSOR_MAP_SWIZZLE_128B,
}


def encode(spec: TensorMapSpec, address: int, array: MappedArray) -> bytes:
    """Return the 128-byte tensor map of an array at `address`; raise LaunchError if the driver rejects it."""
    made = call(
        driver.cuTensorMapEncodeTiled,
        _TYPES.get(spec.dtype.name, _BY_BYTES[spec.dtype.bytes]),
        len(array.dims),
        address,
        [_LONG(extent) for extent in array.dims],
        [_LONG(stride) for stride in array.strides],
        [_SHORT(extent) for extent in spec.box],
        [_SHORT(1)] * len(spec.box),
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        _SWIZZLES[spec.swizzle],
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    return ctypes.string_at(int(made.getPtr()), TensorMapParam.size_bytes)
