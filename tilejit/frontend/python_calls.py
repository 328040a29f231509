"""Calls of Python's builtins and of tilejit's host functions: evaluated at compile time, or translated."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from ..dtypes import DType, bool_, float32, float64, int32, int64, promote
from ..ir.arithmetic import build, facts
from ..ir.nodes import Expr
from ..layout import R, S, Swizzle, TileLayout
from . import language, messages, tiles
from .arguments import bind, optional
from .context import Context
from .scalars import fold, operate, truth
from .singles import as_scalar
from .tuple_calls import ON_TUPLES, computed, positional_values
from .values import Constant, Items, Memory, Scalar, Value, describe
from .words import LAYOUTS

#: functions that Python evaluates on compile-time values
_PURE: tuple[Any, ...] = (
    abs, all, any, bin, bool, divmod, float, hex, int, isinstance, issubclass, len, max, min, oct, ord, chr, pow, repr,
    round, sorted, str, sum, tuple, type, format, callable, complex, hash, np.dtype,
    language.cdiv, language.next_power_of_2,
    *(function for functions in LAYOUTS.values() for function in functions),
)
#: membership is tested by id, because a callee may be unhashable
_PURE_IDS = frozenset(map(id, _PURE))


def runs_in_python(callee: Any) -> bool:
    """True if Python evaluates calls of the function at compile time, for which all arguments must be known."""
    if id(callee) in _PURE_IDS or callee in (TileLayout, Swizzle):
        return True
    if getattr(callee, "__module__", None) == "math" and isinstance(callee, BuiltinFunctionType):
        return True
    owner = getattr(callee, "__self__", None)
    return isinstance(owner, (TileLayout, type(S), type(R)))


def python_call(ctx: Context, node: ast.Call, callee: Callable[..., Any]) -> Value:
    """Return the result of a Python function; raise KernelTypeError if an argument is a run-time value."""
    return computed(ctx, node, callee, positional_values(ctx, node, has_keywords=True))


def _extreme(name: str, python: Callable[..., Any]) -> Callable[[Context, ast.Call], Value]:
    def handler(ctx: Context, node: ast.Call) -> Value:
        if node.keywords:
            return python_call(ctx, node, python)
        arguments = values = positional_values(ctx, node)
        if len(values) == 1 and isinstance(values[0], Items):
            values = list(values[0].items)
        if all(isinstance(v, Constant) for v in values):
            return computed(ctx, node, python, arguments)
        values = [as_scalar(ctx, node, value) for value in values]
        tile = next((v for v in values if isinstance(v, Memory)), None)
        if tile is not None:
            raise ctx.type_error(
                node, f"{python.__name__} takes scalars; this is {describe(tile)}",
                f"write tj.{python.__name__}(x) for one tile, or tj.{name}(a, b) for several, element by element",
            )
        extreme = values[0]
        for value in values[1:]:
            folded = fold(ctx, node, python, (extreme, value))
            extreme = operate(ctx, node, name, (extreme, value)) if folded is None else folded
        return extreme

    return handler


def _abs(ctx: Context, node: ast.Call) -> Value:
    values = positional_values(ctx, node)
    if len(values) != 1:
        raise ctx.type_error(node, f"abs takes 1 argument; got {len(values)}", "abs(x)")
    folded = fold(ctx, node, abs, values)
    if folded is not None:
        return folded
    return tiles.apply(ctx, node, "abs", values)


def _of_two(
    python: Callable[..., Any], run_time: Callable[[Context, ast.AST, list[Value]], Value]
) -> Callable[[Context, ast.Call], Value]:
    def handler(ctx: Context, node: ast.Call) -> Value:
        values = positional_values(ctx, node)
        folded = fold(ctx, node, python, values)
        if folded is not None:
            return folded
        if len(values) != 2:
            name = python.__name__
            raise ctx.type_error(node, f"{name} takes 2 arguments; got {len(values)}", f"{name}(a, b)")
        return run_time(ctx, node, values)

    return handler


def _cdiv(ctx: Context, node: ast.AST, values: list[Value]) -> Value:
    """Return a / b, rounded up, by a formula whose intermediate values don't overflow."""
    a, b = values
    if isinstance(b, Constant) and isinstance(b.value, int) and b.value > 0:
        if isinstance(a, Scalar) and _has_room(a.expr, b.value - 1):
            return operate(ctx, node, "floordiv", (operate(ctx, node, "add", (a, Constant(b.value - 1))), b))
    elif all(not isinstance(v, Memory) and getattr(v, "dtype", int32).kind != "uint" for v in values) and (
        not isinstance(a, Scalar) or a.dtype.is_float or _has_room(a.expr, -1)
    ):
        down = operate(ctx, node, "floordiv", (operate(ctx, node, "neg", (a,)), b))
        return operate(ctx, node, "neg", (down,))
    down, rest = (tiles.apply(ctx, node, name, values) for name in ("floordiv", "mod"))
    return tiles.apply(ctx, node, "add", (down, tiles.apply(ctx, node, "not_equal", (rest, Constant(0)))))


def _has_room(x: Expr, more: int) -> bool:
    """True if x + more provably doesn't overflow, which is assumed of an int64 that isn't data."""
    if x.dtype is int64 and not facts.is_data(x):
        return True
    if not x.dtype.is_integer:
        return False
    (least, most), end = facts.full_range(x.dtype), facts.bounds(x)[more > 0]
    return end is not None and least <= end + more <= most


