"""What `break`, `continue` and `return` leave, and how.

Reading goes on past the place that leaves. What leaving takes there (the values of names, flags for the loops that lie
between, the `Break` itself) is written when all that is left has been read, and so all such places are in sight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ..dtypes import bool_
from ..ir.arithmetic import build
from ..ir.nodes import Assign, Break, Continue, Declare, If, Stmt, Var
from ..source import Span
from .context import Context
from .drafts import Draft, Late, Nest
from .enclosures import Enclosure, Exit, Form, Way
from .joins import merge
from .kinds import Kind, Same, outlived, settled
from .slots import Slot, move, value_of
from .values import Binding, Unset

__all__ = ["behind", "close", "exit_kinds", "innermost", "leave", "opened"]


def innermost(ctx: Context, *forms: Form) -> Enclosure | None:
    """The enclosure of one of these forms in which statements are read now."""
    return next((e for e in reversed(ctx.enclosures) if e.form in forms), None)


@contextmanager
def opened(ctx: Context, enclosure: Enclosure) -> Iterator[Draft]:
    """Read what an enclosure holds, into a block of its own."""
    ctx.enclosures.append(enclosure)
    outer, ctx.block = ctx.block, []
    # of all enclosures only a loop doesn't always run
    ctx.depth = enclosure.depth + enclosure.is_loop
    try:
        yield ctx.block
    finally:
        ctx.enclosures.pop()
        ctx.block, ctx.depth = outer, enclosure.depth


def leave(ctx: Context, enclosure: Enclosure, way: Way, span: Span) -> None:
    """End this path: leave an enclosure."""
    between = tuple(ctx.enclosures[ctx.enclosures.index(enclosure) + 1 :])
    for inner in between:
        if enclosure not in inner.passing:
            ctx.journal.put(inner.passing, enclosure, Late())
    late = Late()
    ctx.emit(late)
    ctx.journal.append(enclosure.exits, Exit(way, dict(ctx.frame.env), late, ctx.depth, between, span))


def close(
    ctx: Context,
    enclosure: Enclosure,
    block: Draft,
    make: Callable[[tuple[Stmt, ...]], Stmt],
    slots: Mapping[str, Slot],
) -> None:
    """Emit an enclosure that has been read as a loop of the IR, and write its exits, which fill `slots`."""
    enclosure.is_loop = True
    flag = Var(ctx.unique("leaving"), bool_, span=enclosure.exits[0].span) if _needs_flag(enclosure) else None
    for place in enclosure.exits:
        loops = [e for e in place.between if e.is_loop]
        with ctx.into(place.late.block):
            moved = [(slot, place.env[name].value) for name, slot in slots.items() if name in place.env]
            move(ctx, moved, place.span)
            if loops and flag is not None:
                ctx.emit(Assign(flag, build.TRUE, place.span))
            if place.way is not Way.END:
                ctx.emit(Continue(place.span) if place.way is Way.CONTINUE and not loops else Break(place.span))
        for loop in loops:
            onward = loop.passing[enclosure].block
            if not onward and flag is not None:
                onward.append(If(flag, (Break(loop.span),), (), loop.span))
    if flag is not None:
        ctx.emit(Declare(flag, build.FALSE, enclosure.span))
    ctx.emit(Nest((block,), make))
    for late in enclosure.passing.values():
        ctx.emit(late)


def _needs_flag(enclosure: Enclosure) -> bool:
    return any(inner.is_loop for place in enclosure.exits for inner in place.between)


# ---- names behind it ----------------------------------------------------------------------------------------


def exit_kinds(
    ctx: Context, names: Sequence[str], before: Mapping[str, Binding], ends: Sequence[Mapping[str, Binding]]
) -> dict[str, Kind]:
    """What names hold that have another value than before wherever paths go on behind an enclosure."""
    kinds: dict[str, Kind] = {}
    for name in names:
        if not ends or not all(name in env for env in ends):
            continue
        kind = merge(ctx, name, [env[name] for env in ends])
        if name not in before or kind != Same(before[name].value):
            kinds[name] = settled(outlived(name, kind))
    return kinds


def behind(
    names: Sequence[str], before: Mapping[str, Binding], slots: Mapping[str, Slot], span: Span
) -> dict[str, Binding]:
    """What names stand for behind an enclosure."""
    env = dict(before)
    for name in names:
        if name in slots:
            env[name] = Binding(value_of(slots[name], typed=True), before[name].span if name in before else span)
        elif name not in before:
            problem = f"may have no value here: it is assigned only inside the loop of line {span.line}"
            env[name] = Binding(Unset(name, problem, "give it a value before the loop"), span)
    return env
