"""What is live before each statement, from the last one to the first.

Sets are integers, a bit for each thing that may be live. Round a loop the walk goes until nothing new is live at its
head. What is live there follows from what is live after the loop and only grows, so that it is kept: a loop in a loop
is walked again only where that has grown.

Which statements have nothing to do with what is live is found out once of each; visits pass them over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ...dataclass import dataclass, field
from .. import walk
from ..nodes import Break, Continue, For, If, Loop, Return, Stmt
from ..walk import Block

__all__ = ["Backwards"]


@dataclass(slots=True, kw_only=True)
class Backwards(ABC):
    """A walk of statements.

    around: of the loops around the current place, what is live after each, and at its head, innermost last.
    heads: of loops that were walked, the same. is_final: what is live here won't grow any more.
    courses: the statements of each block that visits come to, last one first, by the block's identity.
    kinds: the classes of the statements without blocks that have to do with what is live.
    """

    kinds: ClassVar[frozenset[type[Stmt]]]

    around: list[tuple[int, int]] = field(default_factory=list)
    heads: dict[int, tuple[int, int]] = field(default_factory=dict)
    courses: dict[int, Sequence[Stmt]] = field(default_factory=dict)
    is_final: bool = True

    @abstractmethod
    def simple(self, stmt: Stmt, live: int) -> int:
        """What is live before a statement of one of the `kinds`, after which `live` is."""

    def concerns(self, stmt: Stmt) -> bool:
        """Whether a statement of one of the `kinds` has to do with what is live; else it isn't visited."""
        return True

    def course(self, body: Block) -> Sequence[Stmt]:
        """The statements of a block that visits come to, last one first."""
        course = self.courses.get(id(body))
        if course is None:
            kinds = self.kinds | walk.CONTROL
            concerned = [stmt for stmt in reversed(body) if type(stmt) in kinds and self._is_visited(stmt)]
            course = self.courses[id(body)] = concerned
        return course

    def _is_visited(self, stmt: Stmt) -> bool:
        """Whether visits come to a statement of one of the `kinds`, a jump, or one with blocks."""
        if type(stmt) in self.kinds:
            return self.concerns(stmt)
        return type(stmt) in walk.UNBOUNDED or any(map(self.course, walk.blocks(stmt)))

    def block(self, body: Block, live: int) -> int:
        """What is live before a block after which `live` is."""
        for stmt in self.course(body):
            if type(stmt) in self.kinds:
                live = self.simple(stmt, live)
                continue
            match stmt:
                case If():
                    live = self.block(stmt.then, live) | self.block(stmt.orelse, live)
                case For() | Loop():
                    live = self.loop(stmt, live)
                case Break():
                    live = self.around[-1][0]
                case Continue():
                    live = self.around[-1][1]
                case Return():
                    live = 0
        return live

    def loop(self, stmt: For | Loop, after: int) -> int:
        walked, head = self.heads.get(id(stmt), (None, 0))
        if walked != after:
            is_final, self.is_final = self.is_final, False
            head |= after if isinstance(stmt, For) else 0
            while (grown := head | self.iterate(stmt, after, head)) != head:
                head = grown
            self.is_final = is_final
            self.heads[id(stmt)] = after, head
        if self.is_final:
            self.iterate(stmt, after, head)
        return head

    def iterate(self, stmt: For | Loop, after: int, head: int) -> int:
        self.around.append((after, head))
        live = self.block(stmt.body, head)
        self.around.pop()
        return live
