"""Blocks: statements that run once and may be left early, and what names stand for behind them."""

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
    """Read statements that run once.

    They become straight code, or, where run-time conditions leave them early, a loop that ends in `Break`.
    step: see `Enclosure`. names: those that the body assigns. body: reads it; returns whether control reaches its end.
    returns: whether control can reach what follows.
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
            # what follows the only exit is what follows the block
            last = block.pop()
            assert last is enclosure.exits[0].late
        ctx.block.extend(block)
        return reached or bool(enclosure.exits)
    kinds = exit_kinds(ctx, names, before, [e.env for e in enclosure.exits])
    close(ctx, enclosure, block, lambda statements: Loop(statements, span), names, before, kinds)
    return True
