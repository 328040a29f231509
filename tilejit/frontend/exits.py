"""Exits (`break`, `continue` and `return`), and blocks that run once and may be left early.

An exit is a placeholder until the whole enclosure has been translated and all its exits are known. Then its statements
are filled in: moves into slots, a flag for the loops in between, and the `Break` itself.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from ..dataclass import dataclass, field
from ..dtypes import bool_
from ..ir.nodes import FALSE, TRUE, Assign, Break, Continue, Declare, If, Loop, Stmt, Var
from ..source import Span
from .context import Context
from .drafts import Draft, Late, Nest
from .enclosures import Construct, Enclosure, Exit, Way
from .joins import merge
from .kinds import Kind, Same, settled
from .memory_joins import kind_outside
from .slots import Slot, make_slot, move, value_of
from .values import Binding, Unset


def innermost(ctx: Context, *constructs: Construct) -> Enclosure | None:
    """Return the innermost enclosure of one of these kinds; None if the current position is in none of them."""
    return next((e for e in reversed(ctx.enclosures) if e.construct in constructs), None)


@dataclass(slots=True)
class Inside:
    """Context manager that translates the contents of an enclosure into a separate block."""

    ctx: Context
    enclosure: Enclosure
    outer: Draft = field(init=False)

    def __enter__(self) -> Draft:
        ctx = self.ctx
        ctx.enclosures.append(self.enclosure)
        self.outer, ctx.block = ctx.block, []
        # only the body of a run-time loop is conditional
        ctx.depth = self.enclosure.depth + self.enclosure.is_loop
        return ctx.block

    def __exit__(self, *_: object) -> None:
        self.ctx.enclosures.pop()
        self.ctx.block, self.ctx.depth = self.outer, self.enclosure.depth


def leave(ctx: Context, enclosure: Enclosure, way: Way, span: Span) -> None:
    """Record an exit from an enclosure at the current position, with a placeholder for its statements."""
    between = tuple(ctx.enclosures[ctx.enclosures.index(enclosure) + 1 :])
    for inner in between:
        if enclosure not in inner.passing:
            ctx.journal.put(inner.passing, enclosure, Late())
    late = Late()
    ctx.emit(late)
    ctx.journal.append(enclosure.exits, Exit(way, dict(ctx.frame.env), late, ctx.depth, between, span))


def close(
    ctx: Context, enclosure: Enclosure, block: Draft, make: Callable[[tuple[Stmt, ...]], Stmt], names: Sequence[str],
    before: Mapping[str, Binding], kinds: Mapping[str, Kind], kept: Mapping[str, Slot] | None = None,
) -> None:
    """Emit a translated enclosure as an IR loop, fill in its exits, and bind names for the code after it.

    names: the names that it assigns. before: the bindings at its head. kinds: from `exit_kinds`.
    kept: the slots of loop-carried names.
    """
    span = enclosure.span
    slots = dict(kept or {}) | {name: make_slot(ctx, name, kind, None, span) for name, kind in kinds.items()}
    enclosure.is_loop = True
    needs_flag = any(inner.is_loop for exit_ in enclosure.exits for inner in exit_.between)
    flag = Var(ctx.unique("leaving"), bool_, span=enclosure.exits[0].span) if needs_flag else None
    for exit_ in enclosure.exits:
        loops = [e for e in exit_.between if e.is_loop]
        with ctx.into(exit_.late.block):
            moved = [(slot, exit_.env[name].value) for name, slot in slots.items() if name in exit_.env]
            move(ctx, moved, exit_.span)
            if loops and flag is not None:
                ctx.emit(Assign(flag, TRUE, exit_.span))
            if exit_.way is not Way.END:
                ctx.emit(Continue(exit_.span) if exit_.way is Way.CONTINUE and not loops else Break(exit_.span))
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
            env[name] = Binding(value_of(slots[name], typed=True), before[name].span if name in before else span)
        elif name not in before:
            problem = f"may have no value here: only the loop on line {span.line} assigns it"
            env[name] = Binding(Unset(name, problem, "assign it before the loop"), span)
    ctx.rebind(env)


def exit_kinds(
    ctx: Context, names: Sequence[str], before: Mapping[str, Binding], ends: Sequence[Mapping[str, Binding]]
) -> dict[str, Kind]:
    """Return the kinds of the names that an enclosure changes and that all `ends` bind.

    ends: the bindings on each path to the code after the enclosure.
    """
    kinds: dict[str, Kind] = {}
    for name in names:
        if not ends or not all(name in env for env in ends):
            continue
        kind = merge(ctx, name, [env[name] for env in ends])
        if name not in before or kind != Same(before[name].value):
            kinds[name] = settled(kind_outside(ctx, name, kind, ends[0][name]))
    return kinds


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
    with Inside(ctx, enclosure) as block:
        reached = body()
        if reached and enclosure.exits:
            leave(ctx, enclosure, Way.BREAK, span)
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
