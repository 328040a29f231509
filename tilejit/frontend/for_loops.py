"""`for`: over a range at run time, or unrolled over `tj.static_range` or a tuple."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from math import gcd

from ..dtypes import int32, promote
from ..ir.arithmetic import build, facts
from ..ir.nodes import Const, Expr, For, Var
from .assignments import assign_to
from .blocks import run_block
from .context import Context
from .enclosures import Construct, Enclosure
from .language import Intrinsic
from .loops import run_loop
from .source import assigned_names
from .values import Binding, Constant, Items, Scalar, Unset, Value, describe

__all__ = ["for_loop"]

_MAX_UNROLLED = 4096


def for_loop(ctx: Context, node: ast.For) -> bool:
    """`for target in range(...)`, `tj.static_range(...)` or a tuple."""
    if not isinstance(node.iter, ast.Call):
        return _over_tuple(ctx, node, ctx.evaluate(node.iter))
    callee = ctx.evaluate(node.iter.func)
    function = callee.value if isinstance(callee, Constant) else None
    if function is range:
        return _range_loop(ctx, node, _range(ctx, node.iter))
    if isinstance(function, Intrinsic) and function.name == "static_range":
        return _static_loop(ctx, node, _static_range(ctx, node.iter))
    raise _not_iterable(ctx, node.iter)


def _not_iterable(ctx: Context, node: ast.expr) -> Exception:
    return ctx.syntax_error(
        node, "a for loop goes over range(...), tj.static_range(...) or a tuple",
        "loop over tj.static_range(len(x)) and index",
    )


def _over_tuple(ctx: Context, node: ast.For, value: Value) -> bool:
    """A tuple's items, unrolled."""
    if not isinstance(value, Items):
        raise _not_iterable(ctx, node.iter)
    if len(value.items) > _MAX_UNROLLED:
        raise ctx.type_error(
            node.iter,
            f"a loop over a tuple writes its body out {len(value.items)} times; the limit is {_MAX_UNROLLED}",
            "loop over range(...)",
        )
    return _static_loop(ctx, node, value.items)


def _range_arguments(ctx: Context, node: ast.Call, what: str) -> list[Value]:
    if node.keywords or not 1 <= len(node.args) <= 3 or any(isinstance(a, ast.Starred) for a in node.args):
        raise ctx.type_error(node, f"{what} takes stop, or start and stop, or start, stop and step", "as in Python")
    values = [ctx.evaluate(argument) for argument in node.args]
    if len(values) == 1:
        values.insert(0, Constant(0))
    return values if len(values) == 3 else [*values, Constant(1)]


def _range(ctx: Context, node: ast.Call) -> tuple[Expr, Expr, Expr]:
    """Start, stop and step of a run-time range, of one integer type."""
    values = _range_arguments(ctx, node, "range")
    typed = [v.dtype for v in values if isinstance(v, Scalar) and not v.weak]
    for value in values:
        integral = isinstance(value, Constant) and type(value.value) is int
        if not integral and not (isinstance(value, Scalar) and value.dtype.is_integer):
            raise ctx.type_error(node, f"range takes integers; this is {describe(value)}", "convert it: int(x)")
    dtype = int32
    for other in typed:
        dtype = other if dtype is int32 and other is typed[0] else promote(dtype, other)
    if isinstance(values[2], Constant) and values[2].value == 0:
        raise ctx.type_error(node, "range with a step of 0 doesn't end", "give a step other than 0")
    for value in values:
        ctx.takes_type(value, dtype)
    start, stop, step = (
        ctx.literal(v.value, dtype, node) if isinstance(v, Constant) else build.cast(v.expr, dtype)  # type: ignore[union-attr]
        for v in values
    )
    return start, stop, step


def _range_loop(ctx: Context, node: ast.For, limits: tuple[Expr, Expr, Expr]) -> bool:
    if not isinstance(node.target, ast.Name):
        raise ctx.syntax_error(node.target, "the variable of a range loop is one name", "write for i in range(...)")
    span, name = ctx.span(node), node.target.id
    start, stop, step = (ctx.let(f"{name}.{what}", e, span) for what, e in zip(_ENDS, limits, strict=True))
    constants = [int(e.value) for e in limits if isinstance(e, Const)]
    if len(constants) == len(limits) and not range(*constants):
        return True
    made: list[Var] = []

    def body(_: Enclosure) -> bool:
        made.append(_loop_var(ctx, node.target, name, start, stop, step))
        ctx.bind(name, Binding(Scalar(made[-1]), ctx.span(node.target)))
        return ctx.execute(node.body)

    before = ctx.frame.env.get(name)
    names = sorted(assigned_names(node) - {name})
    reached = run_loop(
        ctx, node, names, body, lambda block: For(made[-1], start, stop, step, block, False, span)
    )
    problem = f"has no value behind its loop (line {span.line})"
    unset = Unset(name, problem, "copy it to another name inside the loop")
    ctx.bind(name, Binding(unset, before.span if before else span))
    return reached


_ENDS = ("start", "stop", "step")


def _loop_var(ctx: Context, node: ast.AST, name: str, start: Expr, stop: Expr, step: Expr) -> Var:
    """The index; its multiple and bounds come from the range."""
    multiple = gcd(facts.multiple_of(start), facts.multiple_of(step))
    (first, after), (low, high) = facts.bounds(start), facts.bounds(stop)
    bounds: tuple[int, int] | None = None
    rising = not isinstance(step, Const) or step.value > 0
    if rising and first is not None and high is not None:
        bounds = (first, max(high - 1, first))
    if not rising and after is not None and low is not None:
        bounds = (min(low + 1, after), after)
    return Var(ctx.unique(name), start.dtype, multiple, bounds, ctx.span(node))


def _static_range(ctx: Context, node: ast.Call) -> Sequence[Value]:
    values = _range_arguments(ctx, node, "tj.static_range")
    limits = [ctx.integer(v, node, "a limit of tj.static_range") for v in values]
    if limits[2] == 0:
        raise ctx.type_error(node, "tj.static_range with a step of 0 doesn't end", "give a step other than 0")
    count = -((limits[0] - limits[1]) // limits[2])
    if count > _MAX_UNROLLED:
        raise ctx.type_error(
            node, f"tj.static_range writes its body out {count} times; the limit is {_MAX_UNROLLED}",
            "loop over range(...)",
        )
    return [Constant(i) for i in range(*limits)]


def _static_loop(ctx: Context, node: ast.For, items: Sequence[Value]) -> bool:
    """An unrolled loop: `break` leaves the loop, `continue` leaves one round of it."""
    names = sorted(assigned_names(node))

    def rounds() -> bool:
        for k, item in enumerate(items):
            assign_to(ctx, node.target, item)
            if not run_block(ctx, node, Construct.ITERATION, k, names, lambda: ctx.execute(node.body)):
                return False
        return True

    return run_block(ctx, node, Construct.STATIC, node, names, rounds)
