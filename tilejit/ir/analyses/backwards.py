"""Backward liveness analysis: the items that are live before each statement.

Sets are integers with a bit per item that may be live. A loop is iterated until the set at its head no longer changes.
This set is kept between visits, as it only grows: the next visit starts from it, and iterates to a new fixed point only
if the set after the loop has changed.

Each statement is tested once for an effect on the sets; visits skip statements without an effect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ...remember import once
from .. import walk
from ..nodes import Break, Continue, For, If, Loop, Return, Stmt
from ..walk import Block


class Backwards(ABC):
    """A backward walk over statements.

    course: maps a block to its visited statements, last one first.
    around: for each enclosing loop, innermost last, the set after it and the set at its head.
    heads: loop's id -> these two sets, as of the last visit.
    is_final: all enclosing loops have reached their fixed points, so the sets don't grow any more.
    kinds: the classes of the statements other than control flow that may affect the sets.
    """

    kinds: ClassVar[frozenset[type[Stmt]]]

    def __init__(self) -> None:
        self.around: list[tuple[int, int]] = []
        self.heads: dict[int, tuple[int, int]] = {}
        self.is_final = True

    @abstractmethod
    def simple(self, stmt: Stmt, live: int) -> int:
        """Return what is live before a statement of one of the `kinds`, given what is live after it."""

    def concerns(self, stmt: Stmt) -> bool:
        """True if a statement of one of the `kinds` may affect the sets; otherwise, it isn't visited."""
        return True

    @once
    def course(self, body: Block) -> Sequence[Stmt]:
        kinds = self.kinds | walk.CONTROL
        return [stmt for stmt in reversed(body) if type(stmt) in kinds and self._is_visited(stmt)]

    def _is_visited(self, stmt: Stmt) -> bool:
        if type(stmt) in self.kinds:
            return self.concerns(stmt)
        return type(stmt) in walk.UNBOUNDED or any(map(self.course, walk.blocks(stmt)))

    def block(self, body: Block, live: int) -> int:
        """Return what is live before a block, given what is live after it."""
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
