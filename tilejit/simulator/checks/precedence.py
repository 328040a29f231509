"""Which of the accesses that records name come before another access, in every order of the threads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...fast_unique import fast_unique
from ..decode.ordering import Ordering
from ..machine.lanes import Index
from ..opcodes.memory import Site
from .order import HappensBefore
from .records import END, FORGOTTEN, HALF, KIND, LOW, SEVERAL, WHO, Record, Shadow, real, who

# Of so many writers of one value the order is looked at for all who ask together; it is seldom asked of more.
FEW_WRITERS = 1 << 10
# So many pairs of a writer and one who asks are looked at in one access: 1 s.
MOST_PAIRS = 1 << 24
# Writers of one value that are looked at in one step.
STEP = 1 << 12


class Precedence:
    """Answers for the records of one launch."""

    def __init__(self, order: HappensBefore, facts: Ordering) -> None:
        self.order = order
        self.facts = facts
        self.strong = facts.strong
        self.wide = facts.wide

    def pcs(self, records: Record) -> Index:
        """The instruction of each record."""
        return self.order.pcs_of((records >> HALF).astype(np.int64))

    def peers(self, records: Record, site: Site, one_cta: bool) -> bool:
        """Whether all records are accesses that `site` needn't be ordered with, wherever their threads are."""
        if not site.strong or not (one_cta or site.wide) or np.count_nonzero(real(records)) != records.size:
            return False
        reaching = self.strong if one_cta else self.wide
        return bool(np.count_nonzero(reaching[self.pcs(records)]) == records.size)

    def near(self, record: Record, me: Record) -> NDArray[np.bool_]:
        """Whether any scope of one reaches the other."""
        here, there = (self.order.reached(self.order.home(who(each))[0]) for each in (me, record))
        result: NDArray[np.bool_] = here == there
        return result

    def ordered(self, record: Record, me: Record, strong: Site | None) -> NDArray[np.bool_]:
        """Whether something orders the recorded access of one thread each before mine. `strong`: mine, if it is."""
        event = (record >> HALF).astype(np.int64)
        result = self.order.ordered(who(record), event, who(me))
        if strong is not None:
            pcs = self.order.pcs_of(event)
            reach = self.strong[pcs]
            near = self.near(record, me)
            reach &= (self.wide[pcs] | near) if strong.wide else near
            result |= reach
        return result

    def before_my_barrier(self, records: Record, me: Record) -> NDArray[np.bool_]:
        """Which records are of threads of my CTA, before its last barrier. me: for each of them.

        Not one where there are agents of copies or products, for which no barrier waits.
        """
        if self.order.clocks is not None and self.order.clocks.any_agents:
            return np.zeros(records.size, bool)
        my_cta, _ = self.order.home(who(me))
        behind: NDArray[np.bool_] = (records >> HALF).astype(np.int64) < self.order.cta_start[my_cta]
        at = np.flatnonzero(behind)
        behind[at] = self.order.home(who(records[at]))[0] == my_cta[at]
        return behind

    def writes_ordered(self, shadow: Shadow, record: Record, me: Record, site: Site, every: bool) -> NDArray[np.bool_]:
        """Whether all writers that records name are ordered before me (or are me), or with `every` off any of them."""
        strong = site if site.strong else None
        kind = record & KIND
        result = np.ones(record.size, bool)
        single = np.flatnonzero(kind == 0)
        result[single] = ((record[single] & LOW) == me[single]) | self.ordered(record[single], me[single], strong)
        left = np.flatnonzero(kind == SEVERAL)
        entry = (record[left] & WHO).astype(np.int64)
        log = shadow.log
        for _ in range(FEW_WRITERS):
            if not left.size:
                return result
            one = log.records[entry]
            good = ((one & KIND) == FORGOTTEN) | ((one & LOW) == me[left])
            ask = np.flatnonzero(~good)
            good[ask] = self.ordered(one[ask], me[left[ask]], strong)
            # one that is ordered settles the question, or with `every` one that is not
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
        """Whether all of many writers are ordered before me (or are me), or with `every` off any of them."""
        for begin in range(0, writers.size, STEP):
            some = writers[begin : begin + STEP]
            good = ((some & KIND) == FORGOTTEN) | ((some & LOW) == me)
            ask = np.flatnonzero(~good)
            good[ask] = self.ordered(some[ask], np.full(ask.size, me), strong)
            if np.count_nonzero(good) != (good.size if every else 0):
                return not every
        return every

    def one_of(self, shadow: Shadow, record: int, me: int) -> int:
        """A record of one thread other than `me` among the writers that a record names."""
        kind, entry = record & int(KIND), record & int(WHO)
        while kind == int(SEVERAL) and entry != END:
            record = int(shadow.log.records[entry])
            if record & int(LOW) != me:
                break
            entry = int(shadow.log.following[entry])
        return record
