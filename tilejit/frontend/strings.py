"""f-strings of compile-time values."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from .context import Context
from .scalars import fold
from .values import Scalar, Value, describe, from_python

__all__ = ["F_STRINGS"]


def _joined(ctx: Context, node: ast.JoinedStr) -> Value:
    parts = [str(ctx.constant(ctx.evaluate(part), part, "an f-string's part")) for part in node.values]
    return from_python("".join(parts))


def _formatted(ctx: Context, node: ast.FormattedValue) -> Value:
    shown = ctx.evaluate(node.value)
    if isinstance(shown, Scalar):
        raise ctx.type_error(
            node.value, f"f-strings take only compile-time values; this is {describe(shown)}",
            "pass the value to print: print('x =', x)",
        )
    value = ctx.constant(shown, node.value, "a value in an f-string")
    spec = "" if node.format_spec is None else ctx.constant(ctx.evaluate(node.format_spec), node, "a format")
    converted = {115: str(value), 114: repr(value), 97: ascii(value)}.get(node.conversion, value)
    text = fold(ctx, node, format, (from_python(converted), from_python(spec)))
    assert text is not None
    return text


F_STRINGS: dict[type[ast.expr], Callable[[Context, Any], Value]] = {
    ast.JoinedStr: _joined,
    ast.FormattedValue: _formatted,
}
