"""Releases kept per memory location."""

from __future__ import annotations

from ...dataclass import dataclass, field
from .clock_sets import NOTHING, ClockSets


@dataclass(slots=True)
class Location:
    """The releases that a reader of a location acquires: of its last write and of the chain of atomics before it."""

    #: the thread that released last, by its number in the grid
    thread: int
    #: the frontier of the releases whose scope reaches all CTAs
    wide: int = NOTHING
    #: CTA or cluster (`HappensBefore.reached`) → the frontier of its threads' releases; unused without narrow scopes
    near: dict[int, int] = field(default_factory=dict)

    def seen_by(self, group: int, wide: bool, frontiers: ClockSets) -> int:
        """Return the frontier for a reader in a CTA or cluster. wide: the reader's scope reaches all CTAs."""
        near = self.near.get(group, NOTHING)
        return frontiers.join(near, self.wide) if wide else near
