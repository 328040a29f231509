"""Blocks: statements that run once and may be left early, and the bindings of names after them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from ..ir.nodes import Loop
from .context import Context
from .enclosures import Construct, Enclosure, Way
from .exits import Inside, close, exit_kinds, leave

__all__ = ["run_block"]


def run_block(
    ctx: Context,
    node: ast.AST,
    construct: Construct,
    step: ast.AST | int,
    names: Sequence[str],
    body: Callable[[], bool],
) -> bool:
    """Translate statements that run once.

    They become straight-line code, or a loop that ends in `Break` if run-time conditions leave them early.

    step: see `Enclosure`. names: the names that the body assigns.
    body: translates the statements; returns True if control reaches their end.
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
            # the code after the only exit is the code after the block
            last = block.pop()
            assert last is enclosure.exits[0].late
        ctx.block.extend(block)
        return reached or bool(enclosure.exits)
    kinds = exit_kinds(ctx, names, before, [e.env for e in enclosure.exits])
    close(ctx, enclosure, block, lambda statements: Loop(statements, span), names, before, kinds)
    return True
