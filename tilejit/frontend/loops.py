"""Run-time loops: the kinds of the names that are carried round them.

What a body emits depends on what its names hold at its head, and that is known only once the body has been read. So a
body is read on trial, with a guess: that no literal takes another type, and that nothing else changes its kind.
Where the guess proves wrong, the trial is dropped and the body read again with what it showed. An inner loop then
starts with the kinds that it ended with. So no reading is in vain: each follows from a change of some name's kind.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ..ir.nodes import Stmt
from .carried import Carried, is_literal
from .context import Context
from .enclosures import Construct, Enclosure, Way
from .exits import Inside, close, exit_kinds, leave
from .kinds import Heads, ScalarKind
from .readings import Reading, through_copies
from .slots import make_slot, value_of
from .values import Binding

__all__ = ["run_loop"]

#: a body is read at most this often, and this often more for each of its names
_READINGS = 12
_READINGS_PER_NAME = 2


def run_loop(
    ctx: Context,
    node: ast.AST,
    names: Sequence[str],
    body: Callable[[Enclosure], bool],
    make: Callable[[tuple[Stmt, ...]], Stmt],
    *,
    only_breaks: bool = False,
) -> bool:
    """Read a run-time loop.

    names: those that the body assigns. body: reads it; returns whether control reaches its end.
    make: the statement, given its body. only_breaks: it ends by `break` alone.
    returns: whether control can reach what follows.
    """
    entry = {name: ctx.frame.env[name] for name in names if name in ctx.frame.env}
    inner_names = [name for name in names if name not in entry]
    path = (*(enclosure.step for enclosure in ctx.enclosures), node)
    guess = Heads.expected({name: b.value for name, b in entry.items()}, ctx.learnt.get(path))
    for _ in range(_READINGS + _READINGS_PER_NAME * len(entry)):
        literals = ctx.converted_literals
        with ctx.trial() as trial:
            reading = _read(ctx, node, entry, guess, body, only_breaks)
            shown = reading.shown(ctx, entry)
            exits = exit_kinds(ctx, inner_names, {}, reading.ends)
            if guess.agrees(shown, literals_matter=ctx.converted_literals != literals):
                close(ctx, reading.loop, reading.block, make, names, reading.before, exits, reading.slots)
                ctx.learnt[path] = guess
                trial.keep()
                return bool(reading.ends)
            shown = through_copies(ctx, shown, entry, reading)
        guess = guess.corrected(shown)
    raise ctx.type_error(node, "the types of this loop's variables don't settle", "give them types before the loop")


def _read(
    ctx: Context,
    node: ast.AST,
    entry: Mapping[str, Binding],
    guess: Heads,
    body: Callable[[Enclosure], bool],
    only_breaks: bool,
) -> Reading:
    span = ctx.span(node)
    slots = {name: make_slot(ctx, name, kind, entry[name].value, span) for name, kind in guess.kinds.items()}
    for name, slot in slots.items():
        ctx.bind(name, Binding(value_of(slot), entry[name].span))
    before = dict(ctx.frame.env)
    loop = Enclosure(Construct.LOOP, node, span, ctx.depth, is_loop=True)
    carried = {
        name: Carried(None if kind.weak else kind.dtype)
        for name, kind in guess.kinds.items()
        if isinstance(kind, ScalarKind) and is_literal(entry[name].value)
    }
    with _carrying(ctx, carried), Inside(ctx, loop) as block:
        if body(loop):
            leave(ctx, loop, Way.END, span)
    ends = [exit_.env for exit_ in loop.by(Way.BREAK)] + ([] if only_breaks else [before])
    rounds = [exit_.env for exit_ in loop.by(Way.CONTINUE, Way.END)]
    return Reading(loop, block, slots, before, ends, rounds, carried)


@contextmanager
def _carrying(ctx: Context, carried: dict[str, Carried]) -> Iterator[None]:
    frame, outer = ctx.frame, ctx.frame.carried
    frame.carried = {**outer, **carried}
    try:
        yield
    finally:
        frame.carried = outer
    for name, inner in carried.items():
        if name in outer:
            outer[name].assigned |= inner.assigned
