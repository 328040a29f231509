"""Constructs whose paths join: branches, and constructs that can be left early by `break`, `continue` and `return`.

Each path ends with moves into slots (see `slots`). An exit is a placeholder until the whole enclosure has been
translated and all its exits are known. Then its statements are filled in: the moves, a flag for the loops in between,
and the `Break` itself.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from ..dtypes import bool_
from ..ir.arithmetic import build
from ..ir.nodes import FALSE, TRUE, Assign, Break, Declare, Expr, If, Loop, Stmt, Var
from ..source import Span
from .context import Context
from .flow import Construct, Draft, Enclosure, Nest
from .kinds import Kind, Same, ScalarKind, exit_kinds, merge, settled
from .scalars import as_scalar
from .slots import NameSlot, join, make_slot
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
    if reaches_yes and reaches_no:
        ctx.rebind(_joined(ctx, (yes, after_yes, span), (no, ctx.frame.env, span)))
    elif reaches_yes:
        ctx.rebind(after_yes)
        cond, yes, no = build.op("logical_not", cond), no, yes
    if reaches_yes == reaches_no:
        _emit_if(ctx, cond, yes, no, span)
    else:
        # the code after the branch follows the side that reaches it
        ctx.emit(Nest((yes,), lambda ends: If(cond, ends, (), span)))
        ctx.block.extend(no)
    return reaches_yes or reaches_no


def _emit_if(ctx: Context, cond: Expr, yes: Draft, no: Draft, span: Span) -> None:
    if yes or no:
        ctx.emit(Nest((yes, no), lambda then, orelse: If(cond, then, orelse, span)))


def _joined(
    ctx: Context, yes: tuple[Draft, dict[str, Binding], Span], no: tuple[Draft, dict[str, Binding], Span]
) -> dict[str, Binding]:
    """Return the bindings after a branch. yes, no: the block, the final bindings and the location of each side."""
    (_, a, span), (_, b, _) = yes, no
    env, slots = {**a, **b}, dict[str, NameSlot]()
    for name in [name for name in env if a.get(name) is not b.get(name)]:
        given = [side[name] for side in (a, b) if name in side]
        if len(given) == 2:
            slots[name] = make_slot(ctx, name, settled(merge(ctx, name, given)), span)
            env[name] = Binding(slots[name].value, given[0].span)
        else:
            problem = f"has a value on one path only: line {given[0].span.line} assigns it inside a branch"
            env[name] = Binding(Unset(name, problem, "assign it before the branch, or on both sides"), span)
    join(ctx, slots, (yes, no))
    return env


def chosen(
    ctx: Context, node: ast.AST, cond: Expr, then: tuple[Draft, Value], orelse: tuple[Draft, Value], name: str
) -> Value:
    """Return the value of one of two expressions, chosen by `cond`; raise KernelTypeError if the values conflict.

    then, orelse: the statements of an expression, which run only if it is chosen, and its value.
    """
    span = ctx.span(node)
    (yes, a), (no, b) = then, orelse
    sides = Binding(a, span), Binding(b, span)
    kind = settled(merge(ctx, "the value", sides))
    if isinstance(kind, Same) and isinstance(kind.value, Conflict):
        raise ctx.type_error(node, f"{kind.value.name} {kind.value.difference}", kind.value.remedy)
    if isinstance(kind, ScalarKind) and not yes and not no:
        scalars = [build.cast(ctx.scalar(as_scalar(ctx, node, v), node, kind.dtype), kind.dtype) for v in (a, b)]
        return Scalar(build.op("where", cond, *scalars))
    slot = make_slot(ctx, name, kind, span)
    join(ctx, {name: slot}, [(block, {name: side}, span) for block, side in zip((yes, no), sides, strict=True)])
    _emit_if(ctx, cond, yes, no, span)
    return slot.value


def close(
    ctx: Context, enclosure: Enclosure, block: Draft, make: Callable[[tuple[Stmt, ...]], Stmt], names: Sequence[str],
    before: Mapping[str, Binding], kinds: Mapping[str, Kind], kept: Mapping[str, NameSlot] | None = None,
) -> None:
    """Emit a translated enclosure as an IR loop, fill in its exits, and bind names for the code after it.

    names: the names that it assigns. before: the bindings at its head. kinds: from `exit_kinds`.
    kept: the slots of loop-carried names.
    """
    span = enclosure.span
    slots = dict(kept or {}) | {name: make_slot(ctx, name, kind, span) for name, kind in kinds.items()}
    enclosure.is_loop = True
    needs_flag = any(inner.is_loop for exit_ in enclosure.exits for inner in exit_.between)
    flag = Var(ctx.unique("leaving"), bool_, span=enclosure.exits[0].span) if needs_flag else None
    join(ctx, slots, [(exit_.late.block, exit_.env, exit_.span) for exit_ in enclosure.exits])
    for exit_ in enclosure.exits:
        loops, ends = [e for e in exit_.between if e.is_loop], exit_.late.block
        if loops and flag is not None:
            ends.append(Assign(flag, TRUE, exit_.span))
        if exit_.jump is not None:
            ends.append(Break(exit_.span) if loops else exit_.jump(exit_.span))
        for loop in loops:
            onward = loop.passing[enclosure].block
            if not onward and flag is not None:
                onward.append(If(flag, (Break(loop.span),), (), loop.span))
    if flag is not None:
        ctx.emit(Declare(flag, FALSE, span))
    ctx.emit(Nest((block,), make))
    for late in enclosure.passing.values():
        ctx.emit(late)
    env = dict(before)
    for name in names:
        if name in slots:
            env[name] = Binding(slots[name].typed, before[name].span if name in before else span)
        elif name not in before:
            problem = f"may have no value here: only the loop on line {span.line} assigns it"
            env[name] = Binding(Unset(name, problem, "assign it before the loop"), span)
    ctx.rebind(env)


def run_block(
    ctx: Context, node: ast.AST, construct: Construct, step: ast.AST | int, names: Sequence[str],
    body: Callable[[], bool],
) -> bool:
    """Translate a block that runs once: to straight-line code, or to a loop if it may be left early at run time.

    step: see `Enclosure`. names: the names that it assigns. body: translates it; returns True if its end is reached.
    returns: True if control can reach the statement after the block.
    """
    span = ctx.span(node)
    before = dict(ctx.frame.env)
    enclosure = Enclosure(construct, step, span, ctx.depth)
    with ctx.inside(enclosure) as block:
        reached = body()
        if reached and enclosure.exits:
            ctx.leave(enclosure, span)
    if enclosure.is_straight:
        if enclosure.exits:
            # the only exit leads to the code that follows anyway
            last = block.pop()
            assert last is enclosure.exits[0].late
        ctx.block.extend(block)
        return reached or bool(enclosure.exits)
    kinds = exit_kinds(ctx, names, before, [e.env for e in enclosure.exits])
    close(ctx, enclosure, block, lambda statements: Loop(statements, span), names, before, kinds)
    return True
