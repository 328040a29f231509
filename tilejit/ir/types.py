"""Types of a kernel's arguments, which contain everything that the compiler knows about the arguments."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from ..constants import compile_time, key_of
from ..dataclass import dataclass, field
from ..dtypes import DType

T = TypeVar("T")


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


@dataclass(frozen=True, slots=True)
class ContainerType:
    """The structure of a tuple, named tuple or dataclass argument. Its items follow it in the signature."""

    #: "tuple", or the class's module and qualified name
    class_name: str
    #: what follows the container's name in the names of its items: "[0]", or ".x" for the field x
    items: tuple[str, ...]

    @property
    def is_tuple(self) -> bool:
        """True if the items have no names."""
        return self.class_name == "tuple"

    def __str__(self) -> str:
        """The structure as text: `tuple of 2`, or `Params(x, w)` for a class."""
        if self.is_tuple:
            return f"tuple of {len(self.items)}"
        return f"{self.class_name.rpartition('.')[2]}({', '.join([item[1:] for item in self.items])})"


ArgumentType = ArrayType | ScalarType | ConstexprType | ContainerType


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of a kernel's arguments, by name, in order: each parameter, followed by the items of a container."""

    arguments: tuple[tuple[str, ArgumentType], ...]

    def fold(self, make: Callable[[str, ArgumentType, list[T]], T]) -> list[T]:
        """Return the result of `make` for each parameter. make: takes a name, its type, and the results for its items.

        raises: IndexError if items are missing.
        """
        waiting = list(reversed(self.arguments))
        results: list[T] = []
        while waiting:
            results.append(_folded(waiting, make))
        return results


def _folded(waiting: list[tuple[str, ArgumentType]], make: Callable[[str, ArgumentType, list[T]], T]) -> T:
    """Remove an argument and its items from the end of `waiting`, and return the result for it."""
    name, kind = waiting.pop()
    count = len(kind.items) if isinstance(kind, ContainerType) else 0
    return make(name, kind, [_folded(waiting, make) for _ in range(count)])
