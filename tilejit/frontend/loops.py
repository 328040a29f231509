"""Run-time loops, and the kinds of their loop-carried names.

The code of a body depends on the kinds of its names at the head, which are known only after the body has been
translated. So a body is translated speculatively, on the guess that no name changes its kind and no literal is
converted to another type. If the guess is wrong, the result is discarded, and the body is translated again with the
observed kinds. Inner loops then start from the final kinds of their last translation.
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
from .readings import LoopTrial, through_copies
from .slots import make_slot, value_of
from .values import Binding

#: a body is translated at most `_TRIALS` times, and `_TRIALS_PER_NAME` times more for each loop-carried name
_TRIALS = 12
_TRIALS_PER_NAME = 2


def run_loop(
    ctx: Context, node: ast.AST, names: Sequence[str], body: Callable[[Enclosure], bool],
    make: Callable[[tuple[Stmt, ...]], Stmt], *, only_breaks: bool = False,
) -> bool:
    """Translate a run-time loop; return True if control can reach the statement after it.

    names: the names that the body assigns. body: translates the body; returns True if control reaches its end.
    make: builds the loop statement from its body. only_breaks: True if the loop ends only at exits of `Way.BREAK`.
    raises: KernelTypeError if the kinds of the names don't converge.
    """
    entry = {name: ctx.frame.env[name] for name in names if name in ctx.frame.env}
    inner_names = [name for name in names if name not in entry]
    path = (*(enclosure.step for enclosure in ctx.enclosures), node)
    guess = Heads.expected({name: b.value for name, b in entry.items()}, ctx.loop_kinds.get(path))
    for _ in range(_TRIALS + _TRIALS_PER_NAME * len(entry)):
        literals = ctx.converted_literals
        with ctx.trial() as trial:
            result = _translate(ctx, node, entry, guess, body, only_breaks)
            shown = result.shown(ctx, entry)
            exits = exit_kinds(ctx, inner_names, {}, result.ends)
            if guess.agrees(shown, literals_matter=ctx.converted_literals != literals):
                close(ctx, result.loop, result.block, make, names, result.before, exits, result.slots)
                ctx.loop_kinds[path] = guess
                trial.keep()
                return bool(result.ends)
            shown = through_copies(ctx, shown, entry, result)
        guess = guess.corrected(shown)
    raise ctx.type_error(node, "the types of this loop's variables don't converge", "give them types before the loop")


def _translate(
    ctx: Context, node: ast.AST, entry: Mapping[str, Binding], guess: Heads, body: Callable[[Enclosure], bool],
    only_breaks: bool,
) -> LoopTrial:
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
    continues = [exit_.env for exit_ in loop.by(Way.CONTINUE, Way.END)]
    return LoopTrial(loop, block, slots, before, ends, continues, carried)


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
