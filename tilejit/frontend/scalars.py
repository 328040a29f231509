"""Arithmetic on literals and run-time scalars: types, folding, truth."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from ..dataclass import replace
from ..dtypes import DType, bool_, promote
from ..errors import KernelTypeError
from ..ir.arithmetic import build
from ..ir.nodes import Cast, Const, Expr, Op
from ..ops.elementwise import ELEMENTWISE, common_type
from ..ops.elementwise.division import DIVISIONS
from .barriers import number_of
from .context import Context
from .singles import as_scalar
from .sizes import check_call
from .values import (
    Constant,
    Items,
    Memory,
    Scalar,
    Value,
    as_python,
    default_type,
    describe,
    from_python,
    how_to_load,
    is_number,
)

__all__ = ["RANK", "convert", "fold", "held", "operate", "settle", "truth", "weak_type"]


#: kinds of types, lower ones first
RANK = {"bool": 0, "int": 1, "uint": 1, "float": 2}


_NO_KEYWORDS: Mapping[str, Any] = {}


def fold(
    ctx: Context,
    node: ast.AST,
    compute: Callable[..., Any],
    values: Sequence[Value],
    keywords: Mapping[str, Any] = _NO_KEYWORDS,
) -> Value | None:
    """What Python makes of compile-time values; None where one is known only at run time."""
    arguments: list[Any] = []
    for value in values:
        if isinstance(value, Constant):
            arguments.append(value.value)
            continue
        if not isinstance(value, Items):
            return None
        try:
            arguments.append(as_python(value))
        except ValueError:
            return None
    try:
        check_call(compute, arguments, keywords)
        return from_python(compute(*arguments, **keywords))
    except (ArithmeticError, MemoryError, TypeError, ValueError) as error:
        raise ctx.type_error(
            node, f"{type(error).__name__} in a compile-time expression: {error}",
            _usage(compute, arguments, keywords)
            or "Python computes this when the kernel is compiled: change its operands",
        ) from None


def _usage(compute: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """What to write where a function doesn't take so many arguments, or those names; empty where it does."""
    if not isinstance(compute, FunctionType):
        return ""
    signature = inspect.signature(compute)
    try:
        signature.bind(*arguments, **keywords)
    except TypeError:
        names = ", ".join(signature.parameters)
        return f"its parameters: {names}{'; a shape is a tuple' if 'shape' in signature.parameters else ''}"
    return ""


def operate(ctx: Context, node: ast.AST, name: str, values: Sequence[Value]) -> Value:
    """An elementwise operation on scalars, as an expression of the kernel."""
    arguments, weak = settle(ctx, node, name, values)
    result = build.op(name, *arguments)
    if name not in DIVISIONS:
        return Scalar(result, weak and not ELEMENTWISE[name].gives_bool)
    divisor = arguments[1]
    if result.dtype.is_integer and isinstance(divisor, Const) and divisor.value == 0:
        raise ctx.type_error(node, "integer division by zero", "test the divisor first")
    if isinstance(result, Op) and not isinstance(divisor, Const):
        # where its divisor is zero, the error names it
        result = replace(result, span=ctx.span(node))
    return Scalar(result, weak)


def settle(ctx: Context, node: ast.AST, name: str, values: Sequence[Value]) -> tuple[list[Expr], bool]:
    """The operands as expressions, literals in the type of the others; and whether none had a type yet."""
    leading = ELEMENTWISE[name].conditions
    operands: list[Expr] = []
    for condition in values[:leading]:
        operands.append(_condition(ctx, node, condition))
    numbers = values[leading:]
    for value in numbers:
        if not isinstance(value, Scalar) and not is_number(value):
            raise _no_scalar(ctx, node, name, value)
    common, weak = meeting_type(name, numbers)
    for value in numbers:
        if isinstance(value, Scalar) and not value.weak:
            operands.append(value.expr)
        else:
            operands.append(as_type(ctx, node, value, common))
    return operands, weak


def meeting_type(name: str, values: Sequence[Value]) -> tuple[DType, bool]:
    """The type in which an operation's typed values meet, or that of the widest literal; and whether all are literals.

    raises: KernelTypeError, without a place, where no type holds all values of theirs.
    """
    typed: list[DType] = []
    for value in values:
        if isinstance(value, Scalar) and not value.weak:
            typed.append(value.expr.dtype)
    if typed:
        return common_type(name, tuple(typed)), False
    return promote(*[weak_type(v) for v in values]), any(isinstance(v, Scalar) for v in values)


