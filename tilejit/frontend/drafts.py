"""Statements under construction, in blocks that can still grow and that contain placeholders to fill in later."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..dataclass import dataclass, field
from ..ir.nodes import Stmt


@dataclass(slots=True, eq=False)
class Late:
    """A placeholder for statements that depend on code translated later."""

    block: Draft = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Nest:
    """A statement with nested blocks; `make` builds it from the finished blocks."""

    bodies: tuple[Draft, ...]
    make: Callable[..., Stmt]


Draft = list[Stmt | Late | Nest]


def drafted(block: Draft) -> Iterator[Stmt]:
    """Yield the simple statements emitted so far, including those nested in branches and loops."""
    for item in block:
        if not isinstance(item, (Late, Nest)):
            yield item
            continue
        for inner in (item.block,) if isinstance(item, Late) else item.bodies:
            yield from drafted(inner)


def sealed(block: Draft) -> tuple[Stmt, ...]:
    """Return the finished statements, with every placeholder filled in."""
    statements: list[Stmt] = []
    for item in block:
        if not isinstance(item, (Late, Nest)):
            statements.append(item)
        elif isinstance(item, Late):
            statements += sealed(item.block)
        else:
            statements.append(item.make(*map(sealed, item.bodies)))
    return tuple(statements)
