"""The element types of tiles, scalars and barriers, their NumPy equivalents, and the rules of promotion."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from .dataclass import dataclass, field
from .errors import KernelTypeError
from .forks import cached_property


@dataclass(frozen=True, eq=False)
class DType:
    """An element type. Each type has exactly one object, so types compare by identity.

    name: the name in kernels, such as `float32`.
    kind: "bool", "int", "uint", "float", or "packed" for bytes of two 4-bit numbers; internally also "barrier".
    bits, bytes: the width in memory; `bool_` takes 8 bits.
    is_half: True for a 16-bit float.
    is_fp8: True for an 8-bit float, which is a storage type and must be cast before arithmetic.

    Example:
        assert tj.float16.bits == 16 and tj.float16.numpy == np.float16
    """

    name: str
    kind: str
    bits: int

    bytes: int = field(init=False)
    is_float: bool = field(init=False)
    is_integer: bool = field(init=False)
    is_half: bool = field(init=False)
    is_fp8: bool = field(init=False)

    def __post_init__(self) -> None:
        # fields, because the compiler reads them often: a field takes 10 ns, a cached property 40
        is_float = self.kind == "float"
        object.__setattr__(self, "bytes", self.bits // 8)
        object.__setattr__(self, "is_float", is_float)
        object.__setattr__(self, "is_integer", self.kind in ("int", "uint"))
        object.__setattr__(self, "is_half", is_float and self.bits == 16)
        object.__setattr__(self, "is_fp8", is_float and self.bits == 8)

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The equivalent NumPy dtype; bfloat16 and the two float8 types come from ml_dtypes."""
        if self.name == "bool_":
            return np.dtype(np.bool_)
        if self.kind == "packed":
            return np.dtype(np.uint8)
        if self.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            import ml_dtypes

            scalar: type = getattr(ml_dtypes, self.name)
            return np.dtype(scalar)
        return np.dtype(self.name)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (_by_name, (self.name,))


bool_ = DType("bool_", "bool", 8)
int8, int16, int32, int64 = (DType(f"int{b}", "int", b) for b in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"uint{b}", "uint", b) for b in (8, 16, 32, 64))
float16, float32, float64 = (DType(f"float{b}", "float", b) for b in (16, 32, 64))
bfloat16 = DType("bfloat16", "float", 16)
float8_e4m3fn = DType("float8_e4m3fn", "float", 8)
float8_e5m2 = DType("float8_e5m2", "float", 8)

#: bytes of two 4-bit numbers, to be unpacked before arithmetic; arrays of them are arrays of uint8
int4x2, uint4x2, float4_e2m1fn_x2 = (DType(name, "packed", 8) for name in ("int4x2", "uint4x2", "float4_e2m1fn_x2"))
PACKED_TYPES = (int4x2, uint4x2, float4_e2m1fn_x2)

#: name -> type, in documentation order
DTYPES: dict[str, DType] = {
    t.name: t
    for t in (
        bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
        float16, bfloat16, float32, float64, float8_e4m3fn, float8_e5m2,
    )
}

#: element type of barriers in shared memory; no value has this type, and nothing loads or stores it
barrier = DType("barrier", "barrier", 64)

#: name -> type, for all types that memory can hold
MEMORY_TYPES: dict[str, DType] = {**DTYPES, **{t.name: t for t in PACKED_TYPES}, barrier.name: barrier}

_RANK = {"bool": 0, "int": 1, "uint": 1, "float": 2, "packed": 3}


def _by_name(name: str) -> DType:
    return MEMORY_TYPES[name]


def as_dtype(value: object) -> DType | None:
    """Return the type that a DType, a NumPy dtype or scalar type, or the name of either denotes; None if there is none.

    Python's `float` and `int` denote none, because they mean 64 bits in NumPy but 32 in kernels.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in DTYPES:
        return DTYPES[value]
    if not isinstance(value, (str, np.dtype)) and not (isinstance(value, type) and issubclass(value, np.generic)):
        return None
    try:
        dtype = np.dtype(value)
    except TypeError:
        return None
    return from_numpy(dtype) if dtype.isnative else None


def from_numpy(dtype: object) -> DType | None:
    """Return the type equivalent to a NumPy dtype, whose byte order is ignored, or None if tilejit has none."""
    name = np.dtype(dtype).name  # type: ignore[call-overload]
    return DTYPES.get("bool_" if name == "bool" else name)


@cache
def promote(*types: DType) -> DType:
    """Return the type in which an operation on values of these types is computed.

    It is the widest type of the highest kind among them (bool < int < float), except that different floats of that
    width give float32, and a mix of signed and unsigned integers gives the narrowest signed type that holds both.

    raises: KernelTypeError for uint64 with a signed type and no float, as no integer type holds both.
    """
    for dtype in types:
        if dtype.kind == "packed":
            raise KernelTypeError(
                f"{dtype} is two numbers per byte, without arithmetic", hint="unpack them: tj.unpack(x, tj.float16)"
            )
    rank = max(_RANK[t.kind] for t in types)
    highest = [t for t in types if _RANK[t.kind] == rank]
    bits = max(t.bits for t in highest)
    widest = [t for t in highest if t.bits == bits]
    if not mixes_signs(highest):
        return widest[0] if all(t is widest[0] for t in widest) else float32
    bits = max(t.bits if t.kind == "int" else 2 * t.bits for t in highest)
    if bits > 64:
        raise KernelTypeError(
            f"no integer type holds all values of {' and '.join(dict.fromkeys(t.name for t in highest))}",
            hint="convert the uint64 with tj.int64(x), or the signed value with tj.uint64(x)",
        )
    return DTYPES[f"int{bits}"]


def mixes_signs(types: Iterable[DType]) -> bool:
    """True if the types include both signed and unsigned integers."""
    kinds = {t.kind for t in types}
    return "int" in kinds and "uint" in kinds


def signed(dtype: DType) -> DType:
    """Return the signed integer type of the same width."""
    return DTYPES[f"int{dtype.bits}"]


def unsigned(dtype: DType) -> DType:
    """Return the unsigned integer type of the same width."""
    return DTYPES[f"uint{dtype.bits}"]
