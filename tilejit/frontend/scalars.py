"""Arithmetic on literals and run-time scalars: types, constant folding, truth values.

Each thread has a copy of a rank-0 tile, such as the result of a reduction over all axes. Such a tile becomes a scalar
where one is needed (`if tj.max(x) > 0`), and where it joins a number from another path (`total = 0.0` before a loop
with `total += tj.sum(x)`).
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any

from ..dataclass import replace
from ..dtypes import DType, bool_, int64, promote
from ..errors import KernelTypeError
from ..ir.arithmetic import build
from ..ir.nodes import Cast, Const, Element, Expr, Let, Load, Op, Var
from ..layout import TileLayout
from ..ops.elementwise import ELEMENTWISE, common_type
from ..ops.elementwise.division import DIVISIONS
from ..source import Span
from .barriers import ring_number_hint
from .buffers import fixed_layout, reinterpreted
from .context import Context
from .values import (
    Binding,
    Constant,
    Items,
    Memory,
    Scalar,
    Table,
    Value,
    as_python,
    check_bits,
    check_elements,
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
    """Return the result of `compute` on constants and tuples of constants; None if there is any other value.

    raises: KernelTypeError for an arithmetic, memory, type or value error in `compute`, or a result above a size limit.
    """
    for value in values:
        if not isinstance(value, (Constant, Items)):
            return None
    try:
        arguments = [as_python(value) for value in values]
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


def check_call(compute: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Raise KernelTypeError if the estimated result of a call exceeds a size limit; TypeError for invalid arguments."""
    check = _CHECKS.get(compute) if isinstance(compute, BuiltinFunctionType) else None
    if check is not None:
        check(*arguments, **keywords)


def _elements(items: tuple[Any, ...]) -> int:
    return sum(_elements(item) if type(item) is tuple else 1 for item in items)


def _mul(a: Any, b: Any) -> None:
    if isinstance(a, int) and isinstance(b, int):
        return
    for items, times in ((a, b), (b, a)):
        if hasattr(items, "__len__") and isinstance(times, int) and times > 0:
            count = _elements(items) if type(items) is tuple else len(items)
            check_elements(count * times, type(items).__name__)


def _pow(base: Any, exp: Any, mod: Any = None) -> None:
    if mod is not None or not isinstance(exp, int) or isinstance(base, (float, complex)):
        return
    # other numbers, such as a Fraction, are assumed to grow by a bit per multiplication
    bits = base.bit_length() - 1 if isinstance(base, int) else 1
    if exp > 0 and bits > 0:
        check_bits(bits * exp)
    if exp < 0 and not isinstance(base, int):
        check_bits(-exp)


def _lshift(number: Any, by: Any) -> None:
    if isinstance(number, int) and isinstance(by, int) and number:
        check_bits(number.bit_length() + by)


def _mod(text: Any, values: Any) -> None:
    if not isinstance(text, (str, bytes)):
        return
    _check_widths(text if isinstance(text, str) else text.decode("latin-1"))
    # a width or precision may be one of the values: "%*d"
    if "*" in str(text):
        for value in values if isinstance(values, tuple) else (values,):
            if isinstance(value, int):
                check_elements(value, "str")


def _format(_: Any, spec: Any = "") -> None:
    if isinstance(spec, str):
        _check_widths(spec)


def _check_widths(spec: str) -> None:
    """Check each number in a format, since it may be a width or precision, against the size limit."""
    for digits in re.findall(r"\d+", spec):
        check_elements(int(digits) if len(digits) < 20 else 10 ** (min(len(digits), 4000) - 1), "str")


def _round(number: Any, ndigits: Any = None) -> None:
    if isinstance(number, int) and isinstance(ndigits, int) and ndigits < 0:
        check_bits(-3 * ndigits)


def _perm(n: Any, k: Any = None) -> None:
    if isinstance(n, int) and isinstance(k, (int, type(None))) and n > 0:
        # the product has at least this many factors that are n / 2 or more
        factors = n // 2 if k is None else min(k, n // 2)
        check_bits(factors * max(n.bit_length() - 2, 0))


def _comb(n: Any, k: Any) -> None:
    if isinstance(n, int) and isinstance(k, int) and 0 < k < n:
        # the result is at least (n / chosen) ** chosen
        chosen = min(k, n - k)
        check_bits(chosen * max(n.bit_length() - 1 - chosen.bit_length(), 1))


