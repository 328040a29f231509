"""The mbarriers at one shared address, one per CTA of a chunk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass, replace
from ..checks.findings import Findings
from ..checks.order import HappensBefore, Message
from ..checks.phase_order import PhaseOrder
from .lanes import Index, Lanes
from .memory import MemoryRegion

# source: PTX ISA, "Size and alignment of the mbarrier object"
BYTES = 8
#: a state is the phase of an arrival and, in these low bits, the number of arrivals that were pending before it
PENDING_BITS = 20


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Threads that arrived at barriers of one address by one instruction, with each barrier's CTA and phase."""

    pc: int
    positions: Index
    ctas: Index
    phases: Index


@dataclass(frozen=True, slots=True)
class Arriving:
    """Executing threads that arrive at barriers of one address. ctas: the barriers' CTAs. each: arrivals per thread."""

    threads: Index
    ctas: Index
    each: Index
    drop: bool = False
    incomplete: bool = False

    def part(self, at: Index) -> Arriving:
        return replace(self, threads=self.threads[at], ctas=self.ctas[at], each=self.each[at])


@dataclass(slots=True)
class Wide:
    """The releases at cluster scope by other CTAs into the phases of barriers. coming, done: as in MBarrier."""

    coming: Message | None = None
    done: Message | None = None


class MBarrier:
    """The barriers at one shared address: each array has an element per CTA of the chunk.

    used: for each thread of the chunk, the event of its last use of its CTA's barrier, 0 if none.
    """

    def __init__(self, address: int, region: MemoryRegion, lanes: Lanes, name: str) -> None:
        ctas = lanes.ctas
        self.phase_order: PhaseOrder | None = None
        self.address = address
        self.name = name
        self.region = region
        #: the releases into the current phase, and into completed ones
        self.coming: Message | None = None
        self.done: Message | None = None
        #: additional releases, for waits at cluster scope
        self.wide = Wide()
        self.live = np.zeros(ctas, bool)
        #: True if the initializing thread has made the barrier visible to other agents
        self.fenced = np.zeros(ctas, bool)
        #: expected: arrivals per phase; pending: missing arrivals; tx: missing bytes, negative if some are early
        self.phase, self.expected, self.pending, self.tx = np.zeros((4, ctas), np.int64)
        #: instruction, thread and event of the initialization, and the event of the fence.mbarrier_init after it, or 0
        self.init_pc, self.init_position, self.init_event, self.published = np.zeros((4, ctas), np.int64)
        self.arrivals: list[Arrivals] = []
        self.used: Index = np.zeros(lanes.total, np.int64)

    def check_phase_order(self, order: HappensBefore, findings: Findings) -> None:
        self.phase_order = PhaseOrder(order, findings, any_warp=False)

    def cells(self, ctas: Index) -> Index:
        shift = self.region.shadow.cell_shift
        first = (self.address - self.region.base + ctas * self.region.stride) >> shift
        result: Index = first[:, None] + np.arange(BYTES >> shift)
        return result

    def states_before(self, ctas: Index, each: Index) -> NDArray[np.uint64]:
        """Return the state before each thread's arrivals. ctas: ascending. each: the number of arrivals per thread."""
        before = arrivals_before(ctas, each)
        phases, pending = self.phase[ctas], self.pending[ctas]
        late = before >= pending
        expects = np.maximum(self.expected[ctas], 1)
        phases = np.where(late, phases + 1 + (before - pending) // expects, phases)
        pending = np.where(late, expects - (before - pending) % expects, pending - before)
        return (phases << PENDING_BITS | pending).astype(np.uint64)

    def note(self, arrivals: Arrivals) -> None:
        """Record arrivals; if there are many records, drop those whose phases are all complete."""
        self.arrivals.append(arrivals)
        if len(self.arrivals) > 2 * self.live.size + 64:
            self.arrivals = [x for x in self.arrivals if (x.phases == self.phase[x.ctas]).any()]

    def last_arrivals(self, cta: int) -> list[tuple[int, Index]]:
        """Return [(instruction, threads)] of the last arrival at a CTA's barrier, or an empty list."""
        for x in reversed(self.arrivals):
            here = x.positions[x.ctas == cta]
            if here.size:
                return [(x.pc, here)]
        return []

    def forget(self, ctas: Index) -> None:
        if self.phase_order is not None:
            self.phase_order.forget(ctas)
        before, self.arrivals = self.arrivals, []
        for x in before:
            stays = ~np.isin(x.ctas, ctas)
            if stays.any():
                self.arrivals.append(Arrivals(x.pc, x.positions[stays], x.ctas[stays], x.phases[stays]))

    def arrived(self, cta: int, home: Index) -> list[tuple[int, Index]]:
        """Return (instruction, threads of a CTA) of the phase's arrivals at a barrier. home: the CTA of each thread."""
        result: dict[tuple[int, int], Index] = {}
        for x in self.arrivals:
            here = x.positions[(x.ctas == cta) & (x.phases == self.phase[cta])]
            for origin in np.unique(home[here]).tolist():
                key, some = (x.pc, origin), here[home[here] == origin]
                result[key] = np.concatenate([result[key], some]) if key in result else some
        return [(pc, positions) for (pc, _), positions in result.items()]


def arrivals_before(ctas: Index, counts: Index) -> Index:
    """Return the number of arrivals at the same CTA before each thread's. ctas: ascending. counts: per thread."""
    before = np.cumsum(counts) - counts
    firsts = np.searchsorted(ctas, ctas)
    return before - before[firsts]
