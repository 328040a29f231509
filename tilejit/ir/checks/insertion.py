"""The walk that puts assertions in front of the statements that need them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from .. import walk
from ..analyses.initialized import doubts
from ..arithmetic import build
from ..nodes import TRUE, Assert, Expr, For, If, Jump, Kernel, Let, Loop, Stmt
from ..walk import Block
from .aliases import Aliases
from .edges import WatchedRegions
from .flags import Flags
from .in_place import overlapping
from .indices import outside
from .known import Known

__all__ = ["Insertion"]


class Insertion:
    """The assertions of one kernel.

    unasked: local buffers of which no register's flag is asserted.
    """

    def __init__(self, kernel: Kernel, unasked: frozenset[str] = frozenset()) -> None:
        self.known = Known(walk.assigned(kernel.body))
        self.aliases = Aliases(kernel)
        self.watched = WatchedRegions(kernel)
        in_doubt = doubts(kernel)
        self.flags = Flags(kernel, frozenset(d.place.buffer.root.name for each in in_doubt for d in each) - unasked)
        # for each statement in the order of the text, which is that of the walk
        self.doubts = iter(in_doubt)

    def block(self, body: Block) -> Block:
        """A block with assertions."""
        with self.known.block():
            return tuple(each for stmt in body for each in self.statement(stmt))

    def statement(self, stmt: Stmt) -> Iterator[Stmt]:
        """A statement behind what must hold for it."""
        failing = (*outside(stmt, self.known), *overlapping(stmt, self.known))
        yield from at_once(failing, stmt)
        for check in failing:
            self.known.add(check.cond)
        for doubt in next(self.doubts):
            if not self.known.is_filled(doubt.place):
                yield from self.flags.before(doubt, stmt)
        yield from self.aliases.before(stmt)
        yield from self.watched.before(stmt, self.known)
        match stmt:
            case If():
                yield self.branch(stmt)
            case For():
                self.known.add_limit(stmt)
                yield replace(stmt, body=self.block(stmt.body))
                self.known.add_filled(stmt)
            case Loop():
                yield replace(stmt, body=self.block(stmt.body))
            case _:
                if isinstance(stmt, Let):
                    self.known.add_value(stmt)
                yield stmt
                yield from self.flags.after(stmt)
                if isinstance(stmt, Assert):
                    self.known.add(stmt.cond)

    def branch(self, stmt: If) -> If:
        """A branch with assertions; what holds where both ways come together is known from then on."""
        opposite = build.logical_not(stmt.cond)
        with self.known.block():
            self.known.add(stmt.cond)
            then = self.block(stmt.then)
        with self.known.block():
            self.known.add(opposite)
            orelse = self.block(stmt.orelse)
        if stmt.then and isinstance(stmt.then[-1], Jump):
            self.known.add(opposite)
        elif stmt.orelse and isinstance(stmt.orelse[-1], Jump):
            self.known.add(stmt.cond)
        return replace(stmt, then=then, orelse=orelse)


def at_once(assertions: Sequence[Assert], stmt: Stmt) -> Iterator[Stmt]:
    """Assertions behind one branch, which costs less than a branch each."""
    if len(assertions) < 2:
        yield from assertions
        return
    whole: Expr = TRUE
    for each in assertions:
        whole = build.logical_and(whole, each.cond)
    yield If(build.logical_not(whole), tuple(assertions), span=stmt.span)
