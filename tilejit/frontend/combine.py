"""Combining functions of `tj.reduce`: translated once, with variables as arguments, and converted to expressions.

The translation yields statements: definitions, assignments in branches, and loops of one iteration around code that may
be left early, as by a `return` in a branch. Each path gets a condition, and an assignment becomes a selection by the
condition of its path.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NoReturn

from ..dataclass import dataclass, field, replace
from ..dtypes import DType, int64
from ..errors import KernelTypeError
from ..ir import nodes as ir
from ..ir.arithmetic import build
from ..ir.combine import Combine
from ..source import Span
from ..wording import counted, with_article
from .context import Context
from .flow import Draft, sealed
from .language import Function
from .names import closure_of, run
from .scalars import convert
from .values import Binding, Closure, Constant, Items, Memory, Scalar, Value, describe, is_number

_HINT = "it can only compute with its two arguments; do this before or after the reduction"


def read_combine(ctx: Context, node: ast.expr, value: Value, dtypes: Sequence[DType], *, is_tuple: bool) -> Combine:
    """Return the expressions that a function computes from two scalars or, if `is_tuple`, two tuples of types `dtypes`.

    raises: KernelTypeError unless `value` is a function of two arguments, with only scalar code, that returns scalars.
    """
    closure = _closure(ctx, node, value)
    names = _parameters(ctx, node, closure)
    sides = tuple(_variables(ctx, node, name, dtypes, is_tuple=is_tuple) for name in names)
    env = {
        name: Binding(_value(side, is_tuple=is_tuple), ctx.span(node)) for name, side in zip(names, sides, strict=True)
    }
    defaults = {name: Binding(value, ctx.span(node)) for name, value in closure.defaults.items()}
    block, allocated = Draft(), len(ctx.allocations)
    with ctx.into(block):
        result = run(ctx, node, closure, defaults | env)
    reading = _Reading(ctx, closure.node.name, ctx.span(node), {v.name: v for side in sides for v in side})
    if len(ctx.allocations) > allocated:
        reading.refuse("an allocation", ctx.allocations[allocated].span)
    reading.block(sealed(block), build.const(True, ir.TRUE.dtype))
    results = _results(ctx, node, closure, result, dtypes, is_tuple=is_tuple)
    lower, higher = sides
    return Combine(lower, higher, tuple(reading.steps), tuple([reading.value(expr, None) for expr in results]))


def _closure(ctx: Context, node: ast.expr, value: Value) -> Closure:
    if isinstance(value, Closure):
        return value
    if isinstance(value, Constant) and isinstance(value.value, Function):
        return closure_of(ctx, value.value)
    raise ctx.type_error(
        node, f"combine must be a @tj.function of two values; this is {describe(value)}",
        "write @tj.function above a def with two parameters, and pass its name",
    )


def _parameters(ctx: Context, node: ast.expr, closure: Closure) -> tuple[str, str]:
    a = closure.node.args
    names = [arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs) if arg.arg not in closure.defaults]
    if len(names) != 2:
        raise ctx.type_error(
            node, f"{closure.node.name} has {counted(len(names), 'parameter')} without a default; combine needs two",
            "they are the values at the lower and at the higher index; for several tiles, each is a tuple",
        )
    return names[0], names[1]


def _variables(
    ctx: Context, node: ast.AST, name: str, dtypes: Sequence[DType], *, is_tuple: bool
) -> tuple[ir.Var, ...]:
    stems = [f"{name}.{k}" for k in range(len(dtypes))] if is_tuple else [name]
    span = ctx.span(node)
    pairs = zip(stems, dtypes, strict=True)
    return tuple([ir.Var(ctx.unique(stem), dtype, span=span, data=dtype is int64) for stem, dtype in pairs])


def _value(variables: Sequence[ir.Var], *, is_tuple: bool) -> Value:
    return Items(tuple(map(Scalar, variables))) if is_tuple else Scalar(variables[0])


def _results(
    ctx: Context, node: ast.AST, closure: Closure, result: Value, dtypes: Sequence[DType], *, is_tuple: bool
) -> list[ir.Expr]:
    values = result.items if isinstance(result, Items) else (result,)
    if result == Constant(None) or isinstance(result, Items) != is_tuple or len(values) != len(dtypes):
        returns = "nothing" if result == Constant(None) else describe(result)
        wanted = f"a tuple of {counted(len(dtypes), 'value')}, one for each tile" if is_tuple else "one value"
        raise ctx.type_error(closure.node, f"{closure.node.name} returns {returns}; it must return {wanted}", _CALLED)
    results = []
    for value, dtype in zip(values, dtypes, strict=True):
        if isinstance(value, Memory) or not (isinstance(value, Scalar) or is_number(value)):
            raise ctx.type_error(
                closure.node, f"{closure.node.name} returns {describe(value)}; it must return scalars", _CALLED
            )
        is_typed = isinstance(value, Scalar) and not value.weak
        results.append(value.expr if isinstance(value, Scalar) and is_typed else convert(ctx, node, value, dtype).expr)
    return results


_CALLED = "its result is an argument of the next call"


@dataclass(slots=True)
class _Reading:
    ctx: Context
    name: str
    #: the location of the argument `combine`
    span: Span
    #: the immutable variables, by name
    known: dict[str, ir.Var]
    #: the current values of the mutable variables, by name; None before the first assignment
    changing: dict[str, ir.Expr | None] = field(default_factory=dict)
    steps: list[ir.Let] = field(default_factory=list)

    def refuse(self, what: str, span: Span | None) -> NoReturn:
        raise KernelTypeError(
            f"{self.name} combines two values; it can't contain {what}", span=span or self.span, hint=_HINT
        )

    def block(self, body: Sequence[ir.Stmt], holds: ir.Expr) -> ir.Expr:
        """Convert statements that run if `holds` is true; return the condition under which the code after them runs."""
        for stmt in body:
            holds = self.statement(stmt, holds)
        return holds

    def statement(self, stmt: ir.Stmt, holds: ir.Expr) -> ir.Expr:
        match stmt:
            case ir.Let(var, value):
                if var.uniform:
                    self.refuse("tj.uniform", stmt.span)
                if isinstance(value, ir.Load):
                    self.refuse(f"a load of {value.place.buffer.root.name}", stmt.span)
                self.steps.append(replace(stmt, value=self.value(value, stmt.span)))
                self.known[var.name] = var
            case ir.Declare(var, init):
                self.changing[var.name] = None if init is None else self.value(init, stmt.span)
            case ir.Assign(var, value):
                self.assign(var, self.value(value, stmt.span), holds, stmt)
            case ir.If():
                return self.branch(stmt, holds)
            case ir.Loop(body) if self.block(body, holds) == ir.FALSE:
                # every path leaves the loop in its first iteration, as in a helper with a `return` in a branch
                pass
            case ir.Break():
                return ir.FALSE
            case _:
                self.refuse(_STATEMENT_NAMES.get(type(stmt), with_article(type(stmt).__name__.lower())), stmt.span)
        return holds

    def branch(self, stmt: ir.If, holds: ir.Expr) -> ir.Expr:
        cond = self.named("condition", self.value(stmt.cond, stmt.span), stmt.span)
        yes = self.named("holds", build.logical_and(holds, cond), stmt.span)
        no = self.named("holds", build.logical_and(holds, build.logical_not(cond)), stmt.span)
        after = self.block(stmt.then, yes), self.block(stmt.orelse, no)
        return holds if after == (yes, no) else self.named("holds", build.logical_or(*after), stmt.span)

    def assign(self, var: ir.Var, value: ir.Expr, holds: ir.Expr, stmt: ir.Stmt) -> None:
        if var.name not in self.changing:
            self.refuse(f"an assignment to {var.name}, a variable of the kernel", stmt.span)
        before = self.changing[var.name]
        chosen = value if before is None else build.where(holds, value, before)
        self.changing[var.name] = self.named(var.name, chosen, stmt.span)

    def named(self, name: str, value: ir.Expr, span: Span | None) -> ir.Expr:
        if isinstance(value, (ir.Const, ir.Var)):
            return value
        var = ir.Var(self.ctx.unique(name), value.dtype, span=span, data=value.dtype is int64)
        self.steps.append(ir.Let(var, value, span))
        self.known[var.name] = var
        return var

    def value(self, expr: ir.Expr, span: Span | None) -> ir.Expr:
        if isinstance(expr, ir.Load):
            self.refuse(f"a load of {expr.place.buffer.root.name}", expr.span or span)
        if isinstance(expr, ir.Special):
            self.refuse(f"{expr.name}, a special register", expr.span or span)
        if isinstance(expr, ir.Var):
            return self.variable(expr, span)
        if isinstance(expr, ir.Op):
            return replace(expr, args=tuple([self.value(arg, span) for arg in expr.args]))
        return replace(expr, x=self.value(expr.x, span)) if isinstance(expr, ir.Cast) else expr

    def variable(self, var: ir.Var, span: Span | None) -> ir.Expr:
        if var.name in self.known:
            return self.known[var.name]
        value = self.changing.get(var.name)
        if value is None:
            self.refuse(f"{var.name}, a run-time value of the kernel", var.span if span is None else span)
        return value


_STATEMENT_NAMES: dict[type[ir.Stmt], str] = {
    ir.For: "a loop",
    ir.Loop: "a loop",
    ir.TileOp: "a tile operation",
    ir.Print: "a print",
    ir.Assert: "an assert",
    ir.Sync: "a barrier",
    ir.Arrive: "an arrival at a barrier",
    ir.WaitPhase: "a wait at a barrier",
    ir.Expect: "a barrier",
    ir.Atomic: "an atomic operation",
    ir.Instruction: "an operation such as a shuffle, a barrier or a fence",
}
