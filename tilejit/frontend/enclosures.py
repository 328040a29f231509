"""Constructs that can be left early, and their exits."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from enum import Enum

from ..dataclass import dataclass, field
from ..source import Span
from .drafts import Late
from .values import Binding


class Construct(Enum):
    """The kinds of constructs that can be left early."""

    LOOP = "a run-time loop"
    STATIC = "an unrolled loop"
    ITERATION = "an iteration of an unrolled loop"
    FUNCTION = "a function"


class Way(Enum):
    """Ways to leave a construct: a jump to the code after it, a jump to the next iteration, or the end of its body."""

    BREAK = "break"
    CONTINUE = "continue"
    END = "end"


@dataclass(frozen=True, slots=True)
class Exit:
    """A point where an enclosure is left."""

    way: Way
    env: Mapping[str, Binding]
    #: the placeholder for the statements of the exit
    late: Late
    #: `Context.depth` at the exit
    depth: int
    #: the enclosures between the exit and the enclosure that it leaves
    between: tuple[Enclosure, ...]
    span: Span


@dataclass(slots=True, eq=False)
class Enclosure:
    """Statements that can be left early."""

    construct: Construct
    #: distinguishes the enclosure from its siblings within one translation of the surrounding code
    step: ast.AST | int
    span: Span
    #: `Context.depth` outside the enclosure
    depth: int
    #: True if the enclosure becomes a loop of the IR
    is_loop: bool = False
    exits: list[Exit] = field(default_factory=list)
    #: outer enclosure that is left from inside this one -> the statements that continue the exit after this one
    passing: dict[Enclosure, Late] = field(default_factory=dict)

    def by(self, *ways: Way) -> list[Exit]:
        return [e for e in self.exits if e.way in ways]

    @property
    def is_straight(self) -> bool:
        """True if the enclosure has no exit, or a single one, which is unconditional and not in an inner loop."""
        if not self.exits:
            return True
        first = self.exits[0]
        return len(self.exits) == 1 and first.depth == self.depth and not any(e.is_loop for e in first.between)
