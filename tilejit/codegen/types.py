"""Element types in LLVM IR: in registers, in memory, and as literals."""

from __future__ import annotations

import struct
from functools import cache

import numpy as np

from ..dtypes import DType
from ..ir.nodes import Const
from ..ops.scalar import llvm_type, scalar_type

#: memory space of the IR -> NVPTX address space of pointers into it; pointers to local memory are generic
_ADDRESS_SPACES = {"global": 1, "shared": 3, "local": 0}


@cache
def pointer_type(space: str) -> str:
    """Return the type of a pointer into a memory space."""
    return f"ptr addrspace({_ADDRESS_SPACES[space]})"


@cache
def register_type(dtype: DType) -> str:
    """Return the type of a value in registers."""
    return llvm_type(scalar_type(dtype))


@cache
def memory_type(dtype: DType) -> str:
    """Return the type of an element in memory: `register_type`, but a whole byte for bool."""
    return "i8" if dtype.kind == "bool" else register_type(dtype)


def bits_of(const: Const) -> int:
    """Return the constant's bits as an unsigned integer of its type's width; integers wrap."""
    dtype = const.dtype
    if dtype.kind == "bool":
        return int(bool(const.value))
    if dtype.is_integer:
        return int(const.value) & ((1 << dtype.bits) - 1)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        value = np.asarray(float(const.value)).astype(dtype.numpy)
    return int.from_bytes(value.tobytes(), "little")


def literal(const: Const) -> str:
    """Return the constant as an LLVM literal of its `register_type`."""
    dtype = const.dtype
    if dtype.kind == "bool":
        return "true" if const.value else "false"
    bits = bits_of(const)
    if dtype.name == "float16":
        return f"0xH{bits:04X}"
    if dtype.name == "float64":
        return f"0x{bits:016X}"
    if dtype.name == "float32":
        # LLVM IR writes a float literal as the bits of the double with the same value.
        return f"0x{_as_double(bits):016X}"
    return str(bits - 2**dtype.bits if dtype.kind == "int" and bits >> (dtype.bits - 1) else bits)


def _as_double(bits: int) -> int:
    """Return the bits of the double that equals the float32 with these bits; a NaN keeps only its sign."""
    if bits & 0x7FFFFFFF > 0x7F800000:
        return (bits >> 31) << 63 | 0x7FF8 << 48
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])
