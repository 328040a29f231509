"""Calls that Python evaluates at compile time, and Python's builtins that take tuples."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .attributes import length
from .barriers import ring_loop_hint
from .context import Context
from .foreign import instead
from .loops import how_to_loop
from .operators import binary
from .scalars import fold
from .values import Constant, Items, Memory, Rows, Value, describe


def positional_values(ctx: Context, node: ast.Call, *, has_keywords: bool = False) -> list[Value]:
    """Return the values of the positional arguments; reject `*` and, unless `has_keywords`, keyword arguments."""
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            raise ctx.syntax_error(argument, "* can't be used in calls in a kernel", "write the arguments out")
    if node.keywords and not has_keywords:
        name = node.keywords[0].arg
        raise ctx.type_error(node, f"{ast.unparse(node.func)} takes no keyword arguments; got {name or '**'}",
                             "pass its arguments by position")
    return [ctx.evaluate(argument) for argument in node.args]


def computed(ctx: Context, node: ast.Call, callee: Callable[..., Any], values: Sequence[Value]) -> Value:
    """Return the result of a Python function for `values`; raise KernelTypeError if an argument is a run-time value."""
    keywords = {k.arg: ctx.constant(ctx.evaluate(k.value), k.value, k.arg) for k in node.keywords if k.arg}
    folded = fold(ctx, node, callee, values, keywords)
    if folded is None:
        other = next(v for v in values if not isinstance(v, Constant))
        name = getattr(callee, "__name__", repr(callee))
        raise ctx.type_error(
            node, f"{name} runs at compile time; this is {describe(other)}",
            "index its items, or loop over them" if isinstance(other, Items)
            else instead(name) or "give it compile-time values",
        )
    return folded


def _len(ctx: Context, node: ast.Call) -> Value:
    values = positional_values(ctx, node)
    if len(values) == 1 and isinstance(values[0], Items):
        return Constant(len(values[0].items))
    for value in values:
        instead_of_length = ring_loop_hint(value)
        if instead_of_length is not None:
            raise ctx.type_error(node, f"{describe(value)} has no length", instead_of_length)
    extent = length(values[0].extents) if len(values) == 1 and isinstance(values[0], (Memory, Rows)) else None
    return computed(ctx, node, len, values) if extent is None else extent


def _of_tuples(python: Callable[..., Iterable[Any]]) -> Callable[[Context, ast.Call], Value]:
    def handler(ctx: Context, node: ast.Call) -> Value:
        arguments: list[Any] = []
        for value, argument in zip(positional_values(ctx, node, has_keywords=True), node.args, strict=True):
            if isinstance(value, Items):
                arguments.append(value.items)
            elif isinstance(value, Constant) and arguments:
                # the start of `enumerate`
                arguments.append(value.value)
            else:
                raise ctx.type_error(
                    argument, f"{python.__name__} takes tuples; this is {describe(value)}",
                    how_to_loop(ctx, argument, value),
                )
        keywords = {k.arg: ctx.constant(ctx.evaluate(k.value), k.value, k.arg) for k in node.keywords if k.arg}
        try:
            return Items(tuple(map(_arranged, python(*arguments, **keywords))))
        except (TypeError, ValueError) as error:
            raise ctx.type_error(node, f"{python.__name__}: {error}", "call it as in Python") from None

    return handler


def _arranged(part: Any) -> Value:
    if type(part) is tuple:
        return Items(tuple(map(_arranged, part)))
    value: Value = Constant(part) if type(part) is int else part
    return value


def _tuple(ctx: Context, node: ast.Call) -> Value:
    values = positional_values(ctx, node)
    is_one = len(values) == 1 and isinstance(values[0], Items) and not node.keywords
    return values[0] if is_one else computed(ctx, node, tuple, values)


def _sum(ctx: Context, node: ast.Call) -> Value:
    values = positional_values(ctx, node, has_keywords=True)
    if [keyword.arg for keyword in node.keywords] == ["start"]:
        values.append(ctx.evaluate(node.keywords[0].value))
    elif node.keywords:
        return computed(ctx, node, sum, values)
    folded = fold(ctx, node, sum, values)
    if folded is not None or len(values) > 2 or not isinstance(values[0], Items):
        return folded or computed(ctx, node, sum, values)
    total = values[1] if len(values) > 1 else Constant(0)
    for item in values[0].items:
        total = binary(ctx, node, ast.Add(), total, item)
    return total


#: functions of tuples whose items may be run-time values
ON_TUPLES: dict[Any, Callable[[Context, ast.Call], Value]] = {
    len: _len,
    tuple: _tuple,
    sum: _sum,
    **{python: _of_tuples(python) for python in (enumerate, reversed, zip)},
}
