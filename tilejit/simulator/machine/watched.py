"""Memory that decides how loops go on: which bytes were read so, and how often they may have changed since."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..opcodes.memory import Site
from .memory import Bound


class Watched:
    """The bytes that deciding loads have read.

    loads: the numbers of the memory instructions that decide.
    events: grows with each byte that is new here, and with each access that may have changed one.
    changes: grows with each access that has changed memory anywhere.
    """

    def __init__(self, loads: frozenset[int]) -> None:
        self.loads = loads
        self.events = 0
        self.changes = 0
        # by the identity of the region, which lives as long as the launch
        self.marks: dict[int, NDArray[np.bool_]] = {}

    def read(self, site: Site, bound: Bound, index: NDArray[Any]) -> None:
        """A load of these elements."""
        if site.index not in self.loads:
            return
        marks = self.marks.setdefault(id(bound.region), np.zeros(bound.region.memory.size, bool))
        each = places(bound, index, site)
        if np.count_nonzero(marks[each]) < each.size:
            marks[each] = True
            self.events += 1

    def write(self, site: Site, bound: Bound, index: NDArray[Any], changed: bool) -> None:
        """A store or an update of these elements. changed: whether it has changed a value."""
        self.changes += changed
        marks = self.marks.get(id(bound.region))
        # what an update stores that decides itself follows from what decides; what a store stores may change yet
        if marks is not None and (changed or site.index not in self.loads):
            self.events += bool(np.count_nonzero(marks[places(bound, index, site)]))

    def written_elsewhere(self) -> None:
        """Something else has changed memory."""
        self.events += 1
        self.changes += 1


def places(bound: Bound, index: NDArray[Any], site: Site) -> NDArray[np.int64]:
    """The bytes of elements, by their place in the region's memory."""
    result: NDArray[np.int64] = bound.lead + (index << site.shift)[:, None] + np.arange(1 << site.shift)
    return result
