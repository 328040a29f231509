"""Events: a warp's instructions that synchronize, and deliveries of operations that signal mbarriers.

An event uses *places*: words of memory, or barriers of a CTA. Two events *conflict* if their order may matter. At a
barrier, arrivals in one phase commute. An event *stays* in a phase if it must happen before the phase completes: a wait
for the previous phase, a test, or an `expect_tx`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...dataclass import dataclass, field
from ..machine.lanes import Index
from .wait_loops import Place, Values, WaitLoop

#: a warp of the chunk, as its number; or an operation, as the number of the warp that issued it and its own there
Agent = str


@dataclass(slots=True)
class Use:
    """An event's use of a place.

    kind: of memory, "read", "write", or an update whose result is unused; of barriers, "arrive", "stay" or "wait",
        which is a stay after the wait for the previous phase.
    """

    place: Place
    kind: str
    phase: int = 0
    completes: bool = False
    #: the access, its element before and after, and for additions their difference; index of the first thread
    start: tuple[int, int] = (0, 0)
    before: Any = None
    after: Any = None
    step: Any = None
    thread: int = 0


@dataclass(slots=True)
class Waiter:
    """A wait loop that an event ends, and its threads' registers. loop: None for a wait at an mbarrier."""

    loop: WaitLoop | None
    positions: Index
    inputs: Values


@dataclass(slots=True)
class Event:
    """pre, past: the events that happen before it, as bit sets: by what its agent knows; and also by conflicts."""

    index: int
    agent: Agent
    #: -1 for a delivery
    pc: int
    what: str = ""
    pre: int = 0
    past: int = 0
    uses: list[Use] = field(default_factory=list)
    waiter: Waiter | None = None

    @property
    def before_later(self) -> int:
        """The events that happen before those that follow this one."""
        return self.past | 1 << self.index

    @property
    def changed(self) -> bool:
        return any(x.kind not in ("read", "stay", "wait") for x in self.uses)


@dataclass(frozen=True, slots=True)
class Race:
    """Two conflicting events that aren't ordered. agent, past: of the second one, without the first."""

    first: int
    second: int
    agent: Agent
    past: int
    waits: bool


def is_memory(place: Place) -> bool:
    return place[0] not in ("barrier", "mbarrier", "cluster")


def conflicts(asleep: Use, done: Use) -> bool:
    """True if a use of the same place may have another effect after `done` than before it."""
    if is_memory(done.place):
        return asleep.kind != done.kind or done.kind == "write"
    if asleep.kind == "arrive":
        return done.kind != "arrive" or done.completes or done.phase != asleep.phase
    return done.kind == "arrive" and (done.completes or done.phase != asleep.phase)


def independent(asleep: Iterable[Use], done: Iterable[Use]) -> bool:
    at: dict[Place, list[Use]] = {}
    for use in done:
        at.setdefault(use.place, []).append(use)
    return not any(conflicts(x, y) for x in asleep for y in at.get(x.place, ()))


def initials(events: Sequence[Event], chosen: int) -> list[Agent]:
    """Return the agents that may come first among a bit set of events."""
    found = []
    left = chosen
    while left:
        event = events[(left & -left).bit_length() - 1]
        left &= left - 1
        if not event.past & chosen:
            found.append(event.agent)
    return found
