"""Types of a kernel's arguments, which contain everything that the compiler knows about the arguments."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ..constants import compile_time, key_of
from ..dataclass import dataclass, field
from ..dtypes import DType


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The type of an array argument."""

    dtype: DType
    #: number of dimensions
    rank: int
    #: the last dimension with stride 1, or None
    unit_dim: int | None
    #: in bytes, the largest power of two up to 16 (32 from sm_100) that divides the base address and, if `strides` is
    #: None, the strides of all dimensions except `unit_dim`
    align: int
    #: in bytes, the largest such power of two that divides the extent of `unit_dim`; 1 without a `unit_dim`
    extent_align: int
    #: aliasing must be assumed: the array overlaps another one, and one of the two may be written
    overlaps: bool = False
    #: static extents if the parameter's annotation fixes them, else None
    shape: tuple[int, ...] | None = None
    #: static strides in elements if the annotation fixes them, else None
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ScalarType:
    """The type of a run-time scalar argument."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class ConstexprType:
    """The type of a compile-time argument: its class's name and value, compared by `key_of`."""

    type_name: str
    value: Any = field(compare=False)
    key: Hashable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", key_of(self.value))

    @staticmethod
    def of(argument: Any) -> ConstexprType:
        value = compile_time(argument)
        return ConstexprType(type(value).__qualname__, value)


ArgumentType = ArrayType | ScalarType | ConstexprType


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of a kernel's arguments, by parameter name, in order."""

    arguments: tuple[tuple[str, ArgumentType], ...]
