"""Binding of a call's arguments to parameters."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ..wording import counted, guessed
from .context import Context
from .values import Constant, Value

#: parameter name -> the expression that the call passes for it
Arguments = dict[str, ast.expr]

Handler = Callable[[Context, ast.Call, Arguments], Value]

#: parameter that some `tj` functions don't implement yet -> the hint for a call that passes it to one of them
NOT_YET = {
    "cta": "arrive at a barrier of this CTA; with a ring that has multicast=, a release reaches the other CTAs",
    "reduce": "add a tile in registers with tj.atomic.add(place, tile)",
}

#: parameter name in another library, such as Triton or PyTorch -> its name in tilejit
ELSEWHERE = {
    "other": "fill",
    "count": "arrivals",
    "mbar": "barrier",
    "mbarrier": "barrier",
    "num_stages": "stages",
    "eviction_policy": "cache",
    "cache_modifier": "cache",
    "dim": "axis",
    "keep_dims": "keepdims",
    "keepdim": "keepdims",
    "input_precision": "precision",
    "sem": "order",
    "val": "value",
}


def bind(
    ctx: Context, node: ast.Call, what: str, parameters: tuple[str, ...], required: int, value: str = ""
) -> Arguments:
    """Return the argument expressions by parameter name, without the parameters that the call omits.

    required: the number of leading parameters without a default.
    value: the name of a `tj` function to suggest in the hint if an argument is missing; empty for none.
    raises: KernelTypeError if the arguments don't match the parameters, KernelSyntaxError for * and **.
    """
    for argument in (*node.args, *node.keywords):
        if isinstance(argument, ast.Starred) or isinstance(argument, ast.keyword) and argument.arg is None:
            raise ctx.syntax_error(argument, "* and ** can't be used in calls in a kernel", "write the arguments out")
    if len(node.args) > len(parameters):
        most = f"at most {counted(len(parameters), 'argument')}" if parameters else "no arguments"
        raise ctx.type_error(
            node, f"{what} takes {most}; got {len(node.args)}",
            f"its parameters: {', '.join(parameters)}" if parameters else f"write {what}()",
        )
    expressions = dict(zip(parameters, node.args, strict=False))
    for keyword in node.keywords:
        assert keyword.arg is not None
        if keyword.arg in NOT_YET and keyword.arg not in parameters and what.startswith("tj."):
            raise ctx.type_error(
                keyword, f"{what} with {keyword.arg}= is not available in this version", NOT_YET[keyword.arg]
            )
        if keyword.arg not in parameters:
            hint = guessed(keyword.arg, parameters, f"its parameters: {', '.join(parameters) or 'none'}")
            if ELSEWHERE.get(keyword.arg) in parameters:
                hint = f"write {ELSEWHERE[keyword.arg]}="
            raise ctx.type_error(keyword, f"{what} has no parameter {keyword.arg}", hint)
        if keyword.arg in expressions:
            raise ctx.type_error(keyword, f"{what} gets {keyword.arg} twice", "pass it once")
        expressions[keyword.arg] = keyword.value
    # positional arguments fill the leading parameters
    missing = [name for name in parameters[len(node.args) : required] if name not in expressions]
    if missing:
        hint = f"its parameters: {', '.join(parameters)}"
        if value:
            hint = f"{hint}; for the result as a value: tj.{value}({', '.join(map(ast.unparse, node.args)) or '...'})"
        raise ctx.type_error(node, f"{what} needs {', '.join(missing)}", hint)
    return expressions


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


def with_one_shape(node: ast.Call) -> ast.Call:
    """Return `x.reshape(8, 8)` as `x.reshape((8, 8))`, and other calls, such as `x.reshape(shape)`, unchanged."""
    if len(node.args) < 2 or any(isinstance(argument, ast.Starred) for argument in node.args):
        return node
    shape = ast.copy_location(ast.Tuple(node.args, ast.Load()), node.args[0])
    shape.end_lineno, shape.end_col_offset = node.args[-1].end_lineno, node.args[-1].end_col_offset
    return ast.copy_location(ast.Call(node.func, [shape], node.keywords), node)


def optional(ctx: Context, arguments: Arguments, name: str) -> Value | None:
    """Return the value of an optional argument; None if the argument is missing or None."""
    if name not in arguments:
        return None
    value = ctx.evaluate(arguments[name])
    return None if is_none(value) else value


def is_none(value: Value) -> bool:
    """True if the value is Python's None."""
    return isinstance(value, Constant) and value.value is None
