"""The events of a launch that concern memory and order.

*Actors* access memory: first the threads of the grid, by their number in it, then what carries out asynchronous
operations. A bulk copy that signals an mbarrier has an actor of its own. Those that complete in order share one: the
`cp.async` copies of a thread, the reads and the writes of a thread's bulk stores, the products of a warpgroup.
`lines` of an event are the PTX lines of the instructions that made it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Threads = NDArray[np.int64]
Lines = tuple[int, ...]

#: what a clock knows: of memory, by ordinary accesses; what the asynchronous proxy sees of shared and of global memory;
#: what was released to the proxy of tensor maps, and what that proxy sees; which mbarriers operations may signal that
#: other CTAs start
VIEWS = GENERIC, SHARED, GLOBAL, RELEASED, TENSOR_MAPS, MBARRIERS = range(6)
#: scopes, by how far they reach
CTA, CLUSTER, GPU = range(3)


@dataclass(slots=True)
class MemoryEvent:
    """One memory access of some actors.

    line, opcode: of the PTX. operation: equal for instructions of one source line.
    addresses: of the bytes in the host's memory, `width` from each on.
    values: the bytes that each thread stores, one row each; None for loads and atomics.
    succeeds: for a compare-and-swap, a mask of the threads whose comparison succeeds.
    view: what must see earlier ordinary accesses, `GENERIC` for ordinary accesses.
    """

    line: int
    opcode: str
    operation: object
    kind: str
    threads: Threads
    addresses: Threads
    width: int
    values: NDArray[np.uint8] | None = None
    succeeds: NDArray[np.bool_] | None = None
    view: int = GENERIC


@dataclass(frozen=True, slots=True)
class ForkEvent:
    """Actors start an operation: each after what all of its issuers (a row each) have done."""

    actors: Threads
    issuers: Threads


@dataclass(frozen=True, slots=True)
class ArriveEvent:
    """Threads arrive at a barrier and go on. key: names the arrival."""

    key: int
    threads: Threads


@dataclass(frozen=True, slots=True)
class MeetEvent:
    """Threads have waited for each other, and for what arrived without waiting (keys) before they went on."""

    lines: Lines
    threads: Threads
    arrivals: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FenceEvent:
    """sem: "sc" | "acq_rel" | "acquire" | "release"; wide: reaches other CTAs."""

    lines: Lines
    threads: Threads
    sem: str
    wide: bool


@dataclass(frozen=True, slots=True)
class ProxyFenceEvent:
    """Threads let proxies see what they know. moves: (from, to) of the views."""

    lines: Lines
    threads: Threads
    moves: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ReleaseEvent:
    """Actors on behalf of one CTA (`home`) arrive in a phase of a barrier with phases, an mbarrier's or a cluster's.

    until: the operations up to this event are complete; 0 for all that the actors did so far.
    """

    place: Hashable
    phase: int
    threads: Threads
    home: int
    scope: int
    until: int = 0


@dataclass(frozen=True, slots=True)
class AcquireEvent:
    """Threads have seen that a phase of a barrier with phases is complete."""

    lines: Lines
    place: Hashable
    phase: int
    threads: Threads
    scope: int


@dataclass(frozen=True, slots=True)
class CommitEvent:
    """Operations since the last one become a group. kind: "copies" | "stores" | "products"."""

    kind: str
    threads: Threads


@dataclass(frozen=True, slots=True)
class WaitEvent:
    """All but each thread's newest groups are complete. actors: who carried out those of each thread."""

    lines: Lines
    kind: str
    threads: Threads
    actors: Threads
    newest: int


Event = (
    MemoryEvent | ForkEvent | ArriveEvent | MeetEvent | FenceEvent | ProxyFenceEvent | ReleaseEvent | AcquireEvent
    | CommitEvent | WaitEvent
)
#: events of instructions that can be left out
Removable = MeetEvent | FenceEvent | ProxyFenceEvent | AcquireEvent | WaitEvent


@dataclass(frozen=True, slots=True)
class Other:
    """An actor that is no thread. home: the CTA for which it acts. outlives: it may go on when that CTA ends."""

    home: int
    outlives: bool


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """A region of shared memory: `size` bytes of each CTA, `stride` bytes apart, from `start` on in the host's memory.

    first: the first of the `ctas` CTAs.
    """

    start: int
    stride: int
    size: int
    ctas: int
    first: int


@dataclass(slots=True)
class Stream:
    """The events of one launch, in the order in which the simulator ran them.

    ranks: CTAs of a cluster.
    """

    threads: int
    threads_per_cta: int
    ranks: int
    events: list[Event] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)
    shared: set[SharedMemory] = field(default_factory=set)

    @property
    def actors(self) -> int:
        return self.threads + len(self.others)

    def homes(self) -> Threads:
        """The CTA of each actor."""
        threads = np.arange(self.threads) // self.threads_per_cta
        return np.concatenate([threads, np.array([x.home for x in self.others], np.int64)])
