"""Operations among the lanes of a warp: shuffles, votes, `tj.elect` and `tj.uniform`."""

from __future__ import annotations

import ast

from ..dtypes import DType, bool_, int32, int64, uint32
from ..ir.arithmetic import build
from ..ir.arithmetic.facts import flagged
from ..ir.nodes import Expr, Instruction, Let, Special, Var
from ..isa.warp import SHUFFLE, VOTE, Shuffle
from ..scopes import SCOPES, THREAD
from ..target import WARP as WARP_THREADS
from .arguments import Arguments, Handler
from .context import ELECTED, Context
from .scalars import condition
from .singles import as_scalar
from .values import Memory, Scalar, Value, describe
from .words import SHUFFLES, VOTES, ScopeNamespace


def _shuffle(name: str) -> Handler:
    mode, by, _ = SHUFFLES[name]

    def handler(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
        value = _scalar(ctx, arguments["x"], name)
        row = SHUFFLE.row(Shuffle(mode, 2 if value.dtype.bits == 64 else 1))
        other = as_scalar(ctx, arguments[by], ctx.evaluate(arguments[by]))
        lane = ctx.scalar(other, arguments[by], int32, f"{by}, an integer,")
        if not lane.dtype.is_integer:
            raise ctx.type_error(arguments[by], f"{by} must be an integer; this is {describe(other)}", "use int(x)")
        return _given(ctx, node, row.name, name, (value, build.cast(lane, int32)), value.dtype)

    return handler


def _vote(name: str) -> Handler:
    kind, _ = VOTES[name]
    row, dtype = VOTE[kind], uint32 if kind == "ballot" else bool_

    def handler(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
        argument = arguments["condition"]
        return _given(ctx, node, row.name, name, (condition(ctx, argument, ctx.evaluate(argument)),), dtype)

    return handler


def _elect(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.elect()`, which is true in one lane of each warp, elected at the kernel's entry.

    All lanes are active there, so the call may be in any branch. On targets before sm_90, and in CTAs with a partial
    warp, it is true in lane 0 instead.
    """
    if not ctx.target.has_barriers or ctx.threads % WARP_THREADS:
        return Scalar(build.op("equal", Special("lane_id", ctx.span(node)), build.const(0, int32)))
    ctx.elects = True
    return Scalar(ELECTED)


def _uniform(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    value = _scalar(ctx, arguments["x"], "uniform")
    named = ctx.constant(ctx.evaluate(arguments["scope"]), arguments["scope"], "the scope")
    scope = named.scope if isinstance(named, ScopeNamespace) else SCOPES.get(named) if isinstance(named, str) else None
    if scope is None or scope is THREAD:
        scopes = ", ".join(f"tj.{name}" for name in SCOPES if name != THREAD.name)
        raise ctx.type_error(arguments["scope"], f"{named!r} is not a scope of several threads", f"use one of {scopes}")
    if not value.dtype.is_integer and value.dtype != bool_:
        raise ctx.type_error(
            arguments["x"], f"tj.uniform takes an integer or a bool_; this is {value.dtype}",
            "apply it to a condition: tj.uniform(x > 0, tj.warp)",
        )
    span, of = ctx.span(node), value if isinstance(value, Var) else None
    facts = (1, None) if of is None else (of.multiple_of, of.bounds)
    data = value.dtype.is_integer and flagged(value, facts[1])
    var = Var(ctx.unique("uniform"), value.dtype, *facts, span, scope.name, data)
    ctx.emit(Let(var, value, span))
    return Scalar(var)


def _given(ctx: Context, node: ast.Call, instruction: str, name: str, inputs: tuple[Expr, ...], dtype: DType) -> Scalar:
    span = ctx.span(node)
    var = Var(ctx.unique(name), dtype, span=span, data=dtype is int64)
    ctx.emit(Instruction(instruction, (), inputs, span, var))
    return Scalar(var)


def _scalar(ctx: Context, node: ast.expr, name: str) -> Expr:
    value = as_scalar(ctx, node, ctx.evaluate(node))
    if isinstance(value, Memory):
        raise ctx.type_error(
            node, f"tj.{name} takes one scalar per thread; this is {describe(value)}", "take an element of x.registers"
        )
    return ctx.scalar(value, node)


LANE_CALLS: dict[str, Handler] = {
    **{name: _shuffle(name) for name in SHUFFLES},
    **{name: _vote(name) for name in VOTES},
    "elect": _elect,
    "uniform": _uniform,
}
