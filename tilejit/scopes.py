"""Scopes: groups of threads that execute an operation collectively.

They nest: thread < warp < warpgroup < CTA < cluster < grid. A `Scope` has a size, thread axes, and ids of threads and
instances.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .dataclass import dataclass, field
from .forks import cached_property
from .target import MAX_THREADS
from .target import WARP as WARP_THREADS
from .target import WARPGROUP as WARPGROUP_THREADS


@dataclass(frozen=True, slots=True)
class ThreadId:
    """An id of threads: the thread's index in its CTA // `divisor`, modulo `modulus` unless that is None."""

    name: str
    divisor: int = 1
    modulus: int | None = None

    def of(self, threads: np.ndarray) -> np.ndarray:
        """Return the ids of the threads with these indices in the CTA."""
        number = threads // self.divisor
        return number if self.modulus is None else number % self.modulus

    @property
    def greatest(self) -> int:
        return self.greatest_of(MAX_THREADS)

    def greatest_of(self, threads: int) -> int:
        """Return the greatest id in a CTA of `threads` threads."""
        last = (threads - 1) // self.divisor
        return last if self.modulus is None else min(last, self.modulus - 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Scope:
    """A scope. Each of its instances in a launch is a group of threads."""

    name: str
    #: threads per instance, None if the launch determines it
    size: int | None
    #: thread axis of layouts that ranges over the scope -> name of the narrower scope whose instances it counts
    axes: Mapping[str, str] = field(default_factory=dict)
    #: other names in kernels, `tj.<alias>`
    aliases: tuple[str, ...] = ()
    #: id of a thread in its instance, None if an instance has one thread or no such id exists
    thread_id: ThreadId | None = None
    #: id of an instance in its CTA, None if a CTA has a single instance or is part of one
    number_id: ThreadId | None = None
    #: True if tile operations can be called on it
    operates: bool = True

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Scope({self.name!r})"

    @cached_property
    def level(self) -> int:
        """Position in the order of scopes, 0 for the narrowest."""
        return list(LEVELS).index(self.name)

    @cached_property
    def steps(self) -> dict[str, int]:
        """Thread axis of this or a narrower scope -> threads per step along it. Undefined for scopes above the CTA."""
        steps: dict[str, int] = {}
        for scope in tuple(LEVELS.values())[: self.level + 1]:
            for axis, unit in scope.axes.items():
                threads = LEVELS[unit].size
                assert threads is not None, f"{axis} counts {unit}s, whose size the launch determines"
                steps[axis] = threads
        return steps

    @property
    def axis(self) -> str | None:
        """The axis that counts single threads, or None if the scope has none."""
        return next((axis for axis, unit in self.axes.items() if unit == "thread"), None)

    def threads(self, cta: int) -> int:
        """Return the number of threads of a whole instance; for a CTA, `cta`. Undefined for scopes above the CTA."""
        return cta if self.size is None else self.size

    def left_over(self, cta: int) -> int:
        """Return the number of threads in the last instance in a CTA of `cta` threads if it is partial, else 0."""
        return cta % self.threads(cta)


THREAD = Scope(name="thread", size=1, number_id=ThreadId("thread_id"))
WARP = Scope(
    name="warp", size=WARP_THREADS, axes={"laneid": "thread"}, thread_id=ThreadId("lane_id", 1, WARP_THREADS),
    number_id=ThreadId("warp_id", WARP_THREADS),
)
WARPGROUP = Scope(
    name="warpgroup", size=WARPGROUP_THREADS, axes={"wid_in_wg": "warp", "tid_in_wg": "thread"}, aliases=("wg",),
    thread_id=ThreadId("tid_in_wg", 1, WARPGROUP_THREADS), number_id=ThreadId("warpgroup_id", WARPGROUP_THREADS),
)
CTA = Scope(
    name="cta", size=None, axes={"warpid": "warp", "wgid": "warpgroup", "tx": "thread"},
    thread_id=ThreadId("thread_id"),
)
CLUSTER = Scope(name="cluster", size=None, axes={"cbx": "cta", "cby": "cta", "cbz": "cta"}, operates=False)
GRID = Scope(name="grid", size=None, axes={"bx": "cta", "by": "cta", "bz": "cta"}, operates=False)

#: name -> scope, narrowest first
LEVELS: dict[str, Scope] = {s.name: s for s in (THREAD, WARP, WARPGROUP, CTA, CLUSTER, GRID)}

#: name -> scope, of the scopes on which tile operations can be called
SCOPES: dict[str, Scope] = {s.name: s for s in LEVELS.values() if s.operates}

#: name -> id, of all ids of threads and instances in a CTA
THREAD_IDS: dict[str, ThreadId] = {
    i.name: i for s in SCOPES.values() for i in (s.thread_id, s.number_id) if i is not None
}
