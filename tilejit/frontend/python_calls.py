"""Calls of Python's builtins and of tilejit's host functions: evaluated at compile time, or translated."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from ..dtypes import DType, bool_, float32, float64, int32, int64
from ..ir.arithmetic import build, facts
from ..ir.nodes import Expr
from ..layout import R, S, Swizzle, TileLayout
from ..nibbles import pack
from . import attributes, breakpoints, language, loops, messages, nibbles, operators, printing, scalars
from .arguments import positional_values
from .context import Context
from .foreign import instead
from .values import Constant, Items, Memory, Scalar, Table, Value, describe
from .words import LAYOUTS

#: functions that Python evaluates on compile-time values, by id, because a callee may be unhashable
_PURE_IDS = frozenset(map(id, (
    abs, all, any, bin, bool, divmod, float, hex, int, isinstance, issubclass, len, max, min, oct, ord, chr, pow, repr,
    round, sorted, str, sum, tuple, type, format, callable, complex, hash, np.dtype,
    language.cdiv, language.next_power_of_2,
    *(function for functions in LAYOUTS.values() for function in functions),
)))


def _computed(ctx: Context, node: ast.Call, callee: Callable[..., Any], values: Sequence[Value]) -> Value:
    """Return the result of a Python function for `values`; raise KernelTypeError if an argument is a run-time value."""
    keywords = {k.arg: ctx.constant(ctx.evaluate(k.value), k.value, k.arg) for k in node.keywords if k.arg}
    folded = scalars.fold(ctx, node, callee, values, keywords)
    if folded is None:
        other = next(v for v in values if not isinstance(v, Constant))
        name = getattr(callee, "__name__", repr(callee))
        raise ctx.type_error(
            node, f"{name} runs at compile time; this is {describe(other)}",
            "where items are known only at run time, index its items, or loop over them" if isinstance(other, Items)
            else instead(name) or "give it compile-time values",
        )
    return folded


def _python_call(ctx: Context, node: ast.Call, callee: Callable[..., Any]) -> Value:
    return _computed(ctx, node, callee, positional_values(ctx, node, has_keywords=True))


def _extreme(name: str, python: Callable[..., Any], ctx: Context, node: ast.Call) -> Value:
    if node.keywords:
        return _python_call(ctx, node, python)
    arguments = values = positional_values(ctx, node)
    if len(values) == 1 and isinstance(values[0], Items):
        values = list(values[0].items)
    if all(isinstance(v, Constant) for v in values):
        return _computed(ctx, node, python, arguments)
    values = [scalars.as_scalar(ctx, node, value) for value in values]
    tile = next((v for v in values if isinstance(v, Memory)), None)
    if tile is not None:
        raise ctx.type_error(
            node, f"{python.__name__} takes scalars; this is {describe(tile)}",
            f"write tj.{python.__name__}(x) for one tile, or tj.{name}(a, b) for two, element by element",
        )
    extreme = values[0]
    for value in values[1:]:
        extreme = operators.operation(ctx, node, name, python, (extreme, value))
    return extreme


def _abs(ctx: Context, node: ast.Call) -> Value:
    values = positional_values(ctx, node)
    if len(values) != 1:
        raise ctx.type_error(node, f"abs takes 1 argument; got {len(values)}", "write abs(x)")
    return operators.operation(ctx, node, "abs", abs, values)


def _of_two(
    python: Callable[..., Any], run_time: Callable[[Context, ast.AST, list[Value]], Value], ctx: Context, node: ast.Call
) -> Value:
    values = positional_values(ctx, node)
    folded = scalars.fold(ctx, node, python, values)
    if folded is not None:
        return folded
    if len(values) != 2:
        name = python.__name__
        raise ctx.type_error(node, f"{name} takes 2 arguments; got {len(values)}", f"write {name}(a, b)")
    return run_time(ctx, node, values)


def _cdiv(ctx: Context, node: ast.AST, values: list[Value]) -> Value:
    """Return a / b, rounded up, by a formula whose intermediate values don't overflow (see `_has_room`)."""
    a, b = values
    if isinstance(b, Constant) and isinstance(b.value, int) and b.value > 0:
        if isinstance(a, Scalar) and _has_room(a.expr, b.value - 1):
            above = operators.binary(ctx, node, ast.Add(), a, Constant(b.value - 1))
            return operators.binary(ctx, node, ast.FloorDiv(), above, b)
    elif all(not isinstance(v, Memory) and getattr(v, "dtype", int32).kind != "uint" for v in values) and (
        not isinstance(a, Scalar) or a.dtype.is_float or _has_room(a.expr, -1)
    ):
        down = operators.binary(ctx, node, ast.FloorDiv(), operators.operation(ctx, node, "neg", operator.neg, (a,)), b)
        return operators.operation(ctx, node, "neg", operator.neg, (down,))
    down, rest = (operators.binary(ctx, node, op, a, b) for op in (ast.FloorDiv(), ast.Mod()))
    remains = operators.operation(ctx, node, "not_equal", operator.ne, (rest, Constant(0)))
    return operators.binary(ctx, node, ast.Add(), down, remains)


