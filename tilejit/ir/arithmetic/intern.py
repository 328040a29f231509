"""Interned constants and operations: equal ones are usually the same object, for memo tables keyed by identity."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import is_

from ...dataclass import replace
from ...dtypes import DType
from ...remember import LIMIT, forgotten
from ..nodes import Cast, Const, Expr, Op
from .facts import full_range


def wrap(value: int, dtype: DType) -> int:
    """Return the value of an integer type that is congruent to `value` modulo 2**bits."""
    low, high = full_range(dtype)
    return value if low <= value <= high else (value - low) % (1 << dtype.bits) + low


@lru_cache(LIMIT)
def integer(value: int, dtype: DType) -> Const:
    """Return `value` modulo 2**bits as a constant of an integer type."""
    return Const(wrap(value, dtype), dtype)


#: (name, type, ids of the arguments) -> operation, which keeps its arguments alive, so that ids aren't reused
_operations: dict[tuple[object, ...], Op] = forgotten({})


def operation(name: str, args: tuple[Expr, ...], dtype: DType) -> Op:
    """Return the interned operation: usually the same object for the same name, type and argument objects."""
    key = (name, dtype, *map(id, args))
    op = _operations.get(key)
    if op is not None:
        return op
    if len(_operations) >= LIMIT:
        _operations.clear()
    op = _operations[key] = Op(name, args, dtype)
    return op


def with_args(op: Op, args: tuple[Expr, ...]) -> Op:
    """Return an operation with other arguments, or `op` itself if these are the same objects as before."""
    if all(map(is_, args, op.args)):
        return op
    return operation(op.name, args, op.dtype) if op.span is None else replace(op, args=args)


def with_operands(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return an operation or cast with `change` applied to its operands, and any other expression unchanged."""
    if isinstance(expr, Op):
        return with_args(expr, tuple(map(change, expr.args)))
    if isinstance(expr, Cast):
        x = change(expr.x)
        return expr if x is expr.x else replace(expr, x=x)
    return expr
