"""Records of cp.async copies in flight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ..opcodes.memory import Site
from .lanes import Index
from .memory import MemoryRegion


@dataclass(frozen=True, slots=True)
class CopySide:
    """The reads, or the writes, of a batch of copies in one region.

    at: indices of the copies in the batch. index: the element of `view` that each copy accesses.
    cells: the accessed cells of the region's shadow, one row per copy; None if the region isn't checked.
    """

    at: Index
    region: MemoryRegion
    view: NDArray[Any]
    index: Index
    cells: Index | None
    site: Site


@dataclass(slots=True)
class Batch:
    """The copies that one instruction started for the threads of a group."""

    pc: int
    #: each copy's thread, by position in the chunk
    positions: Index
    #: each copy's thread, by number in the grid from 1
    threads: NDArray[np.uint64]
    #: the number of each copy's group in its thread
    groups: Index
    data: NDArray[Any]
    targets: list[CopySide]
    sources: list[CopySide]
    #: the copies that are still in flight
    left: NDArray[np.bool_]


def touching(batches: list[Batch], region: MemoryRegion, cells: Index, targets: bool) -> tuple[Batch, int, int] | None:
    """Return (batch, copy, index in `cells`) of a copy in flight to (if `targets`) or from one of `cells`; or None."""
    for batch in batches:
        for side in batch.targets if targets else batch.sources:
            if side.region is not region or side.cells is None:
                continue
            hit = np.isin(side.cells, cells) & batch.left[side.at][:, None]
            if np.count_nonzero(hit):
                row, column = (int(x[0]) for x in np.nonzero(hit))
                return batch, int(side.at[row]), int(np.flatnonzero(cells == side.cells[row, column])[0])
    return None