def _has_room(x: Expr, more: int) -> bool:
    """True if x + more provably doesn't overflow; an int64 that isn't data is assumed not to."""
    if x.dtype is int64 and not facts.is_data(x):
        return True
    if not x.dtype.is_integer:
        return False
    (least, most), end = facts.full_range(x.dtype), facts.bounds(x)[more > 0]
    return end is not None and least <= end + more <= most


def _conversion(python: Callable[..., Any], dtype: DType, wide: DType, ctx: Context, node: ast.Call) -> Value:
    """Translate int(x), float(x) or bool(x), which converts to `dtype`, or to `wide` from a 64-bit type.

    int(x) of an integer and float(x) of a float keep the type.
    """
    if node.keywords:
        return _python_call(ctx, node, python)
    values = positional_values(ctx, node)
    folded = scalars.fold(ctx, node, python, values)
    if folded is not None:
        return folded
    if len(values) != 1:
        raise ctx.type_error(node, f"{python.__name__} takes 1 argument; got {len(values)}", "pass it one scalar")
    if dtype == bool_:
        holds = scalars.truth(ctx, node, values[0])
        return Constant(holds) if isinstance(holds, bool) else Scalar(holds)
    expr = ctx.scalar(scalars.as_scalar(ctx, node, values[0]), node)
    keeps = expr.dtype.is_integer if dtype.is_integer else expr.dtype.is_float
    return Scalar(expr) if keeps else Scalar(build.cast(expr, wide if expr.dtype.bits == 64 else dtype))


def _round(ctx: Context, node: ast.Call) -> Value:
    """Translate round(x); a run-time float is rounded to the nearest integer, ties to even, in the type of int(x)."""
    values = positional_values(ctx, node, has_keywords=True)
    if values and isinstance(values[0], Scalar) and len(values) + len(node.keywords) > 1:
        raise ctx.type_error(node, "round of a run-time scalar takes no ndigits: it returns an integer",
                             "write tj.round(x * 100) / 100 for two decimals")
    if len(values) != 1 or node.keywords or isinstance(values[0], Constant):
        return _computed(ctx, node, round, values)
    x = ctx.scalar(scalars.as_scalar(ctx, node, values[0]), node)
    if not x.dtype.is_float:
        return Scalar(x)
    return Scalar(build.cast(build.op("round", x), int64 if x.dtype.bits == 64 else int32))


def _len(ctx: Context, node: ast.Call) -> Value:
    values = positional_values(ctx, node)
    if len(values) == 1 and isinstance(values[0], (Items, Table)):
        return Constant(len(values[0].items))
    extents = [attributes.length(ctx, node, value) for value in values]
    return _computed(ctx, node, len, values) if extents[1:] or not extents or extents[0] is None else extents[0]


