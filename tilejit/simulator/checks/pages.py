"""Compression of rows that differ little from their predecessors, as when threads update one location one by one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ..machine.lanes import Index

Rows = NDArray[np.uint32]
#: minimum number of elements worth compressing
WORTH_ELEMENTS = 1 << 16
#: log2 of the rows of a full page
PAGE_BITS = 10


@dataclass(frozen=True, slots=True)
class Page:
    """Compressed rows: the first one, and for each other row the columns and values that differ from the row before."""

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
