"""Checked builds: tile IR with assertions for properties that can no longer be checked in PTX.

The extents of dimensions, the regions of operands and the initialization of registers are lost in PTX, so accesses are
checked against them in tile IR, unless they are provably valid. `tj.uniform` and division of integer scalars by zero,
which GPUs allow, are checked, too. Accesses to regions that may lie entirely outside their tensor are counted.

Launches on the simulator run the checked build, unless `TILEJIT_SIM_CHECKS=0`, `checks=False` or `profile=True` selects
the plain one. GPU launches, `compile` and `explain` use the checked build only with `debug=True`. Both builds compute
the same bits unless an assertion fails, and are the same build if nothing needs an assertion or count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...dataclass import dataclass, replace
from .. import walk
from ..analyses.initialized import doubts
from ..arithmetic import build
from ..nodes import TRUE, Assert, Expr, For, If, Jump, Kernel, Let, Loop, Stmt
from ..watched import WatchedRegion
from .agreement import Agreements
from .aliases import Aliases
from .conditions import Conditions
from .divisions import by_zero
from .edges import WatchedRegions
from .flags import WrittenFlags
from .in_place import overlapping, refuse_overlaps
from .indices import outside

__all__ = ["Checked", "checked", "refuse_overlaps"]


@dataclass(frozen=True, slots=True)
class Checked:
    """A kernel with the assertions that it needs, and the regions whose accesses it counts."""

    kernel: Kernel
    watched: tuple[WatchedRegion, ...] = ()


def checked(kernel: Kernel) -> Checked:
    """Return the kernel with assertions and counts as a `Checked`; it holds the same kernel if none are needed."""
    insertion = Insertion(kernel)
    body = insertion.block(kernel.body)
    if insertion.flags.asked != insertion.flags.doubtful:
        # only now is it known which buffers have flags that are never asserted
        insertion = Insertion(kernel, insertion.flags.doubtful - insertion.flags.asked)
        body = insertion.block(kernel.body)
    if body == kernel.body:
        return Checked(kernel)
    params, body = (*kernel.params, *insertion.aliases.params), (*insertion.agreements.head, *body)
    with_assertions = replace(kernel, params=params, body=body)
    return Checked(with_assertions, insertion.watched.all)


class Insertion:
    """Inserts the assertions of one kernel. unasked: names of local buffers whose flags nothing asserts."""

    def __init__(self, kernel: Kernel, unasked: frozenset[str] = frozenset()) -> None:
        self.conditions = Conditions(walk.assigned(kernel.body))
        self.aliases = Aliases(kernel)
        self.watched = WatchedRegions(kernel)
        self.agreements = Agreements(kernel)
        in_doubt = doubts(kernel)
        names = frozenset(d.place.buffer.root.name for each in in_doubt for d in each)
        self.flags = WrittenFlags(kernel, names - unasked)
        # one entry per statement, in program order, in which `statement` is called
        self.doubts = iter(in_doubt)

    def block(self, body: walk.Block) -> walk.Block:
        with self.conditions.block():
            return tuple(each for stmt in body for each in self.statement(stmt))

    def statement(self, stmt: Stmt) -> Iterator[Stmt]:
        """Yield a statement with the assertions, counts and updates of flags that it requires."""
        known = self.conditions
        checks = (*by_zero(stmt, known), *outside(stmt, known), *overlapping(stmt, known))
        yield from _at_once(checks, stmt)
        for check in checks:
            self.conditions.add(check.cond)
        for doubt in next(self.doubts):
            if not self.conditions.is_filled(doubt.place):
                yield from self.flags.before(doubt, stmt)
        yield from self.aliases.before(stmt)
        yield from self.watched.before(stmt, self.conditions)
        match stmt:
            case If():
                yield self.branch(stmt)
            case For():
                self.conditions.add_limit(stmt)
                yield replace(stmt, body=self.block(stmt.body))
                self.conditions.add_filled(stmt)
            case Loop():
                yield replace(stmt, body=self.block(stmt.body))
            case _:
                if isinstance(stmt, Let):
                    self.conditions.add_value(stmt)
                yield stmt
                yield from self.flags.after(stmt)
                yield from self.agreements.after(stmt)
                if isinstance(stmt, Assert):
                    self.conditions.add(stmt.cond)

    def branch(self, stmt: If) -> If:
        """Return a branch with assertions inserted. If one block ends in a jump, record the condition of the other."""
        opposite = build.logical_not(stmt.cond)
        with self.conditions.block():
            self.conditions.add(stmt.cond)
            then = self.block(stmt.then)
        with self.conditions.block():
            self.conditions.add(opposite)
            orelse = self.block(stmt.orelse)
        if stmt.then and isinstance(stmt.then[-1], Jump):
            self.conditions.add(opposite)
        elif stmt.orelse and isinstance(stmt.orelse[-1], Jump):
            self.conditions.add(stmt.cond)
        return replace(stmt, then=then, orelse=orelse)


def _at_once(assertions: Sequence[Assert], stmt: Stmt) -> Iterator[Stmt]:
    """Yield a single assertion, or one branch around several, which costs less than a branch for each."""
    if len(assertions) < 2:
        yield from assertions
        return
    whole: Expr = TRUE
    for each in assertions:
        whole = build.logical_and(whole, each.cond)
    yield If(build.logical_not(whole), tuple(assertions), span=stmt.span)
