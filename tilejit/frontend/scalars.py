"""Arithmetic on literals and run-time scalars: types, constant folding, truth values."""

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
from .barriers import ring_number_hint
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
    describe,
    from_python,
    how_to_load,
    is_number,
    weak_type,
)

#: kind of element type -> its rank in promotion
RANK = {"bool": 0, "int": 1, "uint": 1, "float": 2}

_NO_KEYWORDS: Mapping[str, Any] = {}


def fold(
    ctx: Context, node: ast.AST, compute: Callable[..., Any], values: Sequence[Value],
    keywords: Mapping[str, Any] = _NO_KEYWORDS,
) -> Value | None:
    """Return the result of `compute` on compile-time values; None if a value isn't known at compile time.

    raises: KernelTypeError if `compute` raises an error, or if its result would be too large.
    """
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
            or "Python evaluates this at compile time: change its operands",
        ) from None


def _usage(compute: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> str:
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
    """Return the result of an elementwise operation on scalars.

    raises: KernelTypeError for an integer division by a compile-time 0, or for unsuitable operands.
    """
    arguments, weak = settle(ctx, node, name, values)
    result = build.op(name, *arguments)
    if name not in DIVISIONS:
        return Scalar(result, weak and not ELEMENTWISE[name].gives_bool)
    divisor = arguments[1]
    if result.dtype.is_integer and isinstance(divisor, Const) and divisor.value == 0:
        raise ctx.type_error(node, "integer division by zero", "test the divisor first")
    if isinstance(result, Op) and not isinstance(divisor, Const):
        # the error for a zero divisor needs a location
        result = replace(result, span=ctx.span(node))
    return Scalar(result, weak)


def settle(ctx: Context, node: ast.AST, name: str, values: Sequence[Value]) -> tuple[list[Expr], bool]:
    """Return the operands as expressions, with literals converted by `as_type`, and whether the result is weak."""
    leading = ELEMENTWISE[name].conditions
    operands: list[Expr] = []
    for value in values[:leading]:
        operands.append(condition(ctx, node, value))
    numbers = values[leading:]
    for value in numbers:
        if not isinstance(value, Scalar) and not is_number(value):
            raise _no_scalar(ctx, node, name, value)
    common, weak = common_operand_type(name, numbers)
    for value in numbers:
        if isinstance(value, Scalar) and not value.weak:
            operands.append(value.expr)
        else:
            operands.append(as_type(ctx, node, value, common))
    return operands, weak


def common_operand_type(name: str, values: Sequence[Value]) -> tuple[DType, bool]:
    """Return the promoted type of the typed values, or else of the literals, and whether the result is weak.

    raises: KernelTypeError, without a location, if the types have no common type.
    """
    typed: list[DType] = []
    for value in values:
        if isinstance(value, Scalar) and not value.weak:
            typed.append(value.expr.dtype)
    if typed:
        return common_type(name, tuple(typed)), False
    return promote(*[weak_type(v) for v in values]), any(isinstance(v, Scalar) for v in values)


def as_type(ctx: Context, node: ast.AST, value: Value, common: DType) -> Expr:
    """Return a typed value unchanged; a literal as `common`, or as its default type if that has a higher `RANK`."""
    if isinstance(value, Scalar) and not value.weak:
        return value.expr
    default = weak_type(value)
    dtype = common if RANK[default.kind] <= RANK[common.kind] else default
    if isinstance(value, Scalar):
        ctx.takes_type(value, dtype)
        return build.cast(value.expr, dtype)
    assert isinstance(value, Constant)
    return ctx.literal(value.value, dtype, node)


def _no_scalar(ctx: Context, node: ast.AST, name: str, value: Value) -> KernelTypeError:
    hint = "give a number, a scalar or a local tile"
    if isinstance(value, Memory) and not value.is_local:
        hint = how_to_load(value)
    elif isinstance(value, Constant) and isinstance(value.value, str):
        hint += "; only print takes strings: print('x =', x)"
    return ctx.type_error(node, f"{name} takes scalars and local tiles; got {describe(value)}", hint)


def truth(ctx: Context, node: ast.AST, value: Value) -> bool | Expr:
    """Return the truth value, as a bool if known at compile time; raise KernelTypeError for a value that has none."""
    value = as_scalar(ctx, node, value)
    if isinstance(value, Constant):
        return bool(value.value)
    if isinstance(value, Items):
        return bool(value.items)
    if isinstance(value, Scalar):
        expr = value.expr if value.dtype == bool_ else build.op("not_equal", value.expr, build.const(0, value.dtype))
        return bool(expr.value) if isinstance(expr, Const) else expr
    if not isinstance(value, Memory):
        hint = ring_number_hint(value) or "test a scalar, such as an element or the result of a call"
    elif value.is_local:
        hint = "on tiles use &, |, ~ and tj.where"
    else:
        hint = f"compare an element, or test for the argument: {value.buffer.root.name} is not None"
    raise ctx.type_error(node, f"a condition must be a scalar; this is {describe(value)}", hint)


def condition(ctx: Context, node: ast.AST, value: Value) -> Expr:
    """Like `truth`, but always return an expression."""
    holds = truth(ctx, node, value)
    return build.const(holds, bool_) if isinstance(holds, bool) else holds


def convert(ctx: Context, node: ast.AST, value: Value, dtype: DType, saturate: bool = True) -> Scalar:
    """Return a scalar converted to `dtype`; raise KernelTypeError for a literal that `dtype` can't hold."""
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
    """Like `convert`, for a store to memory; also raise KernelTypeError for a fractional literal in integer memory."""
    if dtype.is_integer and isinstance(value, Constant) and isinstance(value.value, float):
        number = value.value
        if math.isfinite(number) and number != int(number):
            raise ctx.type_error(
                node, f"{number!r} is not an integer, and this memory holds {dtype}",
                f"write int({number!r}) to truncate it, or give the array a float type",
            )
    return convert(ctx, node, value, dtype)


def _truncated(ctx: Context, node: ast.AST, number: float, dtype: DType) -> Const:
    try:
        return ctx.literal(int(number), dtype, node)
    except (ValueError, OverflowError):
        raise ctx.type_error(
            node, f"{number!r} can't be converted to {dtype}", "give a finite number, or a float type"
        ) from None
