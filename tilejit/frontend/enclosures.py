"""Statements that can be left early, and the places where they are left."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from enum import Enum

from ..dataclass import dataclass, field
from ..source import Span
from .drafts import Late
from .values import Binding

__all__ = ["Construct", "Enclosure", "Exit", "Way"]


class Construct(Enum):
    """What can be left."""

    LOOP = "a run-time loop"
    STATIC = "an unrolled loop"
    ITERATION = "a round of an unrolled loop"
    FUNCTION = "a function"


class Way(Enum):
    """Where leaving leads: to what follows, to the next round, or to the next round from the body's end."""

    BREAK = "break"
    CONTINUE = "continue"
    END = "end"


@dataclass(frozen=True, slots=True)
class Exit:
    """One place where an enclosure is left.

    env: what names stand for there. late: the place of the statements that leave. depth: the context's depth there.
    between: the enclosures around that place, up to the one that is left.
    """

    way: Way
    env: Mapping[str, Binding]
    late: Late
    depth: int
    between: tuple[Enclosure, ...]
    span: Span


@dataclass(slots=True, eq=False)
class Enclosure:
    """Statements that can be left early.

    step: tells it from the enclosures beside it, each time the code around them is read. depth: the context's depth
    where it is read. is_loop: it is a loop in the IR. exits: where it is left. passing: outer enclosures that are left
    from inside this one -> the statements behind this one that go on leaving.
    """

    construct: Construct
    step: ast.AST | int
    span: Span
    depth: int
    is_loop: bool = False
    exits: list[Exit] = field(default_factory=list)
    passing: dict[Enclosure, Late] = field(default_factory=dict)

    def by(self, *ways: Way) -> list[Exit]:
        return [e for e in self.exits if e.way in ways]

    @property
    def is_straight(self) -> bool:
        """Whether no run-time condition decides where it is left."""
        if not self.exits:
            return True
        first = self.exits[0]
        return len(self.exits) == 1 and first.depth == self.depth and not any(e.is_loop for e in first.between)
