"""Tracking of the memory that decides whether loops continue."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..opcodes.memory import Site
from .memory import Bound


class Watched:
    """The bytes that deciding loads have read.

    loads: the memory instructions whose results decide whether a loop continues.
    events: incremented when a deciding load reads new bytes, and by each access that may have changed such bytes.
    changes: incremented by each access that changed any memory.
    """

    def __init__(self, loads: frozenset[int]) -> None:
        self.loads = loads
        self.events = 0
        self.changes = 0
        # by the region's id, since regions live as long as the launch
        self.marks: dict[int, NDArray[np.bool_]] = {}

    def read(self, site: Site, bound: Bound, index: NDArray[Any]) -> None:
        if site.index not in self.loads:
            return
        marks = self.marks.setdefault(id(bound.region), np.zeros(bound.region.memory.size, bool))
        each = places(bound, index, site)
        if np.count_nonzero(marks[each]) < each.size:
            marks[each] = True
            self.events += 1

    def write(self, site: Site, bound: Bound, index: NDArray[Any], changed: bool) -> None:
        self.changes += changed
        marks = self.marks.get(id(bound.region))
        # a deciding atomic that changed nothing does so again in an equal state; a store may store another value then
        if marks is not None and (changed or site.index not in self.loads):
            self.events += bool(np.count_nonzero(marks[places(bound, index, site)]))

    def written_elsewhere(self) -> None:
        """Record a change of memory or of a barrier's state, other than by a load, store or atomic."""
        self.events += 1
        self.changes += 1


def places(bound: Bound, index: NDArray[Any], site: Site) -> NDArray[np.int64]:
    """Return the bytes of elements, as offsets in the region's memory."""
    return bound.lead + (index << site.shift)[:, None] + np.arange(1 << site.shift)
