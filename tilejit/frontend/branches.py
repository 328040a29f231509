"""Branches, and the values of names after them.

An assignment binds its name to an immutable value. Names with different values on different paths are kept in slots
(see `slots`), which are written before a loop, at the end of a branch, at the end of a loop body, and before `break`,
`continue` and `return` (see `exits`). The body of a run-time loop may be translated repeatedly (see `loops`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from ..ir.arithmetic import build
from ..ir.nodes import Expr, If
from ..source import Span
from .context import Context
from .drafts import Draft, Nest
from .joins import merge
from .kinds import Same, ScalarKind, settled
from .singles import as_scalar
from .slots import Slot, make_slot, move, value_of
from .values import Binding, Conflict, Scalar, Unset, Value


def branch(ctx: Context, cond: Expr, then: Callable[[], bool], orelse: Callable[[], bool], span: Span) -> bool:
    """Translate both sides of a run-time branch; return True if control reaches the end of either side."""
    before = dict(ctx.frame.env)
    with ctx.nested() as yes:
        reaches_yes = then()
    after_yes = ctx.frame.env
    ctx.rebind(before)
    with ctx.nested() as no:
        reaches_no = orelse()
    after_no = ctx.frame.env
    if not reaches_yes and reaches_no:
        _one_side(ctx, cond, yes, no, span)
        return True
    if reaches_yes and not reaches_no:
        ctx.rebind(after_yes)
        _one_side(ctx, build.op("logical_not", cond), no, yes, span)
        return True
    if reaches_yes:
        ctx.rebind(_joined(ctx, yes, after_yes, no, after_no, span))
    _emit_if(ctx, cond, yes, no, span)
    return reaches_yes


def _emit_if(ctx: Context, cond: Expr, yes: Draft, no: Draft, span: Span) -> None:
    if yes or no:
        ctx.emit(Nest((yes, no), lambda then, orelse: If(cond, then, orelse, span)))


def _one_side(ctx: Context, cond: Expr, ends: Draft, goes_on: Draft, span: Span) -> None:
    """Emit a branch around `ends`, which doesn't reach the code after it; emit `goes_on`, the other side, after it."""
    ctx.emit(Nest((ends,), lambda then: If(cond, then, (), span)))
    ctx.block.extend(goes_on)


def _joined(
    ctx: Context, yes: Draft, a: dict[str, Binding], no: Draft, b: dict[str, Binding], span: Span
) -> dict[str, Binding]:
    env = {**a, **b}
    slots: list[tuple[Slot, Value, Value]] = []
    for name in [name for name in env if a.get(name) is not b.get(name)]:
        first, second = a.get(name), b.get(name)
        if first is None or second is None:
            given = first or second
            assert given is not None
            problem = f"has a value on one path only: line {given.span.line} assigns it inside a branch"
            env[name] = Binding(Unset(name, problem, "assign it before the branch, or on both sides"), span)
            continue
        slot = make_slot(ctx, name, settled(merge(ctx, name, (first, second))), None, span)
        slots.append((slot, first.value, second.value))
        env[name] = Binding(value_of(slot), first.span)
    with ctx.into(yes):
        move(ctx, [(slot, value) for slot, value, _ in slots], span)
    with ctx.into(no):
        move(ctx, [(slot, value) for slot, _, value in slots], span)
    return env


def choose(
    ctx: Context, node: ast.AST, cond: Expr, then: Callable[[], Value], orelse: Callable[[], Value], name: str
) -> Value:
    """Return the value of one of two expressions, chosen by `cond`; the statements of the other one don't run."""
    with ctx.nested() as yes:
        a = then()
    with ctx.nested() as no:
        b = orelse()
    return chosen(ctx, node, cond, (yes, a), (no, b), name)


def chosen(
    ctx: Context, node: ast.AST, cond: Expr, then: tuple[Draft, Value], orelse: tuple[Draft, Value], name: str
) -> Value:
    """Like `choose`, for values and the statements that compute them; raise KernelTypeError if the values conflict."""
    span = ctx.span(node)
    (yes, a), (no, b) = then, orelse
    kind = settled(merge(ctx, "the value", (Binding(a, span), Binding(b, span))))
    if isinstance(kind, Same) and isinstance(kind.value, Conflict):
        raise ctx.type_error(node, f"{kind.value.name} {kind.value.difference}", kind.value.remedy)
    if isinstance(kind, Same) and isinstance(kind.value, Unset):
        raise ctx.type_error(node, kind.value.reason, kind.value.hint)
    if isinstance(kind, ScalarKind) and not yes and not no:
        sides = [build.cast(ctx.scalar(as_scalar(ctx, node, v), node, kind.dtype), kind.dtype) for v in (a, b)]
        return Scalar(build.op("where", cond, *sides))
    slot = make_slot(ctx, name, kind, None, span)
    with ctx.into(yes):
        move(ctx, [(slot, a)], span)
    with ctx.into(no):
        move(ctx, [(slot, b)], span)
    _emit_if(ctx, cond, yes, no, span)
    return value_of(slot)
