"""A kernel's parameters at a launch: their values, and the memory from which the driver reads them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import DType
from ..errors import assert_never
from ..ir.params import (
    AddressParam,
    AssertionsParam,
    BarrierParam,
    ExtentParam,
    Param,
    PointerParam,
    ScalarParam,
    StrideParam,
    TensorMapParam,
)
from .tensor_maps import ParameterMaps

#: computes a parameter's value from a launch's arguments
Getter = Callable[[Sequence[Any]], Any]

_AS_BITS = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def argument_of(param: Param) -> str | None:
    """Return the name of the argument whose address or value determines `param`; None if a `Slot` keeps its value."""
    # barrier words differ between launches, but generated launchers never launch kernels with a grid barrier
    return param.of if isinstance(param, (PointerParam, AddressParam, ScalarParam, TensorMapParam)) else None


class ParameterBlock:
    """Memory for packed parameters, and an array of their addresses, which the driver reads at `address`."""

    __slots__ = ("_addresses", "address", "memory")

    def __init__(self, size_bytes: int, align_bytes: int, offsets: Sequence[int]) -> None:
        room = (ctypes.c_char * (size_bytes + align_bytes))()
        self.memory = (ctypes.c_char * size_bytes).from_buffer(room, -ctypes.addressof(room) % align_bytes)
        start = ctypes.addressof(self.memory)
        self._addresses = (ctypes.c_void_p * max(len(offsets), 1))(*(start + offset for offset in offsets))
        self.address = ctypes.addressof(self._addresses)


class Workspace(NamedTuple):
    """Sources of parameter values other than a launch's arguments.

    record: address of the assertion record. barrier: returns the address of the next launch's barrier word.
    maps: returns the tensor maps of a parameter.
    """

    record: int
    barrier: Callable[[], int]
    maps: Callable[[TensorMapParam], ParameterMaps]


def getter(param: Param, positions: Mapping[str, int], workspace: Workspace) -> Getter:
    """Return a function that computes the parameter's value from a launch's arguments."""
    match param:
        case PointerParam() | AddressParam():
            array = positions[param.of]
            return lambda arguments: arguments[array].pointer
        case ScalarParam():
            number, encode = positions[param.of], encoder(param.var.dtype)
            return lambda arguments: arguments[number] if encode is None else encode(arguments[number])
        case ExtentParam():
            array, axis = positions[param.of], param.axis
            return lambda arguments: arguments[array].facts.shape[axis]
        case StrideParam():
            array, axis = positions[param.of], param.axis
            return lambda arguments: arguments[array].facts.passed_strides[axis]
        case AssertionsParam():
            return lambda arguments: workspace.record
        case BarrierParam():
            return lambda arguments: workspace.barrier()
        case TensorMapParam():
            array, maps = positions[param.of], workspace.maps(param)
            return lambda arguments: maps.of(arguments[array].facts)[arguments[array].pointer]
        case _:
            return assert_never(param)


def encoder(dtype: DType) -> Callable[[float], int] | None:
    """Return a function that encodes a number as the bits of a type that `struct` lacks; None for other types."""
    if dtype.name not in _AS_BITS:
        return None
    kind = dtype.numpy
    unsigned = np.dtype(f"u{kind.itemsize}")
    return lambda number: int(np.array(number, kind).view(unsigned)[()])
