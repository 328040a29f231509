"""What is known of the threads of a CTA at one point: which of them are active, and on what they agree."""

from __future__ import annotations

from collections.abc import Mapping

from ... import scopes
from ...dataclass import field, lean, replace
from ...source import Span
from .register_pool import Gates

__all__ = ["CTA", "ALL_ACTIVE", "THREAD", "Active", "ThreadState", "lowest", "with_levels"]

#: the levels of what all threads of a CTA agree on, and of what each has to itself
CTA, THREAD = scopes.CTA.level, scopes.THREAD.level


@lean(frozen=True, slots=True)
class Active:
    """The level of the set of active threads, and the branch or loop that lowered it.

    threads: those of which some may be active and some not, thread i as bit i. Of all others ids decide.
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
        """The same for these threads alone."""
        return self if self is ALL_ACTIVE or self.threads & threads else ALL_ACTIVE


ALL_ACTIVE = Active()


@lean(frozen=True, slots=True)
class ThreadState:
    """What holds of all threads of the CTA at one point.

    entered: the threads that the branches and loops around let in. returned, broken, continued: those that earlier
    jumps of each kind left here; the active threads are in all four sets.
    gates: the branches that decide at run time who comes here: those around, and those in which some have ended.
    has_parted: run time may have decided that some threads of the CTA end and others don't.
    levels: of the variables, and of tiles that each thread has, whose level isn't `CTA`, by name.
    partial: the scopes whose last instance isn't whole and may come here.
    is_exact: all threads that may come here (`thread_values.comers`) do, or none.
    who: the threads that may come here by their ids, thread i as bit i. by_ids: the level of this set.
    """

    entered: Active = ALL_ACTIVE
    returned: Active = ALL_ACTIVE
    broken: Active = ALL_ACTIVE
    continued: Active = ALL_ACTIVE
    levels: Mapping[str, int] = field(default_factory=dict)
    partial: frozenset[str] = frozenset()
    is_exact: bool = True
    gates: Gates = frozenset()
    has_parted: bool = False
    possible: int = -1
    by_ids: Active = ALL_ACTIVE

    @property
    def active(self) -> Active:
        decided = self.decided
        return self.by_ids if self.by_ids.level < decided.level else decided

    @property
    def decided(self) -> Active:
        """As `active`, as far as anything but ids decides who is active."""
        if self.returned is self.broken is self.continued is ALL_ACTIVE:
            # mostly none has left
            return self.entered
        return self.entered.combine(self.returned).combine(self.broken).combine(self.continued)

    def among(self, possible: int, by_ids: Active) -> ThreadState:
        """The state of those active threads that are also among these."""
        return replace(
            self, entered=self.entered.among(possible), returned=self.returned.among(possible),
            broken=self.broken.among(possible), continued=self.continued.among(possible), possible=possible,
            by_ids=by_ids,
        )

    @property
    def is_certain(self) -> bool:
        """Whether all threads that may come here do or none, and none has ended where others of the CTA don't."""
        return self.is_exact and not self.has_parted

    def level(self, name: str) -> int:
        return self.levels.get(name, CTA)

    def with_level(self, name: str, level: int) -> ThreadState:
        """The state in which a variable has this level."""
        if self.levels.get(name, CTA) == level:
            return self
        levels = {**self.levels, name: level}
        if level == CTA:
            del levels[name]
        # written out: of all states most are made here
        return ThreadState(
            self.entered, self.returned, self.broken, self.continued, levels, self.partial, self.is_exact, self.gates,
            self.has_parted, self.possible, self.by_ids,
        )


def with_levels(levels: Mapping[str, int], changed: Mapping[str, int]) -> Mapping[str, int]:
    """The levels with others of some variables."""
    made = dict(levels)
    for name, level in changed.items():
        if level != CTA:
            made[name] = level
        else:
            made.pop(name, None)
    return made


def lowest(first: Mapping[str, int], second: Mapping[str, int]) -> Mapping[str, int]:
    """Of each variable the lower level; `CTA`, the greatest, is that of those that aren't listed."""
    if first == second:
        return first
    lowest = dict(first)
    for name, level in second.items():
        if level < lowest.get(name, CTA):
            lowest[name] = level
    return lowest
