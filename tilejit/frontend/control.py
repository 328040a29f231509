"""Branches and blocks: what runs under which condition, and how names come out of it.

Inside a body every name stands for a value that doesn't change; names that differ between paths are kept in slots
(see `slots`), which are written where a path ends: at the end of a branch, at the end of a loop's body, and before
`break` and `continue` (see `exits`). Each text is read once; only a run-time loop may be read again (see `loops`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from ..ir.arithmetic import build
from ..ir.nodes import Expr, If, Loop
from ..source import Span
from .context import Context
from .drafts import Draft, Nest
from .enclosures import Enclosure, Form, Way
from .exits import behind, close, exit_kinds, leave, opened
from .joins import merge
from .kinds import Same, ScalarKind, settled
from .slots import Slot, move, place, value_of
from .values import Binding, Conflict, Scalar, Unset, Value

__all__ = ["branch", "choose", "chosen", "run_block"]


# ---- branches -----------------------------------------------------------------------------------------------


def branch(
    ctx: Context, cond: Expr, then: Callable[[], bool], orelse: Callable[[], bool], span: Span
) -> bool:
    """Read both sides of a run-time condition; returns whether control reaches the end of either."""
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
    """A branch that ends its path: what the other side does follows it, so that its names are in sight."""
    ctx.emit(Nest((ends,), lambda then: If(cond, then, (), span)))
    ctx.block.extend(goes_on)


def _joined(
    ctx: Context, yes: Draft, a: dict[str, Binding], no: Draft, b: dict[str, Binding], span: Span
) -> dict[str, Binding]:
    env: dict[str, Binding] = {}
    slots: list[tuple[Slot, Value, Value]] = []
    for name in (*a, *(n for n in b if n not in a)):
        if name not in a or name not in b:
            env[name] = Binding(_one_sided(name, (a.get(name) or b[name]).span), span)
            continue
        if a[name] is b[name]:
            env[name] = a[name]
            continue
        slot = place(ctx, name, settled(merge(ctx, name, (a[name], b[name]))), None, span)
        slots.append((slot, a[name].value, b[name].value))
        env[name] = Binding(value_of(slot), a[name].span)
    with ctx.into(yes):
        move(ctx, [(slot, value) for slot, value, _ in slots], span)
    with ctx.into(no):
        move(ctx, [(slot, value) for slot, _, value in slots], span)
    return env


def _one_sided(name: str, span: Span) -> Unset:
    problem = f"has a value on one path only: it is assigned at line {span.line}, inside a branch"
    return Unset(name, problem, "give it a value before the branch, or on both sides")


def choose(
    ctx: Context, node: ast.AST, cond: Expr, then: Callable[[], Value], orelse: Callable[[], Value], name: str
) -> Value:
    """The value of one of two expressions, of which only the chosen one is evaluated."""
    with ctx.nested() as yes:
        a = then()
    with ctx.nested() as no:
        b = orelse()
    return chosen(ctx, node, cond, (yes, a), (no, b), name)


def chosen(
    ctx: Context, node: ast.AST, cond: Expr, then: tuple[Draft, Value], orelse: tuple[Draft, Value], name: str
) -> Value:
    """As `choose`, of expressions that have been read: each with what its evaluation emitted."""
    span = ctx.span(node)
    (yes, a), (no, b) = then, orelse
    kind = settled(merge(ctx, "the value", (Binding(a, span), Binding(b, span))))
    if isinstance(kind, Same) and isinstance(kind.value, Conflict):
        raise ctx.type_error(node, f"{kind.value.name} {kind.value.difference}", kind.value.remedy)
    if isinstance(kind, Same) and isinstance(kind.value, Unset):
        raise ctx.type_error(node, kind.value.reason, kind.value.hint)
    if isinstance(kind, ScalarKind) and not yes and not no:
        sides = [build.cast(ctx.scalar(v, node, kind.dtype), kind.dtype) for v in (a, b)]
        return Scalar(build.op("where", cond, *sides))
    slot = place(ctx, name, kind, None, span)
    with ctx.into(yes):
        move(ctx, [(slot, a)], span)
    with ctx.into(no):
        move(ctx, [(slot, b)], span)
    _emit_if(ctx, cond, yes, no, span)
    return value_of(slot)


# ---- blocks: run once, may be left early --------------------------------------------------------------------


def run_block(
    ctx: Context,
    node: ast.AST,
    form: Form,
    step: ast.AST | int,
    names: Sequence[str],
    body: Callable[[], bool],
) -> bool:
    """Read statements that run once: straight code, or a loop that ends in `Break` where run-time conditions leave it.

    step: see `Enclosure`. names: those that the body assigns. body: reads it; returns whether control reaches its end.
    returns: whether control can reach what follows.
    """
    span = ctx.span(node)
    before = dict(ctx.frame.env)
    enclosure = Enclosure(form, step, span, ctx.depth)
    with opened(ctx, enclosure) as block:
        reached = body()
        if reached and enclosure.exits:
            leave(ctx, enclosure, Way.BREAK, span)
    if enclosure.is_straight:
        if enclosure.exits:
            # what follows the only exit is what follows the block
            last = block.pop()
            assert last is enclosure.exits[0].late
        ctx.block.extend(block)
        return reached or bool(enclosure.exits)
    kinds = exit_kinds(ctx, names, before, [e.env for e in enclosure.exits])
    slots = {name: place(ctx, name, kind, None, span) for name, kind in kinds.items()}
    close(ctx, enclosure, block, lambda statements: Loop(statements, span), slots)
    ctx.rebind(behind(names, before, slots, span))
    return True
