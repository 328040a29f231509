"""Races with loads whose values are unused, and stores of values that should be equal.

Compilers replicate small tiles over the warps of a CTA: several threads load a location and compute the same result,
and one of them stores it there. The store races with the other threads' loads, which is harmless as long as the loaded
values are unused. Such a race is a warning only if all of the following hold:

- Reader and writer are in one CTA. The reader's instruction is an ordinary load (a weak ld or ldu without .nc).
- The value has uses, but only in arithmetic and selections, and as data of stores and atomics, not in addresses or
  branches. The reader executes none of these stores and atomics later.
- In shared memory, the writer's store is one of those that may use the value of that load.
- If the reader read before the racing store, it has executed none of them since the CTA's last barrier. The same holds
  for every other load from this memory since that barrier, because not every read is recorded.

Replicated computations may also differ in their last bits, for example if lanes add the same terms in other orders. If
shared memory is the compiler's own, threads of a CTA that store different values to a location by the same execution of
one instruction (each thread's n-th) are such replicas: a warning. Stores by two instructions or by two executions race.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ..decode.control_flow import ControlFlow
from ..decode.roles import LOAD_ROOTS
from ..machine.lanes import Index, Lanes
from .findings import Finding, Findings
from .precedence import Precedence
from .records import ACTOR, HALF, KIND, SEVERAL, CellAccess, Record, Shadow, actors_of

UNUSED = "\nno instruction uses the value that was read"


@dataclass(slots=True)
class UnusedRead:
    """A race that is a warning until one of `readers`, a mask of positions, executes one of `stores`."""

    finding: Finding
    hint: str
    readers: NDArray[np.bool_]
    stores: set[int]


#: the number of stores above which `Rounds` forgets those before the last barrier
MOST_ROUNDS = 64


class Rounds:
    """For each store, the number of times that each thread of the chunk has executed it."""

    def __init__(self, total: int, position: Callable[[Index], Index]) -> None:
        """total: number of threads of the chunk. position: converts actors of records to positions in the chunk."""
        self.total = total
        self.position = position
        self.counts: dict[int, NDArray[np.int32]] = {}
        #: event of a store → the counts of its instruction at that time
        self.at: dict[int, NDArray[np.int32]] = {}

    def execute(self, pc: int, positions: Index, base: int) -> NDArray[np.int32]:
        """Count an execution by the threads at `positions`, and return the counts. base: the oldest relevant event."""
        if len(self.at) > MOST_ROUNDS:
            self.at = {event: counts for event, counts in self.at.items() if event >= base}
        counts = self.counts.get(pc)
        counts = self.counts[pc] = np.zeros(self.total, np.int32) if counts is None else counts.copy()
        counts[positions] += 1
        return counts

    def of(self, records: Record) -> NDArray[np.int32]:
        """Return which execution of its instruction each record, of one thread's store, is; 0 if unknown."""
        result = np.zeros(records.size, np.int32)
        events = records >> HALF
        for event in np.unique(events).tolist():
            counts = self.at.get(event)
            if counts is not None:
                mine = np.flatnonzero(events == event)
                result[mine] = counts[self.position(actors_of(records[mine]))]
        return result

    def same(self, counts: NDArray[np.int32], me: Record, records: Record, shadow: Shadow) -> NDArray[np.bool_]:
        """Return a mask of the records whose writers' counts equal those of the threads `me`.

        counts: those of the instruction that `me` execute. records: earlier stores by the same instruction.
        """
        mine = counts[self.position(actors_of(me))]
        single = records & KIND == 0
        result = np.zeros(records.size, bool)
        result[single] = self.of(records[single]) == mine[single]
        for i in np.flatnonzero(records & KIND == SEVERAL).tolist():
            entries = shadow.log.chain(int(records[i] & ACTOR), 1 << 10)
            result[i] = bool((self.of(shadow.log.records[entries]) == mine[i]).all())
        return result