def _conversion(python: Callable[..., Any], dtype: DType, wide: DType) -> Callable[[Context, ast.Call], Value]:
    """Return the handler of int, float or bool, which converts to `dtype`, or to `wide` from a 64-bit type.

    int(x) of an integer and float(x) of a float keep the type.
    """

    def handler(ctx: Context, node: ast.Call) -> Value:
        if node.keywords:
            return python_call(ctx, node, python)
        values = positional_values(ctx, node)
        folded = fold(ctx, node, python, values)
        if folded is not None:
            return folded
        if len(values) != 1:
            raise ctx.type_error(node, f"{python.__name__} takes 1 argument; got {len(values)}", "give it one scalar")
        if dtype == bool_:
            holds = truth(ctx, node, values[0])
            return Constant(holds) if isinstance(holds, bool) else Scalar(holds)
        expr = ctx.scalar(as_scalar(ctx, node, values[0]), node)
        keeps = expr.dtype.is_integer if dtype.is_integer else expr.dtype.is_float
        return Scalar(expr) if keeps else Scalar(build.cast(expr, wide if expr.dtype.bits == 64 else dtype))

    return handler


def _round(ctx: Context, node: ast.Call) -> Value:
    """Translate round(x); a run-time float gives the nearest integer, ties to even, in the type of int(x)."""
    values = positional_values(ctx, node, has_keywords=True)
    if values and isinstance(values[0], Scalar) and len(values) + len(node.keywords) > 1:
        raise ctx.type_error(node, "round of a run-time scalar takes no ndigits: it returns an integer",
                             "write tj.round(x * 100) / 100 for two decimals")
    if len(values) != 1 or node.keywords or isinstance(values[0], Constant):
        return computed(ctx, node, round, values)
    x = ctx.scalar(as_scalar(ctx, node, values[0]), node)
    if not x.dtype.is_float:
        return Scalar(x)
    return Scalar(build.cast(build.op("round", x), int64 if x.dtype.bits == 64 else int32))


_FOLDED: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "floordiv": operator.floordiv, "minimum": min, "mod": operator.mod, "mul": operator.mul,
    "sub": operator.sub,
}


def tile_of(ctx: Context, node: ast.Call) -> Value:
    """Translate `tj.tile_order(t, shape, group)`.

    The formula of the host function computes `group * columns`, which may overflow. Unless it fits (see
    `_fits`), t is divided by columns first, so that no product exceeds t.
    """
    arguments = bind(ctx, node, "tile_order", ("t", "shape", "group"), 2)
    shape = ctx.evaluate(arguments["shape"])
    if not isinstance(shape, Items) or len(shape.items) != 2:
        raise ctx.type_error(
            arguments["shape"], f"the shape must be (rows, columns); this is {describe(shape)}", "give two numbers"
        )
    group = optional(ctx, arguments.get("group")) or Constant(8)
    if not isinstance(group, Scalar):
        place = arguments.get("group", node)
        number = ctx.integer(group, place, "the number of rows of a group")
        if number < 1:
            raise ctx.type_error(place, f"a group can't have {number} rows", "give at least 1")
    t, (rows, columns) = ctx.evaluate(arguments["t"]), shape.items

    def compute(name: str, a: Value, b: Value) -> Value:
        folded = fold(ctx, node, _FOLDED[name], (a, b))
        return tiles.apply(ctx, node, name, (a, b)) if folded is None else folded

    if _fits(group, columns, t):
        per_group = compute("mul", group, columns)
        first = compute("mul", compute("floordiv", t, per_group), group)
        within = compute("mod", t, per_group)
    else:
        first = compute("mul", compute("floordiv", compute("floordiv", t, columns), group), group)
        within = compute("sub", t, compute("mul", first, columns))
    height = compute("minimum", compute("sub", rows, first), group)
    return Items((compute("add", first, compute("mod", within, height)), compute("floordiv", within, height)))


def _fits(group: Value, columns: Value, t: Value) -> bool:
    """True if group * columns fits its type, or that of `t` if both are constants; an int64 fits unless it is data."""
    if isinstance(group, Constant) and isinstance(columns, Constant):
        return not isinstance(t, Scalar) or group.value * columns.value <= facts.full_range(t.dtype)[1]
    exprs = [v.expr if isinstance(v, Scalar) else build.const(v.value, int64) for v in (group, columns)
             if isinstance(v, (Scalar, Constant))]
    product = build.mul(*[build.cast(e, int64) for e in exprs])
    dtype = promote(*[v.dtype for v in (group, columns) if isinstance(v, Scalar)])
    return facts.fits(facts.bounds(product), dtype) or (dtype is int64 and not facts.is_data(product))


BUILTINS: dict[Any, Callable[[Context, ast.Call], Value]] = {
    min: _extreme("minimum", min),
    max: _extreme("maximum", max),
    abs: _abs,
    divmod: _of_two(divmod, lambda ctx, node, values: Items((
        tiles.apply(ctx, node, "floordiv", values), tiles.apply(ctx, node, "mod", values),
    ))),
    **ON_TUPLES,
    language.cdiv: _of_two(language.cdiv, _cdiv),
    language.tile_order: tile_of,
    int: _conversion(int, int32, int64),
    float: _conversion(float, float32, float64),
    bool: _conversion(bool, bool_, bool_),
    round: _round,
    print: messages.print_values,
    language.static_assert: messages.static_assert_holds,
}
