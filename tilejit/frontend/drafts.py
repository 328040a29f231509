"""Statements while they are being read: bodies can still grow, and some places are filled in later."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..dataclass import dataclass, field
from ..ir.nodes import Stmt

__all__ = ["Draft", "Late", "Nest", "drafted", "sealed"]


@dataclass(slots=True, eq=False)
class Late:
    """A place whose statements are known only when the code around it has been read."""

    block: Draft = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Nest:
    """A statement with bodies; make: the statement, given its bodies."""

    bodies: tuple[Draft, ...]
    make: Callable[..., Stmt]


Draft = list[Stmt | Late | Nest]


def drafted(block: Draft) -> Iterator[Stmt]:
    """Yield the statements so far, also those in branches and loops, without these themselves."""
    for item in block:
        if not isinstance(item, (Late, Nest)):
            yield item
            continue
        for inner in (item.block,) if isinstance(item, Late) else item.bodies:
            yield from drafted(inner)


def sealed(block: Draft) -> tuple[Stmt, ...]:
    """The statements, with every place filled in."""
    made: list[Stmt] = []
    for item in block:
        if not isinstance(item, (Late, Nest)):
            made.append(item)
        elif isinstance(item, Late):
            made += sealed(item.block)
        else:
            made.append(item.make(*map(sealed, item.bodies)))
    return tuple(made)
