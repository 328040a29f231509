"""Translation of expressions, one function per kind of syntax."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from ..ir.arithmetic import build
from . import names
from .attributes import attribute
from .calls import call
from .context import Context
from .flow import Draft
from .joins import chosen
from .loops import comprehension
from .operators import binary, comparison, unary
from .regions import loaded
from .scalars import fold, truth
from .values import Constant, Items, Scalar, Value, describe, from_python


def _constant(ctx: Context, node: ast.Constant) -> Value:
    if isinstance(node.value, (complex, bytes)):
        raise ctx.syntax_error(node, f"{node.value!r} can't be used in a kernel", "use integers and floats")
    if node.value is Ellipsis:
        raise ctx.syntax_error(node, "... can't be used in a kernel", "write : for each dimension, or pass as a body")
    return names.captured(ctx, node, node.value)


def _compared(
    ctx: Context, node: ast.Compare, left: Value, ops: Sequence[ast.cmpop], rights: Sequence[ast.expr]
) -> Value:
    right = ctx.evaluate(rights[0])
    first = comparison(ctx, node, ops[0], left, right)
    if len(rights) == 1:
        return first
    return _short_circuit(ctx, node, first, lambda: _compared(ctx, node, right, ops[1:], rights[1:]), stops_on=False)


def _combined(ctx: Context, node: ast.BoolOp, operands: Sequence[ast.expr]) -> Value:
    first, *others = operands
    value = ctx.evaluate(first)
    if not others:
        return value
    return _short_circuit(ctx, node, value, lambda: _combined(ctx, node, others), stops_on=isinstance(node.op, ast.Or))


def _short_circuit(ctx: Context, node: ast.AST, left: Value, right: Callable[[], Value], *, stops_on: bool) -> Value:
    """Translate `or` if `stops_on`, else `and`; the statements of the right side run only if its value is needed."""
    cond = truth(ctx, node, left)
    if isinstance(cond, bool):
        return left if cond is stops_on else right()
    with ctx.nested() as block:
        second = right()
    if not block and _is_bool(left) and _is_bool(second):
        other = truth(ctx, node, second)
        expr = build.const(other, cond.dtype) if isinstance(other, bool) else other
        return Scalar(build.op("logical_or" if stops_on else "logical_and", cond, expr))
    stopped: tuple[Draft, Value] = ([], left)
    sides = (stopped, (block, second)) if stops_on else ((block, second), stopped)
    return chosen(ctx, node, cond, *sides, name="holds")


def _is_bool(value: Value) -> bool:
    if isinstance(value, Scalar):
        return value.dtype.kind == "bool"
    return isinstance(value, Constant) and isinstance(value.value, bool)


def _conditional(ctx: Context, node: ast.IfExp) -> Value:
    cond = truth(ctx, node.test, ctx.evaluate(node.test))
    if isinstance(cond, bool):
        return ctx.evaluate(node.body if cond else node.orelse)
    with ctx.nested() as yes:
        then = ctx.evaluate(node.body)
    with ctx.nested() as no:
        orelse = ctx.evaluate(node.orelse)
    return chosen(ctx, node, cond, (yes, then), (no, orelse), ctx.hint or "chosen")


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


EXPRESSIONS: dict[type[ast.expr], Callable[[Context, Any], Value]] = {
    **dict.fromkeys(ast.expr.__subclasses__(), Context.refuse),
    ast.Constant: _constant,
    ast.Name: names.lookup,
    ast.Attribute: attribute,
    ast.Subscript: loaded,
    ast.Tuple: lambda ctx, node: Items(tuple([ctx.evaluate(item) for item in node.elts])),
    ast.BinOp: lambda ctx, node: binary(ctx, node, node.op, ctx.evaluate(node.left), ctx.evaluate(node.right)),
    ast.UnaryOp: lambda ctx, node: unary(ctx, node, ctx.evaluate(node.operand)),
    ast.Compare: lambda ctx, node: _compared(ctx, node, ctx.evaluate(node.left), node.ops, node.comparators),
    ast.BoolOp: lambda ctx, node: _combined(ctx, node, node.values),
    ast.IfExp: _conditional,
    ast.Call: call,
    ast.Lambda: names.make_closure,
    **dict.fromkeys((ast.ListComp, ast.GeneratorExp), comprehension),
    ast.JoinedStr: _joined,
    ast.FormattedValue: _formatted,
}
