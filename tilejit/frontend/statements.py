"""Translation of statements, one function per kind; each returns True if control may reach the next statement."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from ..ir.nodes import Break, Continue, Return
from .assignments import annotated, assign, augmented, named
from .context import Context
from .flow import Construct, innermost
from .joins import branch
from .loops import for_loop, while_loop
from .messages import assert_holds
from .names import RESULT, make_closure
from .scalars import truth
from .values import Binding, Constant


def _if(ctx: Context, node: ast.If) -> bool:
    cond = truth(ctx, node.test, ctx.evaluate(node.test))
    if isinstance(cond, bool):
        return ctx.execute(node.body if cond else node.orelse)
    return branch(ctx, cond, lambda: ctx.execute(node.body), lambda: ctx.execute(node.orelse), ctx.span(node.test))


def _break_or_continue(ctx: Context, node: ast.Break | ast.Continue) -> bool:
    """Translate `break` or `continue` in the innermost loop; in an unrolled loop, `continue` leaves the iteration."""
    unrolled = Construct.STATIC if isinstance(node, ast.Break) else Construct.ITERATION
    loop = innermost(ctx.enclosures, Construct.LOOP, unrolled)
    assert loop is not None
    goes_on = isinstance(node, ast.Continue) and loop.construct is Construct.LOOP
    ctx.leave(loop, ctx.span(node), Continue if goes_on else Break)
    return False


def _return(ctx: Context, node: ast.Return) -> bool:
    function = innermost(ctx.enclosures, Construct.FUNCTION)
    if function is None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            raise ctx.syntax_error(node.value, "kernels return no value", "store the result in an array argument")
        ctx.emit(Return(ctx.span(node)))
        return False
    value = Constant(None) if node.value is None else ctx.evaluate(node.value)
    result = named(ctx, node, ctx.frame.node.name, value)
    ctx.frame.env[RESULT] = Binding(result, ctx.span(node))
    ctx.leave(function, ctx.span(node))
    return False


def _expression(ctx: Context, node: ast.Expr) -> bool:
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return True
    ctx.evaluate(node.value)
    return True


def _nested_function(ctx: Context, node: ast.FunctionDef) -> bool:
    for decorator in node.decorator_list:
        value = ctx.evaluate(decorator)
        if getattr(getattr(value, "value", None), "__name__", "") != "function":
            raise ctx.syntax_error(decorator, "only @tj.function can decorate a nested function", "remove this one")
    ctx.frame.env[node.name] = Binding(make_closure(ctx, node), ctx.span(node))
    return True


STATEMENTS: dict[type[ast.stmt], Callable[[Context, Any], bool]] = {
    **dict.fromkeys(ast.stmt.__subclasses__(), Context.refuse),
    ast.Assign: assign,
    ast.AnnAssign: annotated,
    ast.AugAssign: augmented,
    ast.If: _if,
    ast.While: while_loop,
    ast.For: for_loop,
    ast.Break: _break_or_continue,
    ast.Continue: _break_or_continue,
    ast.Return: _return,
    ast.Expr: _expression,
    ast.Assert: assert_holds,
    ast.Pass: lambda ctx, node: True,
    ast.FunctionDef: _nested_function,
}
