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
one instruction (the n-th of each since the last barrier) are such replicas: a warning. Stores by two instructions or by
two executions race.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ..decode.control_flow import ControlFlow
from ..decode.roles import LOAD_ROOTS
from ..machine.lanes import Index, Lanes
from .findings import Finding, Findings
from .precedence import Precedence
from .records import ACTOR, FOREVER, HALF, KIND, SEVERAL, CellAccess, Record, Shadow, actors_of

UNUSED = "\nno instruction uses the value that was read"


@dataclass(slots=True)
class UnusedRead:
    """A race that is a warning until one of `readers`, a mask of positions, executes one of `stores`."""

    finding: Finding
    hint: str
    readers: NDArray[np.bool_]
    stores: set[int]


class Replicas:
    """Decides whether the values of a chunk's racing loads are used, and whether stores are those of replicas."""

    def __init__(self, control_flow: ControlFlow, precedence: Precedence, findings: Findings, differ: bool) -> None:
        """differ: True if replicas of a computation may store different values to shared memory."""
        self.differ = differ
        self.control_flow = control_flow
        self.precedence = precedence
        self.order = precedence.order
        self.findings = findings
        self.places = findings.places

    def select(self, lanes: Lanes) -> None:
        self.lanes = lanes
        #: if replicas may differ: store → its executions since the last barriers, as (`order.event` before it, group)
        self.stored: dict[int, deque[tuple[int, Index | None]]] = {}
        #: store or atomic → per thread, the value of `order.event` when it last executed this
        self.executed: dict[int, NDArray[np.uint32]] = {}
        self.unused: dict[tuple[int, int], UnusedRead] = {}

    def execute(self, pc: int) -> None:
        if pc not in self.executed:
            self.executed[pc] = np.zeros(self.lanes.total, np.uint32)
        self.executed[pc][slice(None) if self.lanes.group is None else self.lanes.group] = self.order.event
        if self.unused:
            self.use(pc)

    def store(self, pc: int, space: str) -> None:
        """Note a store that is about to be executed."""
        self.execute(pc)
        if self.differ and space == "shared":
            stored = self.stored.setdefault(pc, deque())
            start = int(self.order.starts()[0].min())
            while stored and stored[0][0] < start:
                stored.popleft()
            stored.append((self.order.event, self.lanes.group))

    def executions(self, actors: Index, events: Index, pcs: Index) -> Index:
        """Return how often each thread has executed a store, between its last barrier and an event."""
        result = np.zeros(actors.size, np.int64)
        positions, starts = self.order.position(actors), self.order.cta_start[self.order.home(actors)[0]]
        for pc in np.unique(pcs).tolist():
            for event, group in self.stored.get(pc, ()):
                counted = (pcs == pc) & (starts <= event) & (event < events)
                result += counted & np.isin(positions, self.lanes.members(group))
        return result

    def executions_of(self, records: Record) -> Index:
        """Return the number of each record's execution of its store by its writer."""
        events = (records >> HALF).astype(np.int64)
        return self.executions(actors_of(records), events, self.order.pcs_of(events))

    def same_execution(self, pc: int, me: Record, records: Record, shadow: Shadow) -> NDArray[np.bool_]:
        """Return a mask of the earlier stores that are the same execution of `pc` as the store by the threads `me`."""
        mine = self.executions(actors_of(me), np.full(me.size, FOREVER), np.full(me.size, pc))
        single = records & KIND == 0
        result = np.zeros(records.size, bool)
        result[single] = self.executions_of(records[single]) == mine[single]
        for i in np.flatnonzero(records & KIND == SEVERAL).tolist():
            entries = shadow.log.chain(int(records[i] & ACTOR), 1 << 10)
            result[i] = bool((self.executions_of(shadow.log.records[entries]) == mine[i]).all())
        return result

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
        return harmless, stores
