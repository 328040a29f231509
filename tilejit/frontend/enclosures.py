"""Statements that can be left early, and the places where they are left."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ..source import Span
from .drafts import Late
from .values import Binding

__all__ = ["Enclosure", "Exit", "Form", "Way"]


class Form(Enum):
    """What can be left."""

    LOOP = "a run-time loop"
    STATIC = "an unrolled loop"
    ITERATION = "a round of an unrolled loop"
    FUNCTION = "a function"


class Way(Enum):
    """How: to what follows, to the next round, or to the next round by reaching the body's end."""

    BREAK = "break"
    CONTINUE = "continue"
    END = "end"


@dataclass(frozen=True, slots=True)
class Exit:
    """One place where an enclosure is left.

    env: what names stand for there. late: where the statements that leave it go. depth: the context's there.
    between: the enclosures inside the one that is left, around that place.
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

    step: what tells it from its neighbours wherever the code around it is read again. depth: the context's in which it
    is read. is_loop: it is a loop in the IR. exits: where it is left. passing: the enclosures around it that are left
    from inside it, each with the statements behind it that go on leaving.
    """

    form: Form
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
