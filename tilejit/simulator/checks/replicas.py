"""Races with loads whose values nothing uses.

Compilers replicate small tiles over the warps of a CTA: several threads load a place by one instruction and compute the
same, and one of them stores the result there. The store races with the other threads' loads, which does no harm as long
as nothing uses what these have read. Such a race is a warning. It is an error where anything is in doubt, namely unless

- the reader and the writer are of one CTA, and the writer has read the place before by the reader's instruction, an
  ordinary load into registers, and its store depends on that load;
- only arithmetic, stores and atomics depend on the value, and the reader has executed none of those stores and atomics
  since the last barrier of the CTA, nor executes one later;
- the same is true of every other unordered reader of the place, and of every instruction that has read this memory
  since the barrier, as records keep only one read of a thread.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ..decode.courses import Courses
from ..machine.lanes import Index, Lanes
from ..opcodes.memory import Site
from .findings import Finding, Findings
from .places import PtxPlaces
from .precedence import Precedence
from .records import HALF, KIND, LOW, Record, Shadow, who

UNUSED = "\nno instruction uses the value that was read"


@dataclass(slots=True)
class UnusedRead:
    """A race that is a warning until one of the readers, by position, executes one of the stores."""

    finding: Finding
    hint: str
    readers: NDArray[np.bool_]
    stores: set[int]


class Replicas:
    """Decides whether anything uses what racy loads of a chunk have read."""

    def __init__(self, courses: Courses, precedence: Precedence, findings: Findings, places: PtxPlaces) -> None:
        self.courses = courses
        self.precedence = precedence
        self.order = precedence.order
        self.findings = findings
        self.places = places

    def select(self, lanes: Lanes) -> None:
        """Start a chunk."""
        self.lanes = lanes
        # store or atomic -> the event before each thread of the chunk, or all together, executed it last
        self.executed: dict[int, NDArray[np.uint32]] = {}
        self.executed_by_all: dict[int, int] = {}
        self.unused: dict[tuple[int, int], UnusedRead] = {}

    def execute(self, pc: int) -> None:
        """Note that the executing threads are about to execute a store or an atomic."""
        if self.lanes.group is None:
            self.executed_by_all[pc] = self.order.event
        else:
            if pc not in self.executed:
                self.executed[pc] = np.zeros(self.lanes.total, np.uint32)
            self.executed[pc][self.lanes.group] = self.order.event
        if self.unused:
            self.use(pc)

    def use(self, pc: int) -> None:
        """Report the races of those executing threads that use what they have read."""
        positions = self.lanes.positions()
        for key, read in list(self.unused.items()):
            users = positions[read.readers[positions]] if pc in read.stores else positions[:0]
            if users.size:
                del self.unused[key]
                user = self.lanes.describe_position(int(users[0]))
                use = f"\nand {user} uses what it has read\n  {self.places.describe(pc)}"
                read.finding.message = read.finding.message.replace(UNUSED, use)
                self.findings.worsen(read.finding, key, read.hint)

    def watch(self, finding: Finding, key: tuple[int, int], hint: str, readers: Record, stores: frozenset[int]) -> None:
        """Report a warning's race as soon as one of the readers executes one of the stores. key: both instructions."""
        read = self.unused.get(key)
        if read is None:
            read = self.unused[key] = UnusedRead(finding, hint, np.zeros(self.lanes.total, bool), set())
        read.readers[self.order.position(who(readers))] = True
        read.stores |= stores

    def stores_of(self, load: int, shadow: Shadow, since: int | None) -> frozenset[int] | None:
        """Return the stores and atomics that may use what a load gives, None if more may.

        since: the event since which threads may have read the same place by another instruction, None if none has.
        """
        facts = self.precedence.facts
        loads = {load}
        if since is not None:
            loads.update(pc for pc, event in shadow.read_by.items() if event >= since)
        result: set[int] = set()
        for pc in loads:
            ordinary = self.courses.function.body[pc].root in ("ld", "ldu") and not facts.strong[pc]
            stores = self.courses.stores_of(pc) if ordinary and not facts.constant[pc] else None
            if stores is None:
                return None
            result |= stores
        return frozenset(result)

    def examine(
        self, shadow: Shadow, cells: Index, me: Record, records: Record, site: Site, pc: int, did: str
    ) -> tuple[NDArray[np.bool_], frozenset[int]]:
        """Return at which cells nothing uses what was read, so far, and the stores and atomics that might.

        pc, did: the other access of each race; `records` say by whom.
        """
        ctas = self.order.home(who(me))[0]
        stores = None
        if did == "read":
            load, readers, writers = pc, records, me
            if shadow.later_reads is not None:
                stores = self.stores_of(load, shadow, int(self.order.cta_start[ctas].min()))
        else:
            load, readers, writers = site.pc, me, records
            if site.kind == "load":
                stores = self.stores_of(load, shadow, None)
        if stores is None or (site.pc if did == "read" else pc) not in (self.courses.stores_of(load) or ()):
            return np.zeros(cells.size, bool), frozenset()
        harmless = (records & KIND == 0) & (self.order.home(who(records))[0] == ctas)
        until = np.full(cells.size, self.order.event) if did == "read" else records >> HALF
        harmless &= self.has_read(shadow, cells, writers, load, until)
        if did == "read":
            at = np.flatnonzero(harmless)
            positions = self.order.position(who(readers[at]))
            since = self.order.cta_start[ctas[at]]
            for store in stores & self.executed.keys():
                harmless[at] &= self.executed[store][positions] < since
            harmless[at] &= max([self.executed_by_all.get(store, -1) for store in stores]) < since
        return harmless, stores

    def has_read(self, shadow: Shadow, cells: Index, threads: Record, load: int, until: Record) -> NDArray[np.bool_]:
        """Return where each thread has read its cell by a load, last at an event `until` or before."""
        result = np.zeros(cells.size, bool)
        for column in (shadow.first_reads, shadow.last_reads):
            reads = column[cells]
            result |= ((reads ^ threads) & LOW == 0) & (self.precedence.pcs(reads) == load) & (reads >> HALF <= until)
        wanted = cells.astype(np.uint64) << HALF | threads & LOW
        for places, reads in shadow.later_reads or ():
            if int(self.precedence.pcs(reads[:1])[0]) == load:
                known = places.astype(np.uint64) << HALF | reads & LOW
                result |= np.isin(wanted, known) & (reads[0] >> HALF <= until)
        return result
