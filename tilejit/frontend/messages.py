"""Translation of `assert` and `tj.static_assert`."""

from __future__ import annotations

import ast

from ..dtypes import bool_
from ..ir.arithmetic import build
from ..ir.nodes import Assert
from .arguments import bind, optional
from .context import Context
from .scalars import truth
from .values import Constant, Value


def assert_holds(ctx: Context, node: ast.Assert) -> bool:
    """Translate `assert cond, message`; always return True, even if `cond` is known to be False."""
    cond = truth(ctx, _no_tuple(ctx, node.test), ctx.evaluate(node.test))
    if cond is True:
        return True
    message = ctx.frame.source.segment(node.test)
    if node.msg is not None:
        message = str(ctx.constant(ctx.evaluate(node.msg), node.msg, "the message of assert"))
    expr = build.const(cond, bool_) if isinstance(cond, bool) else cond
    ctx.emit(Assert(expr, message, span=ctx.span(node)))
    return True


def _no_tuple(ctx: Context, condition: ast.expr) -> ast.expr:
    """Return the condition; raise KernelTypeError if it is written as a tuple of values, which is always true."""
    if isinstance(condition, ast.Tuple) and condition.elts:
        raise ctx.type_error(condition, "a tuple of values is always true", "write assert condition, message")
    return condition


def static_assert_holds(ctx: Context, node: ast.Call) -> Value:
    """Translate `tj.static_assert(condition, message)`."""
    arguments = bind(ctx, node, "tj.static_assert", ("condition", "message"), 1)
    condition = _no_tuple(ctx, arguments["condition"])
    holds = truth(ctx, condition, ctx.evaluate(condition))
    if not isinstance(holds, bool):
        raise ctx.type_error(condition, "static_assert needs a condition that is known at compile time", "use assert")
    message = optional(ctx, arguments, "message")
    if not holds:
        text = "" if message is None else f": {ctx.constant(message, node, 'the message')}"
        raise ctx.type_error(node, f"static_assert failed{text}", "change the values that it tests")
    return Constant(None)