def _prod(items: Any, start: Any = 1) -> None:
    factors = (*items, start) if isinstance(items, tuple) else ()
    if not all(isinstance(factor, (int, float, complex)) for factor in factors):
        raise TypeError("math.prod multiplies numbers")
    check_bits(sum(factor.bit_length() - 1 for factor in factors if isinstance(factor, int) and factor))


def _lcm(*numbers: Any) -> None:
    least = 1
    for number in numbers:
        if not isinstance(number, int):
            return
        least = math.lcm(least, number)
        check_bits(least.bit_length())


_CHECKS: dict[Any, Callable[..., None]] = {
    operator.mul: _mul,
    operator.pow: _pow,
    operator.lshift: _lshift,
    operator.mod: _mod,
    builtins.pow: _pow,
    builtins.format: _format,
    builtins.round: _round,
    math.factorial: _perm,
    math.perm: _perm,
    math.comb: _comb,
    math.prod: _prod,
    math.lcm: _lcm,
}


def operate(ctx: Context, node: ast.AST, name: str, values: Sequence[Value]) -> Value:
    """Return the result of an elementwise operation on scalars and numbers.

    raises: KernelTypeError for an integer division by a compile-time 0, or for unsuitable operands.
    """
    arguments, weak = settle(ctx, node, name, values)
    result = build.op(name, *arguments)
    if name not in DIVISIONS:
        return Scalar(result, weak and not ELEMENTWISE[name].gives_bool)
    divisor = arguments[1]
    if result.dtype.is_integer and isinstance(divisor, Const) and divisor.value == 0:
        raise ctx.type_error(node, "integer division by zero", "use a nonzero divisor")
    if isinstance(result, Op) and not isinstance(divisor, Const):
        # the run-time error for a zero divisor needs a location
        result = replace(result, span=ctx.span(node))
    return Scalar(result, weak)


def settle(ctx: Context, node: ast.AST, name: str, values: Sequence[Value]) -> tuple[list[Expr], bool]:
    """Return the operands as expressions, untyped ones converted by `as_type`, and whether a numeric result is weak."""
    leading = ELEMENTWISE[name].conditions
    conditions, numbers = [condition(ctx, node, value) for value in values[:leading]], values[leading:]
    for value in numbers:
        if not isinstance(value, Scalar) and not is_number(value):
            raise _no_scalar(ctx, node, name, value)
    common, weak = common_operand_type(name, numbers)
    return [*conditions, *[as_type(ctx, node, value, common) for value in numbers]], weak


def common_operand_type(name: str, values: Sequence[Value]) -> tuple[DType, bool]:
    """Return the common type of the typed values, or of all if none is typed, and whether a numeric result is weak.

    raises: KernelTypeError, without a location, if there is no common type.
    """
    typed = [value.dtype for value in values if isinstance(value, Scalar) and not value.weak]
    if typed:
        return common_type(name, tuple(typed)), False
    if ELEMENTWISE[name].kind == "random":
        return promote(*[weak_type(v) for v in values]), False
    return promote(*[weak_type(v) for v in values]), any(isinstance(v, Scalar) for v in values)


def as_type(ctx: Context, node: ast.AST, value: Value, common: DType) -> Expr:
    """Return a typed scalar unchanged, any other number as `common` or, if of a higher `RANK`, as its `weak_type`."""
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
        hint += "; to print a string, write print('x =', x)"
    return ctx.type_error(node, f"{name} takes scalars and local tiles; got {describe(value)}", hint)


def truth(ctx: Context, node: ast.AST, value: Value) -> bool | Expr:
    """Return the truth value, as a bool if known at compile time; raise KernelTypeError for a value that has none."""
    value = as_scalar(ctx, node, value)
    if isinstance(value, Constant):
        return bool(value.value)
    if isinstance(value, (Items, Table)):
        return bool(value.items)
    if isinstance(value, Scalar):
        expr = value.expr if value.dtype == bool_ else build.op("not_equal", value.expr, build.const(0, value.dtype))
        return bool(expr.value) if isinstance(expr, Const) else expr
    if not isinstance(value, Memory):
        hint = ring_number_hint(value) or "test a scalar, such as an element or the result of a call"
    elif value.is_local:
        hint = "on tiles use &, |, ~ and tj.where"
    else:
        hint = "compare an element"
        if value.buffer.space == "global":
            hint += f", or test for the argument: {value.buffer.root.name} is not None"
    raise ctx.type_error(node, f"a condition must be a scalar; this is {describe(value)}", hint)


