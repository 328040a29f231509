"""Run-time loops: the kinds of the names that are carried round them.

What a body emits depends on what its names hold at its head, and that is known only once the body has been read. So a
body is read on trial, with a guess: that no literal takes another type, and that nothing else changes its kind.
Where the guess proves wrong, the trial is dropped and the body read again with what it showed. A loop inside begins
then with the kinds that it ended with, so that each reading anywhere answers a change that was found somewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..ir.nodes import Expr, Stmt, Var
from .context import Context
from .drafts import Draft
from .enclosures import Enclosure, Form, Way
from .exits import behind, close, exit_kinds, leave, opened
from .joins import merge
from .kinds import Heads, ItemsKind, Kind, Same, ScalarKind, kind_of
from .slots import ScalarSlot, Slot, place, value_of
from .values import Binding, Items, Scalar, Unset, Value

__all__ = ["run_loop"]

#: how often a body is read at most: so often, and so often more for each name
_READINGS = 12
_READINGS_PER_NAME = 2


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading a loop's body once gave.

    slots: where its names are kept round by round. before: what names stand for at its head.
    ends: what they stand for wherever what follows the loop is reached; rounds: where the next round is.
    """

    loop: Enclosure
    block: Draft
    slots: Mapping[str, Slot]
    before: Mapping[str, Binding]
    ends: Sequence[Mapping[str, Binding]]
    rounds: Sequence[Mapping[str, Binding]]

    def changes(self, name: str) -> list[Binding]:
        """What a name stands for wherever a round ends with another value than it began with."""
        head = value_of(self.slots[name])
        # a value that is as at the head is the one before the loop, but what has no value there stays without
        kept = None if isinstance(head, Unset) else head
        return [env[name] for env in (*self.rounds, *self.ends) if env[name].value != kept]


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
    span = ctx.span(node)
    entry = {name: ctx.frame.env[name] for name in names if name in ctx.frame.env}
    inner_names = [name for name in names if name not in entry]
    path = (*(enclosure.step for enclosure in ctx.enclosures), node)
    guess = _first_guess(entry, ctx.learnt.get(path))
    for _ in range(_READINGS + _READINGS_PER_NAME * len(entry)):
        literals = ctx.converted_literals
        with ctx.trial() as trial:
            reading = _read(ctx, node, entry, guess, body, only_breaks)
            shown = {name: merge(ctx, name, [entry[name], *reading.changes(name)]) for name in entry}
            exits = exit_kinds(ctx, inner_names, {}, reading.ends)
            if guess.agrees(shown, literals_matter=ctx.converted_literals != literals):
                made = {name: place(ctx, name, kind, None, span) for name, kind in exits.items()}
                slots = {**reading.slots, **made}
                close(ctx, reading.loop, reading.block, make, slots)
                ctx.rebind(behind(names, reading.before, slots, span))
                ctx.learnt[path] = guess
                trial.keep()
                return bool(reading.ends)
            shown = _through_copies(ctx, shown, entry, reading)
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
    slots = {name: place(ctx, name, kind, entry[name].value, span) for name, kind in guess.kinds.items()}
    for name, slot in slots.items():
        ctx.bind(name, Binding(value_of(slot), entry[name].span))
    before = dict(ctx.frame.env)
    loop = Enclosure(Form.LOOP, node, span, ctx.depth, is_loop=True)
    with opened(ctx, loop) as block:
        if body(loop):
            leave(ctx, loop, Way.END, span)
    ends = [place.env for place in loop.by(Way.BREAK)] + ([] if only_breaks else [before])
    return Reading(loop, block, slots, before, ends, [place.env for place in loop.by(Way.CONTINUE, Way.END)])


def _first_guess(entry: Mapping[str, Binding], last: Heads | None) -> Heads:
    """What held when the loop was read last, for names that enter it as then."""
    kinds = {name: kind_of(binding.value) for name, binding in entry.items()}
    if last is None:
        return Heads(kinds, kinds)
    resumed = {
        name: _resumed(last.kinds[name], entry[name].value) if last.entry.get(name) == kind else kind
        for name, kind in kinds.items()
    }
    return Heads(kinds, resumed)


def _resumed(kind: Kind, value: Value) -> Kind:
    """The kind; where it stands for one value, that of the present reading."""
    if isinstance(kind, Same) and not isinstance(kind.value, Unset):
        return Same(value)
    if isinstance(kind, ItemsKind) and isinstance(value, Items):
        return ItemsKind(tuple(map(_resumed, kind.items, value.items)))
    return kind


def _through_copies(
    ctx: Context, shown: Mapping[str, Kind], entry: Mapping[str, Binding], reading: Reading
) -> dict[str, Kind]:
    """What was shown, and that names which take the values of others change their types with them.

    Without it a chain `a = b`, `b = c`, ... would show one name's type a reading.
    """
    heads: dict[Expr, str] = {slot.var: name for name, slot in reading.slots.items() if isinstance(slot, ScalarSlot)}
    sources = {
        name: [heads.get(b.value.expr) if isinstance(b.value, Scalar) else None for b in reading.changes(name)]
        for name in entry
    }
    takers: dict[str, list[str]] = {}
    for name, copied in sources.items():
        for source in filter(None, copied):
            takers.setdefault(source, []).append(name)
    kinds = dict(shown)
    pending = list(takers)
    while pending:
        for name in takers.get(pending.pop(), ()):
            changes = [
                _as_shown(binding, kinds[source] if source else None)
                for binding, source in zip(reading.changes(name), sources[name], strict=True)
            ]
            kind = merge(ctx, name, [entry[name], *changes])
            # what has become a conflict stays one, so that this ends
            if isinstance(kinds[name], ScalarKind) and kind != kinds[name]:
                kinds[name] = kind
                pending.append(name)
    return kinds


def _as_shown(binding: Binding, kind: Kind | None) -> Binding:
    """A binding to a name's value at the head, in the type that the name was shown to have."""
    value = binding.value
    if not isinstance(kind, ScalarKind) or not isinstance(value, Scalar) or not isinstance(value.expr, Var):
        return binding
    if kind.dtype == value.dtype:
        return binding
    return Binding(Scalar(Var(value.expr.name, kind.dtype), kind.weak), binding.span)
