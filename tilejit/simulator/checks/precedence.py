"""Happens-before queries about recorded accesses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...fast_unique import fast_unique
from ..machine.lanes import Index
from ..opcodes.memory import Site
from .order import HappensBefore
from .records import ACTOR, END, FORGOTTEN, HALF, KIND, LOW, SEVERAL, Record, Shadow, actors_of, real

# Up to this length, chains of writers are followed for all queries at once. Longer chains are rare.
FEW_WRITERS = 1 << 10
# Maximum number of (writer, query) pairs of longer chains examined per access, in 1 s; further writers are ignored.
MOST_PAIRS = 1 << 24
# Number of writers of a longer chain that are examined at once.
STEP = 1 << 12


class Precedence:
    """Happens-before queries about a launch's records. me: for each record, the thread that now accesses its cell."""

    def __init__(self, order: HappensBefore) -> None:
        self.order = order
        self.strong = order.facts.strong
        self.wide = order.facts.wide

    def pcs(self, records: Record) -> Index:
        return self.order.pcs_of((records >> HALF).astype(np.int64))

    def peers(self, records: Record, site: Site, one_cta: bool) -> bool:
        """True if `site` and all records are strong accesses, whose scopes include all CTAs unless `one_cta`."""
        if not site.strong or not (one_cta or site.wide) or np.count_nonzero(real(records)) != records.size:
            return False
        reaching = self.strong if one_cta else self.wide
        return bool(np.count_nonzero(reaching[self.pcs(records)]) == records.size)

    def near(self, record: Record, me: Record) -> NDArray[np.bool_]:
        here, there = (self.order.reached(self.order.home(actors_of(each))[0]) for each in (me, record))
        result: NDArray[np.bool_] = here == there
        return result

    def ordered(self, record: Record, me: Record, strong: Site | None) -> NDArray[np.bool_]:
        """Return a mask, True if a record is ordered before `me`, or morally strong relative to the site `strong`."""
        event = (record >> HALF).astype(np.int64)
        result = self.order.ordered(actors_of(record), event, actors_of(me))
        if strong is not None:
            pcs = self.order.pcs_of(event)
            reach = self.strong[pcs]
            near = self.near(record, me)
            reach &= (self.wide[pcs] | near) if strong.wide else near
            result |= reach
        return result

    def before_my_barrier(self, records: Record, me: Record) -> NDArray[np.bool_]:
        """Return a mask of records by the CTA of `me` that precede its last barrier; all False if agents exist."""
        if self.order.clocks is not None and self.order.clocks.any_agents:
            return np.zeros(records.size, bool)
        my_cta, _ = self.order.home(actors_of(me))
        before: NDArray[np.bool_] = (records >> HALF).astype(np.int64) < self.order.cta_start[my_cta]
        at = np.flatnonzero(before)
        before[at] = self.order.home(actors_of(records[at]))[0] == my_cta[at]
        return before

    def writes_ordered(self, shadow: Shadow, record: Record, me: Record, site: Site, every: bool) -> NDArray[np.bool_]:
        """Return a mask, True if a record is FORGOTTEN, or some (`every`: each) writer is `me` or `ordered` before."""
        strong = site if site.strong else None
        kind = record & KIND
        result = np.ones(record.size, bool)
        single = np.flatnonzero(kind == 0)
        result[single] = ((record[single] & LOW) == me[single]) | self.ordered(record[single], me[single], strong)
        left = np.flatnonzero(kind == SEVERAL)
        entry = (record[left] & ACTOR).astype(np.int64)
        log = shadow.log
        for _ in range(FEW_WRITERS):
            if not left.size:
                return result
            one = log.records[entry]
            good = ((one & KIND) == FORGOTTEN) | ((one & LOW) == me[left])
            ask = np.flatnonzero(~good)
            good[ask] = self.ordered(one[ask], me[left[ask]], strong)
            # with `every`, one unordered writer decides the result; otherwise one ordered writer does
            settled = ~good if every else good
            result[left[settled]] = not every
            entry = log.following[entry]
            ends = ~settled & (entry == END)
            result[left[ends]] = every
            goes_on = ~settled & ~ends
            left, entry = left[goes_on], entry[goes_on]
        for start in fast_unique(entry).tolist():
            asked = left[entry == start]
            writers = log.records[log.chain(start, MOST_PAIRS // left.size)]
            for at in asked.tolist():
                result[at] = self.many_ordered(writers, me[at], strong, every)
        return result

    def many_ordered(self, writers: Record, me: np.uint64, strong: Site | None, every: bool) -> bool:
        for begin in range(0, writers.size, STEP):
            some = writers[begin : begin + STEP]
            good = ((some & KIND) == FORGOTTEN) | ((some & LOW) == me)
            ask = np.flatnonzero(~good)
            good[ask] = self.ordered(some[ask], np.full(ask.size, me), strong)
            if np.count_nonzero(good) != (good.size if every else 0):
                return not every
        return every

    def one_of(self, shadow: Shadow, record: int, me: int) -> int:
        """Return the record of one of a record's writers, other than `me` if the log lists another one."""
        kind, entry = record & int(KIND), record & int(ACTOR)
        while kind == int(SEVERAL) and entry != END:
            record = int(shadow.log.records[entry])
            if record & int(LOW) != me:
                break
            entry = int(shadow.log.following[entry])
        return record
