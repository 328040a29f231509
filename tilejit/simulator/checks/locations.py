"""What writes have released to locations of memory."""

from __future__ import annotations

from ...dataclass import dataclass, field
from .clock_sets import NOTHING, ClockSets


@dataclass(slots=True)
class Location:
    """What the writes to one location have released, the last one and those whose chain of atomics it continues.

    thread: who released last, by its number in the grid.
    wide: the frontier of the releases that reach all CTAs; near: CTA, or cluster → that of all releases of its threads,
    by what narrow scopes reach (`Order.reached`). A kernel whose every scope reaches all CTAs has no need of `near`.
    """

    thread: int
    wide: int = NOTHING
    near: dict[int, int] = field(default_factory=dict)

    def seen_by(self, group: int, wide: bool, frontiers: ClockSets) -> int:
        """The frontier that a reader in a CTA, or cluster, gets, whose scope reaches all CTAs if `wide`."""
        near = self.near.get(group, NOTHING)
        return frontiers.join(near, self.wide) if wide else near
