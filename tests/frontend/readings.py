"""How the frontend reads a kernel: which statements, how often, and what trials leave in its state."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tilejit.frontend.context import Context
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
    """For each translation that the frontend drops, whether what it had made before has changed."""
    changed: list[bool] = []
    snapshot, restore = Context.snapshot, Context.restore

    def made(ctx: Context) -> Any:
        exits = [(list(e.exits), dict(e.passing)) for e in ctx.enclosures]
        env = list(ctx.frame.env.items())
        return [list(ctx.allocations), dict(ctx.used), dict(ctx.definitions), env, exits]

    def taken(ctx: Context) -> Any:
        return made(ctx), snapshot(ctx)

    def watched(ctx: Context, before: Any) -> None:
        restore(ctx, before[1])
        changed.append(made(ctx) != before[0])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Context, "snapshot", taken)
        patch.setattr(Context, "restore", watched)
        yield changed
