"""Scopes: groups of threads that carry out something together, each one record.

The hardware nests them: thread < warp < warpgroup < CTA < cluster < grid. Whatever depends on the group (its size, the
axes of layouts that count within it, the ids that tell threads and groups apart) asks its record.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .dataclass import dataclass, field
from .forks import cached_property
from .target import MAX_THREADS
from .target import WARP as WARP_THREADS
from .target import WARPGROUP as WARPGROUP_THREADS

__all__ = [
    "CLUSTER", "CTA", "GRID", "LEVELS", "SCOPES", "THREAD", "THREAD_IDS", "WARP", "WARPGROUP", "Scope", "ThreadId",
]


@dataclass(frozen=True, slots=True)
class ThreadId:
    """A number that a thread of a CTA has: its index in the CTA // divisor % modulus (None: no remainder is taken)."""

    name: str
    divisor: int = 1
    modulus: int | None = None

    def of(self, threads: np.ndarray) -> np.ndarray:
        """The id of threads by their index in the CTA."""
        number = threads // self.divisor
        return number if self.modulus is None else number % self.modulus

    @property
    def greatest(self) -> int:
        """Its greatest value in the largest CTA."""
        return self.greatest_of(MAX_THREADS)

    def greatest_of(self, threads: int) -> int:
        """Its greatest value in a CTA of so many threads."""
        last = (threads - 1) // self.divisor
        return last if self.modulus is None else min(last, self.modulus - 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Scope:
    """A group of threads.

    size: threads of one instance; None where the launch decides.
    axes: the thread axes of layouts that count within it -> the name of the narrower scope that they count.
    aliases: its other names in kernels, `tj.<alias>`.
    thread_id: counts an instance's threads; None where there is one thread, or no such id.
    number_id: counts the instances in a CTA; None where a CTA has one, or is a part of it.
    operates: whether tile operations can be called on it.
    """

    name: str
    size: int | None
    axes: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    thread_id: ThreadId | None = None
    number_id: ThreadId | None = None
    operates: bool = True

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Scope({self.name!r})"

    @cached_property
    def level(self) -> int:
        """Its place in the order of scopes, 0 the narrowest."""
        return list(LEVELS).index(self.name)

    @cached_property
    def steps(self) -> dict[str, int]:
        """Thread axis -> how many of the scope's threads one step along it is, for all axes that count within it."""
        steps: dict[str, int] = {}
        for scope in tuple(LEVELS.values())[: self.level + 1]:
            for axis, unit in scope.axes.items():
                threads = LEVELS[unit].size
                assert threads is not None, f"{axis} counts {unit}s, whose size the launch decides"
                steps[axis] = threads
        return steps

    @property
    def axis(self) -> str | None:
        """The axis that counts its threads one by one; None where there is one thread."""
        return next((axis for axis, unit in self.axes.items() if unit == "thread"), None)

    def threads(self, cta: int) -> int:
        """The threads of one instance in a CTA of `cta` threads."""
        return cta if self.size is None else self.size

    def left_over(self, cta: int) -> int:
        """The threads of the last, partial instance in a CTA of `cta` threads; 0 where all are whole."""
        return cta % self.threads(cta)


THREAD = Scope(name="thread", size=1, number_id=ThreadId("thread_id"))
WARP = Scope(
    name="warp",
    size=WARP_THREADS,
    axes={"laneid": "thread"},
    thread_id=ThreadId("lane_id", 1, WARP_THREADS),
    number_id=ThreadId("warp_id", WARP_THREADS),
)
WARPGROUP = Scope(
    name="warpgroup",
    size=WARPGROUP_THREADS,
    axes={"wid_in_wg": "warp", "tid_in_wg": "thread"},
    aliases=("wg",),
    thread_id=ThreadId("tid_in_wg", 1, WARPGROUP_THREADS),
    number_id=ThreadId("warpgroup_id", WARPGROUP_THREADS),
)
CTA = Scope(
    name="cta",
    size=None,
    axes={"warpid": "warp", "wgid": "warpgroup", "tx": "thread"},
    thread_id=ThreadId("thread_id"),
)
CLUSTER = Scope(name="cluster", size=None, axes={"cbx": "cta", "cby": "cta", "cbz": "cta"}, operates=False)
GRID = Scope(name="grid", size=None, axes={"bx": "cta", "by": "cta", "bz": "cta"}, operates=False)

#: name -> scope, the narrowest first
LEVELS: dict[str, Scope] = {s.name: s for s in (THREAD, WARP, WARPGROUP, CTA, CLUSTER, GRID)}

#: name -> scope, of those that tile operations can be called on
SCOPES: dict[str, Scope] = {s.name: s for s in LEVELS.values() if s.operates}

#: name -> id, of all that tell the threads of a CTA apart
THREAD_IDS: dict[str, ThreadId] = {
    i.name: i for s in SCOPES.values() for i in (s.thread_id, s.number_id) if i is not None
}
