"""Constants and operations, one object for all equal ones: what is remembered by identity is then found."""

from __future__ import annotations

from functools import lru_cache

from ...dtypes import DType
from ..nodes import Const, Expr, Op
from .facts import full_range
from .remember import LIMIT

__all__ = ["integer", "operation", "wrap"]


def wrap(value: int, dtype: DType) -> int:
    """`value` modulo 2**bits, in the range of an integer type."""
    low, high = full_range(dtype)
    return value if low <= value <= high else (value - low) % (1 << dtype.bits) + low


@lru_cache(LIMIT)
def integer(value: int, dtype: DType) -> Const:
    """`value` modulo 2**bits as a constant of an integer type."""
    return Const(wrap(value, dtype), dtype)


#: by name, type and the arguments' identities, which an operation that is kept keeps from going to other objects
_operations: dict[tuple[object, ...], Op] = {}


def operation(name: str, args: tuple[Expr, ...], dtype: DType) -> Op:
    """The operation on arguments of which there is one object, too."""
    key = (name, dtype, *map(id, args))
    found = _operations.get(key)
    if found is not None:
        return found
    if len(_operations) >= LIMIT:
        _operations.clear()
    found = _operations[key] = Op(name, args, dtype)
    return found
