"""The registers of a chunk's threads: for each slot an array of one element per thread, or a uniform scalar."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..decode.translate import Program
from .lanes import Index, Lanes
from .special import initial_values


class Registers:
    """The registers of all threads. A partial group keeps its results separate while it runs."""

    def __init__(self, program: Program, lanes: Lanes, params: bytes) -> None:
        self.lanes = lanes
        #: the registers of all threads, by slot
        self.all: list[Any] = list(program.initial)
        for slot, value in initial_values(program, lanes, params):
            self.all[slot] = value
        #: slots whose array no other slot shares
        self.owned: set[int] = set()
        #: the group with separate values, these values by slot, and the slots that differ from `all`
        self.kept_group: Index | None = None
        self.kept: dict[int, Any] = {}
        self.changed: set[int] = set()

    def of_all(self) -> list[Any]:
        """Return the list of all registers, to run all threads together. The caller may replace its elements."""
        self.write_back()
        self.owned.clear()
        return self.all

    def of(self, group: Index, slots: Iterable[int]) -> list[Any]:
        if self.kept_group is not group:
            if self.kept_group is None or not np.array_equal(self.kept_group, group):
                self.write_back()
            self.kept_group = group
        kept = self.kept
        for slot in slots:
            if slot not in kept:
                kept[slot] = self.value(slot, group)
        return [kept[slot] for slot in slots]

    def keep(self, slots: Sequence[int], values: Sequence[Any]) -> None:
        self.kept.update(zip(slots, values, strict=True))
        self.changed.update(slots)

    def write_back(self) -> None:
        if self.kept_group is None:
            return
        for slot in self.changed:
            self.scatter(slot, self.kept_group, self.kept[slot])
        self.kept_group = None
        self.kept.clear()
        self.changed.clear()

    def scatter(self, slot: int, group: Index, value: Any) -> None:
        whole = self.all[slot]
        if slot not in self.owned:
            # Another register may share the array: `mov` and reinterpretation of a whole group don't copy.
            whole = np.full(self.lanes.total, whole) if not whole.ndim else whole.copy()
            self.all[slot] = whole
            self.owned.add(slot)
        whole[group] = value

    def value(self, slot: int, group: Index | None) -> Any:
        whole = self.all[slot]
        return whole if group is None or not whole.ndim else whole[group]

    def values(self, slots: Iterable[int], group: Index | None) -> list[tuple[int, Any]]:
        """Return (slot, value) of these registers for a group's threads, with the group's kept values."""
        kept = self.kept if group is not None and group is self.kept_group else {}
        if not kept:
            self.write_back()
        return [(s, kept[s] if s in kept else self.value(s, group)) for s in slots]