def condition(ctx: Context, node: ast.AST, value: Value) -> Expr:
    """Like `truth`, but always return an expression; raise KernelTypeError for what is no number, such as a tuple."""
    if isinstance(value, (Items, Table)) or (isinstance(value, Constant) and not is_number(value)):
        hint = "return or pass one condition; combine several with `and`"
        raise ctx.type_error(node, f"a condition must be a scalar; this is {describe(value)}", hint)
    holds = truth(ctx, node, value)
    return build.const(holds, bool_) if isinstance(holds, bool) else holds


def convert(ctx: Context, node: ast.AST, value: Value, dtype: DType, saturate: bool = True) -> Scalar:
    """Convert a scalar, rank-0 tile or number; raise KernelTypeError if a number doesn't fit. saturate: see `Cast`."""
    value = as_scalar(ctx, node, value)
    if dtype.kind == "packed" and not (isinstance(value, Scalar) and value.dtype == dtype):
        raise ctx.type_error(
            node, f"{describe(value)} can't be converted to {dtype}: it is two numbers per byte",
            "view the memory as tj.uint8 to write bytes",
        )
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
                f"write int({number!r}) to truncate it, or use memory of a float type",
            )
    return convert(ctx, node, value, dtype)


def _truncated(ctx: Context, node: ast.AST, number: float, dtype: DType) -> Const:
    try:
        return ctx.literal(int(number), dtype, node)
    except (ValueError, OverflowError):
        raise ctx.type_error(
            node, f"{number!r} can't be converted to {dtype}", "use a finite number or a float type"
        ) from None


_ARITHMETIC = (ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop, ast.Name, ast.expr_context, ast.Constant)


def is_single(value: Value) -> bool:
    """True for a rank-0 tile, which can be used as a scalar."""
    return isinstance(value, Memory) and not value.extents and value.is_local and value.is_whole


def as_scalar(ctx: Context, node: ast.AST, value: Value) -> Value:
    """Return a rank-0 tile as a scalar, and any other value unchanged."""
    if not isinstance(value, Memory) or not is_single(value):
        return value
    return scalar_of(ctx, value, ctx.span(node))


def with_scalars(ctx: Context, expressions: Sequence[ast.expr]) -> list[Value]:
    """Evaluate expressions, of which arithmetic ones use the rank-0 tiles among their names as scalars, loaded once."""
    parts = [part for expression in expressions for part in ast.walk(expression)]
    names = {part.id: part for part in parts if isinstance(part, ast.Name)}
    bindings = {name: ctx.frame.env[name] for name in names if name in ctx.frame.env}
    is_arithmetic = all(isinstance(part, _ARITHMETIC) for part in parts)
    singles = {name: binding for name, binding in bindings.items() if is_arithmetic and is_single(binding.value)}
    for name, binding in singles.items():
        ctx.frame.env[name] = Binding(as_scalar(ctx, names[name], binding.value), binding.span)
    values = [ctx.evaluate(expression) for expression in expressions]
    ctx.frame.env.update(singles)
    return values


def scalar_of(ctx: Context, single: Memory, span: Span) -> Scalar:
    """Load the value of a rank-0 tile."""
    fixed_layout(ctx, span, single)
    view = reinterpreted(ctx, span, single, (1,), single.dtype, TileLayout.row_major((1,)))
    return load(ctx, Element(view.buffer, view.starts, span), span)


def load(ctx: Context, place: Element, span: Span, order: str = "") -> Scalar:
    """Load an element. order: one of `ir.values.ORDERS["load"]`."""
    buffer = place.buffer
    if buffer.dtype.kind == "packed":
        raise KernelTypeError(
            f"an element of {buffer.dtype} is two numbers in a byte, not a scalar", span=span,
            hint="load a tile and unpack it: tj.unpack(tj.cta.load(X[0:8]), tj.float16); or view memory as tj.uint8",
        )
    var = Var(ctx.unique(f"{buffer.root.name}.value"), buffer.dtype, span=span, data=buffer.dtype is int64)
    ctx.emit(Let(var, Load(place, order, span), span))
    return Scalar(var)
