"""The barriers (mbarrier) that the CTAs of a chunk have at one place of their shared memory.

source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier", "Phase of the mbarrier object".
"""

from __future__ import annotations

import numpy as np

from ...dataclass import dataclass
from ..checks.order import Message
from .lanes import Index, Lanes
from .memory import MemoryRegion

# source: PTX ISA, "Size and alignment of the mbarrier object"
BYTES = 8


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Threads that one instruction made arrive at barriers of one address. phases: which phase each arrived in."""

    pc: int
    positions: Index
    phases: Index


class MBarrier:
    """The barriers at one shared address: an element of each array for each CTA of the chunk.

    name: in messages. live: whether there is one. phase: its number.
    expected: arrivals of a phase; pending: those that this one misses.
    tx: bytes that it misses, negative while more have come than were expected.
    coming, done: what has been released into this phase, and into those before it.
    made_by, made_at, made: the instruction, the thread and the event that made it. fenced: whether that thread has
    made it visible to other agents (fence.mbarrier_init).
    used: of each thread of the chunk, the event at which it used its CTA's barrier last, 0 for never.
    """

    def __init__(self, address: int, region: MemoryRegion, lanes: Lanes, name: str) -> None:
        ctas = lanes.ctas
        self.address = address
        self.name = name
        self.region = region
        self.coming: Message | None = None
        self.done: Message | None = None
        self.live = np.zeros(ctas, bool)
        self.fenced = np.zeros(ctas, bool)
        self.phase, self.expected, self.pending, self.tx = np.zeros((4, ctas), np.int64)
        self.made_by, self.made_at, self.made = np.zeros((3, ctas), np.int64)
        self.arrivals: list[Arrivals] = []
        self.used: Index = np.zeros(lanes.total, np.int64)

    def cells(self, ctas: Index) -> Index:
        """The cells of the barriers' bytes in their region's shadow, a row for each CTA."""
        shift = self.region.shadow.cell_shift
        first = (self.address - self.region.base + ctas * self.region.stride) >> shift
        result: Index = first[:, None] + np.arange(BYTES >> shift)
        return result

    def note(self, arrivals: Arrivals, cta_of: Index) -> None:
        """Remember who has arrived, and forget those whose phases are over."""
        self.arrivals.append(arrivals)
        if len(self.arrivals) > 2 * self.live.size + 64:
            self.arrivals = [x for x in self.arrivals if (x.phases == self.phase[cta_of[x.positions]]).any()]

    def forget(self, ctas: Index, cta_of: Index) -> None:
        """Forget who arrived in CTAs whose barrier is another one from here on."""
        before, self.arrivals = self.arrivals, []
        for x in before:
            stays = ~np.isin(cta_of[x.positions], ctas)
            if stays.any():
                self.arrivals.append(Arrivals(x.pc, x.positions[stays], x.phases[stays]))

    def arrived(self, cta: int, cta_of: Index) -> list[tuple[int, Index]]:
        """(instruction, threads) of the arrivals in the current phase of a CTA's barrier."""
        result: dict[int, Index] = {}
        for x in self.arrivals:
            here = x.positions[(cta_of[x.positions] == cta) & (x.phases == self.phase[cta])]
            if here.size:
                result[x.pc] = np.concatenate([result[x.pc], here]) if x.pc in result else here
        return list(result.items())
