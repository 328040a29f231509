"""Control flow under construction: blocks that can still grow, and constructs that can be left early."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

from ..dataclass import dataclass, field
from ..dtypes import DType
from ..ir.nodes import Break, Continue, Stmt
from ..source import Span
from .values import Binding


@dataclass(slots=True, eq=False)
class Nest:
    """A statement with nested blocks; `make` builds it from the finished blocks."""

    bodies: tuple[Draft, ...]
    make: Callable[..., Stmt]


#: a block that can still grow; a list in a block is a placeholder for statements that depend on code translated later
Draft: TypeAlias = "list[Stmt | Draft | Nest]"


def sealed(block: Draft) -> tuple[Stmt, ...]:
    """Return the statements of a block, with its placeholders replaced by their blocks and its nests built."""
    statements: list[Stmt] = []
    for item in block:
        if not isinstance(item, (list, Nest)):
            statements.append(item)
        elif isinstance(item, list):
            statements += sealed(item)
        else:
            statements.append(item.make(*map(sealed, item.bodies)))
    return tuple(statements)


class Construct(Enum):
    """The kinds of constructs that can be left early."""

    LOOP = "a run-time loop"
    STATIC = "an unrolled loop"
    ITERATION = "an iteration of an unrolled loop"
    FUNCTION = "a function"


@dataclass(frozen=True, slots=True)
class Exit:
    """A point where control leaves an enclosure, or one iteration of a loop."""

    #: `Break` to the code after the construct, `Continue` to the next iteration; None at the end of a loop's body
    jump: type[Break | Continue] | None
    env: Mapping[str, Binding]
    #: the placeholder for the statements of the exit
    late: Draft
    #: `Context.depth` at the exit
    depth: int
    #: the enclosures between the exit and the enclosure that it leaves
    between: tuple[Enclosure, ...]
    span: Span


@dataclass(slots=True, eq=False)
class Enclosure:
    """A construct under translation that can be left early."""

    construct: Construct
    #: distinguishes the enclosure from its siblings within one translation of the surrounding code
    step: ast.AST | int
    span: Span
    #: `Context.depth` outside the enclosure
    depth: int
    #: True if the enclosure becomes a loop of the IR
    is_loop: bool = False
    exits: list[Exit] = field(default_factory=list)
    #: outer enclosure that is left from within this one -> the placeholder after this one that completes the exit
    passing: dict[Enclosure, Draft] = field(default_factory=dict)

    @property
    def is_straight(self) -> bool:
        """True if the enclosure has no exit, or a single one, which is unconditional and not in an inner loop."""
        if not self.exits:
            return True
        first = self.exits[0]
        return len(self.exits) == 1 and first.depth == self.depth and not any(e.is_loop for e in first.between)


def innermost(enclosures: Sequence[Enclosure], *constructs: Construct) -> Enclosure | None:
    """Return the innermost enclosure of one of these kinds; None if there is none."""
    return next((e for e in reversed(enclosures) if e.construct in constructs), None)


@dataclass(slots=True)
class Carried:
    """The state of a loop-carried name that starts as a literal, while the loop's body is translated."""

    #: the type in the loop; None if this translation assumes that only literals are assigned
    dtype: DType | None
    #: the types of the typed scalars that the loop assigns to the name
    assigned: set[DType] = field(default_factory=set)
