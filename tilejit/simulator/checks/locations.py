"""What writes have released to locations of memory."""

from __future__ import annotations

from ...dataclass import dataclass, field
from .frontiers import NOTHING, Frontiers


@dataclass(slots=True)
class Location:
    """What the writes to one location have released, the last one and those whose chain of atomics it continues.

    thread: who released last, by its number in the grid.
    wide: the frontier of the releases that reach other CTAs; near: CTA → that of all releases of its threads. A kernel
    whose every scope reaches other CTAs has no need of `near`.
    """

    thread: int
    wide: int = NOTHING
    near: dict[int, int] = field(default_factory=dict)

    def seen_by(self, cta: int, wide: bool, frontiers: Frontiers) -> int:
        """The frontier that a reader in `cta` gets, whose scope reaches other CTAs if `wide`."""
        near = self.near.get(cta, NOTHING)
        return frontiers.join(near, self.wide) if wide else near
