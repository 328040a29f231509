"""What the compiler knows of a kernel's arguments: the types in a signature."""

from __future__ import annotations

import math
from collections.abc import Hashable
from enum import Enum
from typing import Any

import numpy as np

from ..dataclass import dataclass, field
from ..dtypes import DType, as_dtype


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


def compile_time(value: Any) -> Any:
    """What a kernel takes a constexpr argument for.

    NumPy's scalars are the Python numbers that they equal, its dtypes ours; there is one NaN, so that it equals itself.
    """
    if isinstance(value, np.generic):
        number = value.item()
        # the scalars of ml_dtypes have no Python counterpart in `item`
        value = float(value) if isinstance(number, np.generic) else number
    if isinstance(value, float) and math.isnan(value):
        return math.nan
    if type(value) is tuple:
        return tuple([compile_time(item) for item in value])
    if isinstance(value, (np.dtype, type)):
        return as_dtype(value) or value
    return value


def told_apart(value: Any) -> Hashable:
    """Return what two compile-time values are compared by: of enum members class and name, never their `==`."""
    if isinstance(value, Enum):
        return type(value), value._value_ if value._name_ is None else value._name_
    return tuple(map(told_apart, value)) if type(value) is tuple else value


@dataclass(frozen=True, slots=True)
class ConstexprType:
    """A compile-time argument: its type is part of the key, so `1`, `1.0` and `True` differ."""

    type_name: str
    value: Any = field(compare=False)
    key: Hashable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", told_apart(self.value))

    @staticmethod
    def of(argument: Any) -> ConstexprType:
        value = compile_time(argument)
        return ConstexprType(type(value).__qualname__, value)


ArgumentType = ArrayType | ScalarType | ConstexprType


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of a kernel's arguments, by parameter name, in order."""

    arguments: tuple[tuple[str, ArgumentType], ...]
