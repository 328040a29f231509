"""What the compiler knows of a kernel's arguments: the types in a signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..dtypes import DType


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array argument.

    rank: number of dimensions. unit_dim: the dimension with stride 1 (the last such one), or None.
    align: bytes, the largest power of two up to 16 (32 from sm_100) that divides the base address and every
    other stride. extent_align: bytes, the same for the stride-1 dimension's extent.
    overlaps: it is written or another written array overlaps it, so that aliasing must be assumed.
    shape, strides: static values (elements) where the parameter's annotation pins them, else None.
    """

    dtype: DType
    rank: int
    unit_dim: int | None
    align: int
    extent_align: int
    overlaps: bool = False
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A run-time scalar argument."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class ConstexprType:
    """A compile-time argument: its type is part of the key, so `1`, `1.0` and `True` differ."""

    type_name: str
    value: Any

    @staticmethod
    def of(value: Any) -> ConstexprType:
        return ConstexprType(type(value).__qualname__, value)


ArgumentType = ArrayType | ScalarType | ConstexprType


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of a kernel's arguments, by parameter name, in order."""

    arguments: tuple[tuple[str, ArgumentType], ...]