def as_type(ctx: Context, node: ast.AST, value: Value, common: DType) -> Expr:
    """A typed value as it is; a literal, or a variable of literals, in `common` unless that is of a lower kind."""
    if isinstance(value, Scalar) and not value.weak:
        return value.expr
    default = weak_type(value)
    dtype = common if RANK[default.kind] <= RANK[common.kind] else default
    if isinstance(value, Scalar):
        ctx.takes_type(value, dtype)
        return build.cast(value.expr, dtype)
    assert isinstance(value, Constant)
    return ctx.literal(value.value, dtype, node)


def weak_type(value: Value) -> DType:
    """A scalar's type, or a literal's default type."""
    return value.dtype if isinstance(value, Scalar) else default_type(value.value)  # type: ignore[union-attr]


def _no_scalar(ctx: Context, node: ast.AST, name: str, value: Value) -> KernelTypeError:
    hint = "give a number, a scalar or a local tile"
    if isinstance(value, Memory) and not value.is_local:
        hint = how_to_load(value)
    elif isinstance(value, Constant) and isinstance(value.value, str):
        hint += "; text is for print('x =', x)"
    return ctx.type_error(node, f"{name} takes scalars and local tiles; got {describe(value)}", hint)


def _condition(ctx: Context, node: ast.AST, value: Value) -> Expr:
    holds = truth(ctx, node, value)
    return build.const(holds, bool_) if isinstance(holds, bool) else holds


def truth(ctx: Context, node: ast.AST, value: Value) -> bool | Expr:
    """Whether a value holds: a bool where that is known, else an expression of bool_."""
    value = as_scalar(ctx, node, value)
    if isinstance(value, Constant):
        return bool(value.value)
    if isinstance(value, Items):
        return bool(value.items)
    if isinstance(value, Scalar):
        expr = value.expr if value.dtype == bool_ else build.op("not_equal", value.expr, build.const(0, value.dtype))
        return bool(expr.value) if isinstance(expr, Const) else expr
    if not isinstance(value, Memory):
        hint = number_of(value) or "call it, or compare what it gives"
    elif value.is_local:
        hint = "on tiles use &, |, ~ and tj.where"
    else:
        hint = f"compare an element; whether it is passed is {value.buffer.root.name} is not None"
    raise ctx.type_error(node, f"a condition must be a scalar; this is {describe(value)}", hint)


def convert(ctx: Context, node: ast.AST, value: Value, dtype: DType, saturate: bool = True) -> Scalar:
    """A scalar converted to a type."""
    value = as_scalar(ctx, node, value)
    if isinstance(value, Constant) and is_number(value):
        if dtype.is_integer and isinstance(value.value, float):
            return Scalar(_truncated(ctx, node, value.value, dtype))
        return Scalar(ctx.literal(value.value, dtype, node))
    expr = ctx.scalar(value, node)
    if dtype.is_fp8 and not saturate:
        return Scalar(Cast(expr, dtype, saturate=False, span=ctx.span(node)))
    return Scalar(build.cast(expr, dtype))


def held(ctx: Context, node: ast.AST, value: Value, dtype: DType) -> Scalar:
    """A scalar converted to the type of the memory that it is written to.

    raises: KernelTypeError for a number that integers don't hold. A run-time value loses its fraction, as in C.
    """
    if dtype.is_integer and isinstance(value, Constant) and isinstance(value.value, float):
        number = value.value
        if math.isfinite(number) and number != int(number):
            raise ctx.type_error(
                node, f"{number!r} is no integer, and this memory holds {dtype}",
                f"write int({number!r}) to cut the fraction off, or give the array a float type",
            )
    return convert(ctx, node, value, dtype)


def _truncated(ctx: Context, node: ast.AST, number: float, dtype: DType) -> Const:
    try:
        return ctx.literal(int(number), dtype, node)
    except (ValueError, OverflowError):
        raise ctx.type_error(
            node, f"{number!r} can't be converted to {dtype}", "give a finite number, or a float type"
        ) from None
