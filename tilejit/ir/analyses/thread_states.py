"""States of the threads of a CTA at one point: the active threads, and the levels of the values they agree on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ... import scopes
from ...dataclass import field, lean, replace
from ...source import Span
from ..nodes import Stmt

#: the levels of values that all threads of a CTA share, and of values that may differ between any two threads
CTA, THREAD = scopes.CTA.level, scopes.THREAD.level


class Gate(NamedTuple):
    """A run-time condition for threads to reach a statement.

    branch: the id of an `If` or a loop; the condition of a `For` is that it has iterations. truth: the condition's
    value; None after an `If` or a loop that some threads may have left by a jump.
    """

    branch: int
    truth: bool | None


#: conditions that all hold
Gates = frozenset[Gate]


@lean(frozen=True, slots=True)
class Active:
    """The level of the set of active threads, and the branch or loop that lowered it.

    threads: those that run-time values may make active or inactive, thread i as bit i; for others, only ids matter.
    """

    level: int = CTA
    threads: int = 0
    cause: str = field(default="", compare=False)
    span: Span | None = field(default=None, compare=False)

    def combine(self, other: Active) -> Active:
        lower = other if other.level < self.level else self
        threads = self.threads | other.threads
        return lower if threads == lower.threads else replace(lower, threads=threads)

    def among(self, threads: int) -> Active:
        """Return `self`, or `ALL_ACTIVE` if run-time values affect none of these threads."""
        return self if self is ALL_ACTIVE or self.threads & threads else ALL_ACTIVE


ALL_ACTIVE = Active()


@lean(frozen=True, slots=True)
class ThreadState:
    """The state of all threads of the CTA at one point."""

    #: the threads that enclosing branches and loops on run-time values admit
    entered: Active = ALL_ACTIVE
    #: the threads that remain after earlier jumps of each kind; active threads are in all four sets
    returned: Active = ALL_ACTIVE
    broken: Active = ALL_ACTIVE
    continued: Active = ALL_ACTIVE
    #: name of a variable or replicated tile -> its level, if that is below `CTA`
    levels: Mapping[str, int] = field(default_factory=dict)
    #: the names of the scopes whose last instance is incomplete and may be active here
    partial: frozenset[str] = frozenset()
    #: either all threads that may be active here (see `thread_values.comers`) are active, or none is
    is_exact: bool = True
    #: the run-time conditions for reaching this point: of enclosing branches and loops, and of earlier ones with jumps
    gates: Gates = frozenset()
    #: depending on run-time values, some threads of the CTA may have ended, while others haven't
    has_parted: bool = False
    #: the threads that may be active here, judging by their ids; thread i as bit i
    possible: int = -1
    #: the level of the set `possible`
    by_ids: Active = ALL_ACTIVE

    @property
    def active(self) -> Active:
        decided = self.decided
        return self.by_ids if self.by_ids.level < decided.level else decided

    @property
    def decided(self) -> Active:
        """Like `active`, but ignoring conditions on ids."""
        if self.returned is self.broken is self.continued is ALL_ACTIVE:
            # the common case, without jumps
            return self.entered
        return self.entered.combine(self.returned).combine(self.broken).combine(self.continued)

    def among(self, possible: int, by_ids: Active) -> ThreadState:
        """Return the state restricted to the threads `possible`, whose set has the level of `by_ids`."""
        return replace(
            self, entered=self.entered.among(possible), returned=self.returned.among(possible),
            broken=self.broken.among(possible), continued=self.continued.among(possible), possible=possible,
            by_ids=by_ids,
        )

    @property
    def is_certain(self) -> bool:
        """True if run-time values don't select among the possible threads and can't have ended only some threads."""
        return self.is_exact and not self.has_parted

    def level(self, name: str) -> int:
        return self.levels.get(name, CTA)

    def with_level(self, name: str, level: int) -> ThreadState:
        """Return the state in which a variable or tile has this level."""
        return self if self.level(name) == level else replace(self, levels=with_levels(self.levels, {name: level}))


def with_levels(levels: Mapping[str, int], changed: Mapping[str, int]) -> Mapping[str, int]:
    """Return the levels after some have changed."""
    return {name: level for name, level in {**levels, **changed}.items() if level != CTA}


def lowest(first: Mapping[str, int], second: Mapping[str, int]) -> Mapping[str, int]:
    """Return the lower level of each variable; variables that aren't listed have `CTA`, the highest level."""
    if first == second:
        return first
    return {name: min(first.get(name, CTA), second.get(name, CTA)) for name in {**first, **second}}


@lean(frozen=True, slots=True)
class Visit:
    """A statement, and the threads that may reach it, thread i as bit i.

    is_certain: either all of these threads reach it, or none does. gates: the run-time conditions for reaching it.
    """

    stmt: Stmt
    threads: int
    is_certain: bool
    gates: Gates
