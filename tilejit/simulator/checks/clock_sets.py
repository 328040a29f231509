"""Vector clocks of single threads, as immutable rows of a table.

A *frontier* is the id of a row. A row has a column for each thread, warp, CTA or agent that any frontier includes:

    element     an event: the column's accesses up to and including it happen before what the frontier's owner does next
    row 0       the empty frontier
    column 0    unused, 0 in every row

The join of two frontiers is the maximum of their rows; if that equals one of them, no row is added. Rows that are added
together and differ little from their predecessors, as when the threads of an instruction update one location in turn,
are compressed into pages; a frontier that is a row of a page has an id of at least PAGED.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ...fast_unique import fast_unique
from ..machine.lanes import Index

Rows = NDArray[np.uint32]

THREAD, WARP_OF, CTA_OF, AGENT = 0, 1, 2, 3
#: the empty frontier
NOTHING = 0
#: approximate maximum number of row elements that are processed at once (4 MiB); also scales the thresholds of sweeps
STEP_ELEMENTS = 1 << 20
#: minimum number of row elements worth compressing into a page
WORTH_ELEMENTS = 1 << 16
#: log2 of the maximum number of rows of a page
PAGE_BITS = 10
# Frontiers from this id on are rows of pages: the high bits are the page's id, the low bits the row's index in it.
PAGED = 1 << 30
_ROW_OF_PAGE = (1 << PAGE_BITS) - 1


@dataclass(frozen=True, slots=True)
class Page:
    """Compressed rows: the first, and for each other row its changes against the row before: columns and new values."""

    first: Rows
    #: the index of each row's first change in `columns`; at the end, the number of changes
    starts: Index
    columns: NDArray[np.int32]
    values: Rows

    @property
    def elements(self) -> int:
        return self.first.size + 2 * self.values.size

    def rows(self) -> Rows:
        result = np.empty((self.starts.size - 1, self.first.size), np.uint32)
        result[0] = self.first
        for i in range(1, len(result)):
            result[i] = result[i - 1]
            changed = slice(self.starts[i], self.starts[i + 1])
            result[i, self.columns[changed]] = self.values[changed]
        return result


def page_of(rows: Rows) -> Page | None:
    """Return a page of these rows, or None if compression would save little."""
    if len(rows) < 2 or rows.size < WORTH_ELEMENTS:
        return None
    changed = rows[1:] != rows[:-1]
    per_row = np.count_nonzero(changed, axis=1)
    starts = np.concatenate([[0, 0], np.cumsum(per_row)])
    if 8 * int(starts[-1]) > rows.size:
        return None
    row, columns = np.nonzero(changed)
    return Page(rows[0].copy(), starts, columns.astype(np.int32), rows[1:][row, columns])


class ClockSets:
    """All frontiers of a launch. `sweep` drops those that are no longer used."""

    def __init__(self, threads: int, warps: int, ctas: int) -> None:
        """threads, warps, ctas: how many of them the grid has."""
        #: the column of each thread (counted from 1), warp, CTA and agent; 0 if it has none
        self.tables = [np.zeros(size, np.int32) for size in (threads + 1, warps, ctas, 0)]
        self.table = np.zeros((64, 128), np.uint32)
        #: number of columns and of rows of `table` in use
        self.width = 1
        self.count = 1
        self.sweep_at = 1024
        self.pages: dict[int, Page] = {}
        self.next_page = PAGED >> PAGE_BITS
        #: (id, rows) of the page that was decompressed last
        self.opened: tuple[int, Rows] = (0, self.table[:0])
        self.paged_elements = 0
        self.sweep_pages_at = 8 * STEP_ELEMENTS

    def columns(self, kind: int, ids: Index) -> Index:
        if kind == AGENT:
            self.need_agents(ids)
        table = self.tables[kind]
        missing = table[ids] == 0
        if np.count_nonzero(missing):
            fresh = fast_unique(ids[missing])
            table[fresh] = np.arange(self.width, self.width + fresh.size)
            self.width += fresh.size
            if self.width > self.table.shape[1]:
                wider = np.zeros((self.table.shape[0], self.width * 3 // 2), np.uint32)
                wider[: self.count, : self.table.shape[1]] = self.table[: self.count]
                self.table = wider
        return table[ids].astype(np.int64)

    def need_agents(self, agents: Index) -> None:
        missing = int(agents.max(initial=-1)) + 1 - self.tables[AGENT].size
        if missing > 0:
            self.tables[AGENT] = np.pad(self.tables[AGENT], (0, missing))

    def rows(self, numbers: Index) -> Rows:
        if not self.pages:
            return self.table[:, : self.width][numbers]
        result = self.table[:, : self.width][np.where(numbers < PAGED, numbers, NOTHING)]
        for at, rows in self.paged(numbers):
            result[at, : rows.shape[1]] = rows[numbers[at] & _ROW_OF_PAGE]
        return result

    def row(self, number: int) -> Rows:
        result: Rows = self.rows(np.array([number]))[0]
        return result

    def paged(self, numbers: Index) -> Iterator[tuple[Index, Rows]]:
        """Yield (indices into `numbers`, the page's rows) for each page that contains some of these frontiers."""
        at = np.flatnonzero(numbers >= PAGED)
        pages = numbers[at] >> PAGE_BITS
        for page in fast_unique(pages).tolist():
            if self.opened[0] != page:
                self.opened = page, self.pages[page].rows()
            yield at[pages == page], self.opened[1]

    def widened(self, rows: Rows) -> Rows:
        missing = self.width - rows.shape[-1]
        if not missing:
            return rows
        return np.concatenate([rows, np.zeros((*rows.shape[:-1], missing), np.uint32)], axis=-1)

    def keep(self, rows: Rows) -> Index:
        most = _ROW_OF_PAGE + 1
        if len(rows) > most:
            return np.concatenate([self.keep(rows[i : i + most]) for i in range(0, len(rows), most)])
        page = page_of(rows)
        if page is not None:
            return self.keep_page(page, len(rows))
        start, self.count = self.count, self.count + len(rows)
        if self.count > len(self.table):
            taller = np.zeros((max(2 * start, self.count), self.table.shape[1]), np.uint32)
            taller[:start] = self.table[:start]
            self.table = taller
        self.table[start : self.count, : self.width] = self.widened(rows)
        return np.arange(start, self.count)

    def keep_page(self, page: Page, count: int) -> Index:
        number = self.next_page
        while number in self.pages:
            number += 1
        # frontiers must be below 2**31: `joined` packs two of them into an int64
        self.next_page = number + 1 if number + 2 << PAGE_BITS < 2 * PAGED else PAGED >> PAGE_BITS
        self.pages[number] = page
        self.paged_elements += page.elements
        return (number << PAGE_BITS) + np.arange(count)

    def raised(self, numbers: Index, rows: Rows) -> Index:
        rows = self.widened(rows)
        before = self.rows(numbers)
        after = np.maximum(before, rows)
        more = np.flatnonzero((after != before).any(axis=1))
        result: Index = numbers.copy()
        if more.size:
            after = after[more]
            differs = np.append(True, (after[1:] != after[:-1]).any(axis=1))
            result[more] = self.keep(after[differs])[np.cumsum(differs) - 1]
        return result

    def raised_one(self, number: int, row: Rows) -> int:
        return int(self.raised(np.array([number]), row[None])[0])

    def joined(self, a: Index, b: Index) -> Index:
        result: Index = np.where(a == NOTHING, b, a)
        ask = np.flatnonzero((a != b) & (a != NOTHING) & (b != NOTHING))
        if not ask.size:
            return result
        pairs, which = np.unique(a[ask] << 32 | b[ask], return_inverse=True)
        numbers = np.empty(pairs.size, np.int64)
        step = max(1, STEP_ELEMENTS // self.width)
        for start in range(0, pairs.size, step):
            some = pairs[start : start + step]
            numbers[start : start + step] = self.joined_pairs(some >> 32, some & 0xFFFFFFFF)
        result[ask] = numbers[which.reshape(-1)]
        return result

    def joined_pairs(self, a: Index, b: Index) -> Index:
        ours, theirs = self.rows(a), self.rows(b)
        both = np.maximum(ours, theirs)
        result: Index = np.where((both == theirs).all(axis=1), b, a)
        more = np.flatnonzero((result == a) & (both != ours).any(axis=1))
        if more.size:
            result[more] = self.keep(both[more])
        return result

    def join(self, a: int, b: int) -> int:
        return int(self.joined(np.array([a]), np.array([b]))[0])

    def joined_groups(self, groups: Index) -> Index:
        low, high = groups.min(axis=1), groups.max(axis=1)
        if ((groups == low[:, None]) | (groups == high[:, None])).all():
            return self.joined(low, high)
        return np.array([self.number_of(self.joined_row(fast_unique(group))) for group in groups])

    def joined_row(self, numbers: Sequence[int] | Index) -> Rows:
        step = max(1, STEP_ELEMENTS // self.width)
        result: Rows = self.row(NOTHING).copy()
        for start in range(0, len(numbers), step):
            np.maximum(result, self.rows(np.asarray(numbers[start : start + step])).max(axis=0), out=result)
        return result

    def number_of(self, row: Rows) -> int:
        """Add `row` and return its frontier, or return NOTHING if all elements are 0."""
        return int(self.keep(row[None])[0]) if np.count_nonzero(row) else NOTHING

    @property
    def needs_sweep(self) -> bool:
        return self.count > self.sweep_at or self.paged_elements > self.sweep_pages_at

    def sweep(self, kept: Sequence[Index]) -> None:
        """Drop rows and pages that no array in `kept` uses; renumber the table's other rows, and update `kept`."""
        stays = np.zeros(self.count, bool)
        stays[NOTHING] = True
        pages: set[int] = set()
        for numbers in kept:
            paged = numbers >= PAGED
            stays[numbers[~paged]] = True
            pages.update(fast_unique(numbers[paged] >> PAGE_BITS).tolist())
        renamed = np.cumsum(stays) - 1
        for numbers in kept:
            inside = numbers < PAGED
            numbers[inside] = renamed[numbers[inside]]
        self.pages = {number: page for number, page in self.pages.items() if number in pages}
        self.opened = (0, self.table[:0])
        self.paged_elements = sum(page.elements for page in self.pages.values())
        self.sweep_pages_at = 2 * self.paged_elements + 8 * STEP_ELEMENTS
        rows = self.table[: self.count][stays]
        self.count = len(rows)
        self.table[: self.count] = rows
        self.sweep_at = 2 * self.count + max(64, 4 * STEP_ELEMENTS // self.width)

    def reach(self, numbers: Index, thread: Index, warp: Index, cta: Index, events: Index) -> NDArray[np.bool_]:
        """Return a mask, True if frontier `numbers[i]` includes `events[i]` for `thread[i]`, `warp[i]` or `cta[i]`."""
        until = np.zeros(numbers.size, np.uint32)
        for table, ids in zip(self.tables[:AGENT], (thread, warp, cta), strict=True):
            np.maximum(until, self.values(numbers, table[ids]), out=until)
        return events <= until

    def reach_agents(self, numbers: Index, agents: Index, events: Index) -> NDArray[np.bool_]:
        self.need_agents(agents)
        return events <= self.values(numbers, self.tables[AGENT][agents])

    def values(self, numbers: Index, columns: NDArray[np.int32]) -> NDArray[np.uint32]:
        result: NDArray[np.uint32] = self.table[np.where(numbers < PAGED, numbers, NOTHING), columns]
        for at, rows in self.paged(numbers) if self.pages else ():
            # a page lacks the columns that were added after it
            narrow = np.where(columns[at] < rows.shape[1], columns[at], 0)
            result[at] = rows[numbers[at] & _ROW_OF_PAGE, narrow]
        return result