class Replicas:
    """Decides whether the values of a chunk's racing loads are used."""

    def __init__(self, control_flow: ControlFlow, precedence: Precedence, findings: Findings) -> None:
        self.control_flow = control_flow
        self.precedence = precedence
        self.order = precedence.order
        self.findings = findings
        self.places = findings.places

    def select(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.rounds = Rounds(lanes.total, self.order.position)
        # store or atomic → per thread, `order.event` when it last executed this in a group other than the whole chunk
        self.executed: dict[int, NDArray[np.uint32]] = {}
        # store or atomic → the value of `order.event` when all threads of the chunk last executed it together
        self.executed_by_all: dict[int, int] = {}
        self.unused: dict[tuple[int, int], UnusedRead] = {}

    def execute(self, pc: int) -> None:
        if self.lanes.group is None:
            self.executed_by_all[pc] = self.order.event
        else:
            if pc not in self.executed:
                self.executed[pc] = np.zeros(self.lanes.total, np.uint32)
            self.executed[pc][self.lanes.group] = self.order.event
        if self.unused:
            self.use(pc)

    def use(self, pc: int) -> None:
        """Promote each pending warning to an error if a reader is executing `pc` and `pc` uses the value read."""
        positions = self.lanes.positions()
        for key, read in list(self.unused.items()):
            users = positions[read.readers[positions]] if pc in read.stores else positions[:0]
            if users.size:
                del self.unused[key]
                user = self.lanes.describe_position(int(users[0]))
                use = f"\nand {user} uses the value that it has read\n  {self.places.describe(pc)}"
                read.finding.message = read.finding.message.replace(UNUSED, use)
                self.findings.escalate(read.finding, key, read.hint)

    def watch(self, finding: Finding, key: tuple[int, int], hint: str, readers: Record, stores: frozenset[int]) -> None:
        read = self.unused.get(key)
        if read is None:
            read = self.unused[key] = UnusedRead(finding, hint, np.zeros(self.lanes.total, bool), set())
        read.readers[self.order.position(actors_of(readers))] = True
        read.stores |= stores

    def stores_of(self, load: int, shadow: Shadow, since: int | None) -> frozenset[int] | None:
        """Return the stores and atomics that use a load's value; None if others may use it or the load isn't ordinary.

        since: an event; the result also covers all other loads from this memory since then.
        """
        facts = self.order.facts
        loads = {load}
        if since is not None:
            loads.update(pc for pc, event in shadow.read_by.items() if event >= since)
        result: set[int] = set()
        for pc in loads:
            ordinary = self.control_flow.function.body[pc].root in LOAD_ROOTS and not facts.strong[pc]
            stores = self.control_flow.stores_of(pc) if ordinary and not facts.constant[pc] else None
            if stores is None:
                return None
            result |= stores
        return frozenset(result)

    def examine(
        self, x: CellAccess, at: Index, records: Record, pc: int, did: str
    ) -> tuple[NDArray[np.bool_], frozenset[int]]:
        """Return a mask of the cells `at` whose race is only a warning, and the stores and atomics that use the value.

        In these cells, reader and writer are in one CTA, and the value is unused so far.
        pc: the instruction of the recorded accesses, which wrote or read (`did`).
        """
        shadow, cells = x.shadow, x.cells[at]
        ctas = self.order.home(actors_of(x.me[at]))[0]
        load, store = (pc, x.site.pc) if did == "read" else (x.site.pc, pc)
        stores = None
        if did == "wrote":
            if x.site.kind == "load":
                stores = self.stores_of(load, shadow, None)
        elif shadow.later_reads is not None:
            stores = self.stores_of(load, shadow, int(self.order.cta_start[ctas].min()))
        if not stores or (shadow.shared and store not in (self.control_flow.stores_of(load) or ())):
            return np.zeros(cells.size, bool), frozenset()
        harmless = (records & KIND == 0) & (self.order.home(actors_of(records))[0] == ctas)
        if did == "read":
            some = np.flatnonzero(harmless)
            positions = self.order.position(actors_of(records[some]))
            since = self.order.cta_start[ctas[some]]
            for store in stores & self.executed.keys():
                harmless[some] &= self.executed[store][positions] < since
            harmless[some] &= max([self.executed_by_all.get(store, -1) for store in stores]) < since
        return harmless, stores
