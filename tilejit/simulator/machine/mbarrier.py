"""The mbarriers at one shared address, one per CTA of a chunk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass, replace
from ..checks.order import Releases
from ..checks.phase_order import PhaseOrder
from .access import Access
from .lanes import Index, Lanes
from .memory import MemoryRegion
from .operations import Operations

# source: PTX ISA, "Size and alignment of mbarrier object"
BYTES = 8
#: an arrival returns a state: its phase and, in this number of low bits, the number of arrivals pending before it
PENDING_BITS = 20


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Threads that arrived at the barriers at one address in one instruction, with their target CTAs and phases."""

    pc: int
    positions: Index
    ctas: Index
    phases: Index
    #: 0 without checks
    event: int = 0


@dataclass(frozen=True, slots=True)
class Arriving:
    """Executing threads that arrive at the barriers at one address, with their target CTAs and numbers of arrivals."""

    threads: Index
    ctas: Index
    each: Index
    drop: bool = False
    incomplete: bool = False

    def part(self, at: Index) -> Arriving:
        return replace(self, threads=self.threads[at], ctas=self.ctas[at], each=self.each[at])


class MBarrier:
    """The barriers at one shared address: each array but `used` has an element per CTA of the chunk.

    used: for each thread of the chunk, the event of its last use of its CTA's barrier, 0 if none.
    """

    def __init__(self, address: int, region: MemoryRegion, lanes: Lanes, name: str) -> None:
        ctas = lanes.ctas
        self.phase_order: PhaseOrder | None = None
        self.address = address
        self.name = name
        self.region = region
        self.near = Releases()
        #: what arrivals from other CTAs release only to waits at cluster scope
        self.wide = Releases()
        self.live = np.zeros(ctas, bool)
        #: True if the initializing thread has made the barrier visible to asynchronous operations
        self.fenced = np.zeros(ctas, bool)
        #: expected: arrivals per phase; pending: missing arrivals; tx: missing bytes, negative if some are early
        self.phase, self.expected, self.pending, self.tx = np.zeros((4, ctas), np.int64)
        #: instruction, thread and event of the initialization; event of the thread's next fence.mbarrier_init, or 0
        self.init_pc, self.init_position, self.init_event, self.published = np.zeros((4, ctas), np.int64)
        self.arrivals: list[Arrivals] = []
        self.used: Index = np.zeros(lanes.total, np.int64)
        #: for the phases of each remainder modulo 3, the last one in which bytes have arrived, or -1
        self.got_bytes = np.full((3, ctas), -1)

    def cells(self, ctas: Index) -> Index:
        shift = self.region.shadow.cell_shift
        first = (self.address - self.region.base + ctas * self.region.stride) >> shift
        result: Index = first[:, None] + np.arange(BYTES >> shift)
        return result

    def states_before(self, ctas: Index, each: Index) -> NDArray[np.uint64]:
        """Return the state before each thread's arrivals. ctas: target CTAs, ascending. each: arrivals per thread."""
        # per thread: the number of earlier threads' arrivals at the same CTA's barrier
        before = np.cumsum(each) - each
        before -= before[np.searchsorted(ctas, ctas)]
        phases, pending = self.phase[ctas], self.pending[ctas]
        late = before >= pending
        expects = np.maximum(self.expected[ctas], 1)
        phases = np.where(late, phases + 1 + (before - pending) // expects, phases)
        pending = np.where(late, expects - (before - pending) % expects, pending - before)
        return (phases << PENDING_BITS | pending).astype(np.uint64)

    def note(self, arrivals: Arrivals) -> None:
        """Record arrivals; if there are many records, drop those without an arrival in one of the last three phases."""
        self.arrivals.append(arrivals)
        if len(self.arrivals) > 2 * self.live.size + 64:
            self.arrivals = [x for x in self.arrivals if (x.phases + 2 >= self.phase[x.ctas]).any()]

    def last_arrival(self, cta: int) -> list[int]:
        """Return [instruction of the last recorded arrival at a CTA's barrier], or [] if there is none."""
        return [x.pc for x in self.arrivals if (x.ctas == cta).any()][-1:]

    def forget(self, ctas: Index) -> None:
        if self.phase_order is not None:
            self.phase_order.forget(ctas)
        self.got_bytes[:, ctas] = -1
        before, self.arrivals = self.arrivals, []
        for x in before:
            stays = ~np.isin(x.ctas, ctas)
            if stays.any():
                self.arrivals.append(Arrivals(x.pc, x.positions[stays], x.ctas[stays], x.phases[stays], x.event))

    def arrived(self, cta: int, home: Index) -> list[tuple[int, Index]]:
        """Return arrivals in `cta`'s current phase, as (instruction, threads of one CTA). home: each thread's CTA."""
        result: dict[tuple[int, int], Index] = {}
        for x in self.arrivals:
            here = x.positions[(x.ctas == cta) & (x.phases == self.phase[cta])]
            for origin in np.unique(home[here]).tolist():
                key, some = (x.pc, origin), here[home[here] == origin]
                result[key] = np.concatenate([result[key], some]) if key in result else some
        return [(pc, positions) for (pc, _), positions in result.items()]


# the maximum number of groups of arrivals, each of one CTA at one instruction, that a message lists for a barrier
NAMED_ARRIVALS = 4


class Waits:
    """Each thread's wait for an incomplete phase. barrier: an index in `barriers`, 0 if the thread doesn't wait."""

    def __init__(self, access: Access, operations: Operations) -> None:
        self.lanes = access.lanes
        self.places = access.places
        self.operations = operations
        self.barriers: list[MBarrier | None] = [None]
        self.barrier, self.phase, self.pc = np.zeros((3, self.lanes.total), np.int64)
        self.kinds = np.full(self.lanes.total, "parity")

    def set(self, barrier: MBarrier, positions: Index, phases: Index, kind: str, pc: int) -> None:
        if barrier not in self.barriers:
            self.barriers.append(barrier)
        self.barrier[positions] = self.barriers.index(barrier)
        self.phase[positions] = phases
        self.pc[positions] = pc
        self.kinds[positions] = kind

    def clear(self, positions: Index) -> None:
        self.barrier[positions] = 0

    def describe(self, positions: Index, pcs: frozenset[int]) -> tuple[list[str], Index]:
        """Return descriptions of threads' waits at the instructions `pcs`, and the threads that don't wait there."""
        matches = (self.barrier[positions] > 0) & np.isin(self.pc[positions], list(pcs))
        here = positions[matches]
        cta_of = self.lanes.full["chunk_cta"]
        keys = np.stack([self.barrier[here], self.phase[here], self.pc[here], cta_of[here]])
        lines = []
        seen: set[tuple[int, int, int]] = set()
        more: set[int] = set()
        for key in sorted(map(tuple, np.unique(keys, axis=1).T.tolist())):
            if key[:3] in seen:
                more.add(key[3])
                continue
            seen.add(key[:3])
            lines.append(self.describe_one(here[(keys == np.array(key)[:, None]).all(axis=0)]))
        lines.extend([f"the same holds in {len(more)} more CTA{'s' * (len(more) > 1)}"] if more else [])
        return lines, positions[~matches]

    def describe_one(self, positions: Index) -> str:
        at = int(positions[0])
        barrier = self.barriers[int(self.barrier[at])]
        assert barrier is not None, "a waiter has a barrier"
        awaited, kind = int(self.phase[at]), str(self.kinds[at])
        cta = int(self.lanes.full["chunk_cta"][at])
        phase = f"a phase of parity {awaited & 1}" if kind == "parity" else f"phase {awaited}"
        return (
            f"{self.lanes.describe_waiters(positions)} for {phase} of {barrier.name}\n"
            f"  {self.places.describe(int(self.pc[at]))}\n  {self.describe_phase(barrier, cta)}"
        )

    def describe_phase(self, barrier: MBarrier, cta: int) -> str:
        """Describe a phase, as in 'it is in phase 2: 0 of 1 arrivals, 16,384 bytes missing', and list some arrivals."""
        expected, tx = int(barrier.expected[cta]), int(barrier.tx[cta])
        here = expected - int(barrier.pending[cta])
        text = f"it is in phase {int(barrier.phase[cta])}: {here} of {expected} arrivals"
        if tx > 0:
            named = "" if self.operations.naming(barrier.address, cta) else "; no operation in flight signals it"
            text += f", {tx:,} bytes missing{named}"
        elif tx < 0:
            text += f", {-tx:,} bytes more than were expected"
        for pc, positions in barrier.arrived(cta, self.lanes.full["chunk_cta"])[:NAMED_ARRIVALS]:
            text += f"\n  {self.lanes.party(positions)} arrived\n    {self.places.describe(pc)}"
        return text
