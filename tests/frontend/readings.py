"""How the frontend reads a kernel: which statements, how often, and what trials leave in its state."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tilejit.frontend.context import Context, Tentative
from tilejit.frontend.statements import STATEMENTS


@dataclass
class Counted:
    """How often the frontend read each statement; one that is read for each call or round counts by those."""

    of_each: Counter[tuple[Any, ...]] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.of_each.total()

    @property
    def most(self) -> int:
        return max(self.of_each.values())


@contextmanager
def counted_statements() -> Iterator[Counted]:
    """Counts the statements that the frontend reads, with what encloses each."""
    counted = Counted()

    def counting(handler: Callable[..., bool]) -> Callable[..., bool]:
        def read(ctx: Context, node: ast.stmt) -> bool:
            counted.of_each[(*(enclosure.step for enclosure in ctx.enclosures), node)] += 1
            return handler(ctx, node)

        return read

    with pytest.MonkeyPatch.context() as patch:
        for kind, handler in STATEMENTS.items():
            patch.setitem(STATEMENTS, kind, counting(handler))
        yield counted


@contextmanager
def dropped_trials() -> Iterator[list[bool]]:
    """For each trial that the frontend drops, whether what it had made before has changed."""
    changed: list[bool] = []
    trial = Context.trial

    def made(ctx: Context) -> Any:
        exits = [(list(e.exits), dict(e.passing)) for e in ctx.enclosures]
        env = list(ctx.frame.env.items())
        return [list(ctx.block), list(ctx.allocations), dict(ctx.used), dict(ctx.definitions), env, exits]

    @contextmanager
    def watched(ctx: Context) -> Iterator[Tentative]:
        before = made(ctx)
        with trial(ctx) as opened:
            yield opened
        if not opened.kept:
            changed.append(made(ctx) != before)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Context, "trial", watched)
        yield changed
