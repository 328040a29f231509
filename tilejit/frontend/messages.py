"""Translation of `print`, `assert` and `tj.static_assert`."""

from __future__ import annotations

import ast
import re

from ..dtypes import bool_
from ..ir.arithmetic import build
from ..ir.nodes import Assert, Expr, Print
from ..scopes import THREAD
from .arguments import bind, optional
from .barriers import ring_number_hint
from .context import Context
from .scalars import as_scalar, truth
from .values import Constant, Items, Memory, Scalar, Value, describe, owner_scope

#: characters that a C string in UTF-8 can't contain
_UNPRINTABLE = re.compile("[\\0\ud800-\udfff]")


def print_values(ctx: Context, node: ast.Call) -> Value:
    """Translate `print(...)` with `sep=` and `end=`."""
    separators = {"sep": " ", "end": "\n"}
    for keyword in node.keywords:
        if keyword.arg not in separators:
            raise ctx.syntax_error(keyword, f"print in a kernel can't take {keyword.arg or '**'}", "use sep= and end=")
        text = ctx.constant(ctx.evaluate(keyword.value), keyword.value, f"{keyword.arg}=")
        separators[keyword.arg] = separators[keyword.arg] if text is None else str(text)
    parts: list[str | Expr] = []
    for k, argument in enumerate(node.args):
        parts.extend([separators["sep"]] if k else [])
        parts.extend(_parts(ctx, argument, ctx.evaluate(argument), quoted=False))
    parts.append(separators["end"])
    texts = _merged(parts)
    for text in texts:
        if isinstance(text, str) and _UNPRINTABLE.search(text):
            raise ctx.type_error(
                node, f"a GPU can't print {text!r}: text must be UTF-8 without the character \\0",
                "leave invalid characters out",
            )
    ctx.emit(Print(texts, ctx.span(node)))
    return Constant(None)


def _parts(ctx: Context, node: ast.AST, value: Value, *, quoted: bool) -> list[str | Expr]:
    value = as_scalar(ctx, node, value)
    if isinstance(value, Constant):
        return [repr(value.value) if quoted else str(value.value)]
    if isinstance(value, Scalar):
        return [value.expr]
    if isinstance(value, Items):
        inner: list[str | Expr] = ["("]
        for k, item in enumerate(value.items):
            inner.extend([", "] if k else [])
            inner.extend(_parts(ctx, node, item, quoted=True))
        return [*inner, ",)" if len(value.items) == 1 else ")"]
    what = f"print takes scalars, strings and tuples of these; this is {describe(value)}"
    raise ctx.type_error(node, what, _printable(node, value))


def _printable(node: ast.AST, value: Value) -> str:
    if not isinstance(value, Memory):
        return ring_number_hint(value) or "print a scalar, such as an element or the result of a call"
    if not value.is_local:
        return "index it: print(A[i, j])"
    if owner_scope(value.buffer) == THREAD.name:
        return f"index it: print({ast.unparse(node)}[{', '.join('0' for _ in value.dims)}])"
    return f"each thread can print the elements that it holds: print({ast.unparse(node)}.registers[0])"


def _merged(parts: list[str | Expr]) -> tuple[str | Expr, ...]:
    merged: list[str | Expr] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part != "":
            merged.append(part)
    return tuple(merged)


def assert_holds(ctx: Context, node: ast.Assert) -> bool:
    """Translate `assert cond, message`; always return True, even if `cond` is known to be False."""
    cond = truth(ctx, node.test, ctx.evaluate(node.test))
    if cond is True:
        return True
    message = ctx.frame.source.segment(node.test)
    if node.msg is not None:
        message = str(ctx.constant(ctx.evaluate(node.msg), node.msg, "the message of assert"))
    expr = build.const(cond, bool_) if isinstance(cond, bool) else cond
    ctx.emit(Assert(expr, message, span=ctx.span(node)))
    return True


def static_assert_holds(ctx: Context, node: ast.Call) -> Value:
    """Translate `tj.static_assert(condition, message)`."""
    arguments = bind(ctx, node, "tj.static_assert", ("condition", "message"), 1)
    condition = arguments["condition"]
    holds = truth(ctx, condition, ctx.evaluate(condition))
    if not isinstance(holds, bool):
        raise ctx.type_error(condition, "static_assert needs a condition that is known at compile time", "use assert")
    message = optional(ctx, arguments, "message")
    if not holds:
        text = "" if message is None else f": {ctx.constant(message, node, 'the message')}"
        raise ctx.type_error(node, f"static_assert failed{text}", "change the values that it tests")
    return Constant(None)