def _of_tuples(python: Callable[..., Iterable[Any]], ctx: Context, node: ast.Call) -> Value:
    arguments: list[Any] = []
    for value, argument in zip(positional_values(ctx, node, has_keywords=True), node.args, strict=True):
        if isinstance(value, Items):
            arguments.append(value.items)
        elif isinstance(value, Constant) and arguments:
            # the start of `enumerate`; a number in any other place makes the call below raise an error
            arguments.append(value.value)
        elif python is enumerate and arguments:
            raise ctx.type_error(
                argument, f"the start of enumerate must be a compile-time integer; this is {describe(value)}",
                f"add it to the index inside the loop: i + {ast.unparse(argument)}",
            )
        else:
            raise ctx.type_error(
                argument, f"{python.__name__} takes tuples; this is {describe(value)}",
                loops.how_to_loop(ctx, argument, value),
            )
    keywords = {k.arg: ctx.constant(ctx.evaluate(k.value), k.value, k.arg) for k in node.keywords if k.arg}
    try:
        return Items(tuple(map(_arranged, python(*arguments, **keywords))))
    except (TypeError, ValueError) as error:
        raise ctx.type_error(node, f"{python.__name__}: {error}", "its arguments must be as in Python") from None


def _arranged(part: Any) -> Value:
    if type(part) is tuple:
        return Items(tuple(map(_arranged, part)))
    value: Value = Constant(part) if type(part) in (int, str) else part
    return value


def _tuple(ctx: Context, node: ast.Call) -> Value:
    values = positional_values(ctx, node)
    is_one = len(values) == 1 and isinstance(values[0], Items) and not node.keywords
    return values[0] if is_one else _computed(ctx, node, tuple, values)


def _sum(ctx: Context, node: ast.Call) -> Value:
    values = positional_values(ctx, node, has_keywords=True)
    if [keyword.arg for keyword in node.keywords] == ["start"]:
        values.append(ctx.evaluate(node.keywords[0].value))
    elif node.keywords:
        return _computed(ctx, node, sum, values)
    folded = scalars.fold(ctx, node, sum, values)
    if folded is not None or len(values) > 2 or not isinstance(values[0], Items):
        return folded or _computed(ctx, node, sum, values)
    total = values[1] if len(values) > 1 else Constant(0)
    for item in values[0].items:
        total = operators.binary(ctx, node, ast.Add(), total, item)
    return total


_BUILTINS: dict[Any, Callable[[Context, ast.Call], Value]] = {
    min: partial(_extreme, "minimum", min),
    max: partial(_extreme, "maximum", max),
    abs: _abs,
    divmod: partial(_of_two, divmod, lambda ctx, node, values: Items(tuple([
        operators.binary(ctx, node, op, *values) for op in (ast.FloorDiv(), ast.Mod())
    ]))),
    len: _len,
    tuple: _tuple,
    sum: _sum,
    **{python: partial(_of_tuples, python) for python in (enumerate, reversed, zip)},
    language.cdiv: partial(_of_two, language.cdiv, _cdiv),
    language.tile_order: operators.tile_order,
    pack: nibbles.pack,
    int: partial(_conversion, int, int32, int64),
    float: partial(_conversion, float, float32, float64),
    bool: partial(_conversion, bool, bool_, bool_),
    round: _round,
    print: printing.print_values,
    breakpoint: breakpoints.stop,
    language.static_assert: messages.static_assert_holds,
}


def _runs_in_python(callee: Any) -> bool:
    """True if Python evaluates calls of the function at compile time, for which all arguments must be known."""
    if id(callee) in _PURE_IDS or callee in (TileLayout, Swizzle):
        return True
    if getattr(callee, "__module__", None) == "math" and isinstance(callee, BuiltinFunctionType):
        return True
    owner = getattr(callee, "__self__", None)
    return isinstance(owner, (TileLayout, type(S), type(R)))


def call_python(ctx: Context, node: ast.Call, callee: Any) -> Value | None:
    """Return the result of a call of a Python or host function; None if kernels can't call it."""
    translate = _BUILTINS.get(callee) if isinstance(callee, (type, BuiltinFunctionType, FunctionType)) else None
    if translate is not None:
        return translate(ctx, node)
    return _python_call(ctx, node, callee) if _runs_in_python(callee) else None
