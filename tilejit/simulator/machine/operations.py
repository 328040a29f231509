"""Asynchronous operations in flight: copies that an instruction starts and another agent carries out.

An operation accesses memory when it is delivered. On a GPU the hardware chooses the time; in the simulator the launch
does: `late` delivers as late as possible, `early` immediately, and `random:7` at random, with seed 7.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...dataclass import dataclass
from ...errors import LaunchError
from .lanes import Index
from .memory import MemoryRegion

if TYPE_CHECKING:
    from ..checks.order import Message

# the probabilities, in random mode, of a delivery at each issue and after each block
AT_ISSUE, AFTER_A_BLOCK = 0.3, 0.1


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """Cells of a region's shadow that an operation reads or writes."""

    region: MemoryRegion
    cells: Index


@dataclass(frozen=True, slots=True)
class Signal:
    """The bytes that an operation reports at its delivery to the mbarrier at a shared address of a CTA."""

    address: int
    cta: int
    size_bytes: int


@dataclass(slots=True, eq=False)
class Operation:
    """An asynchronous operation from its issue to its delivery."""

    pc: int
    #: position of the thread
    issuer: int
    #: its name in messages, such as "TMA load"
    what: str
    #: accesses memory; called once, at the delivery
    carry_out: Callable[[], None]
    #: the cells that it may access from its issue to its delivery
    reads: Sequence[ByteSpan] = ()
    writes: Sequence[ByteSpan] = ()
    signals: Sequence[Signal] = ()
    #: operations of one pipe are delivered in the order of their issue
    pipe: Hashable | None = None
    #: the release that its signals add to the phases of their barriers
    news: Message | None = None


class Delivery:
    """The policy for delivering operations: "late", "early", or "random:" and a seed."""

    def __init__(self, text: str) -> None:
        self.text = text
        kind, _, seed = text.partition(":")
        if not (text in ("late", "early") or (kind == "random" and seed.isdigit())):
            raise LaunchError(f"delivery must be 'late', 'early' or 'random:' and a number, got {text!r}")
        self.early = text == "early"
        self.random = np.random.default_rng(int(seed)) if seed else None

    def chance(self, probability: float) -> bool:
        return self.random is not None and bool(self.random.random() < probability)


class Operations:
    """The operations in flight of a chunk, in the order of their issue.

    delivered: a callback for each delivered operation, which signals barriers and updates the checks.
    issued: the number of operations so far.
    """

    def __init__(self, delivery: Delivery, delivered: Callable[[Operation], None]) -> None:
        self.delivery = delivery
        self.delivered = delivered
        self.pending: list[Operation] = []
        self.issued = 0

    def issue(self, operation: Operation) -> None:
        self.pending.append(operation)
        self.issued += 1
        if self.delivery.early:
            self.deliver(operation)
        elif self.delivery.chance(AT_ISSUE):
            self.deliver_one()

    def deliver_one(self) -> bool:
        """Deliver the newest operation that may complete, in random mode a random one; False if there is none."""
        ready = self.ready()
        if not ready:
            return False
        random = self.delivery.random
        self.deliver(ready[-1] if random is None else ready[int(random.integers(len(ready)))])
        return True

    def after_block(self) -> None:
        if self.pending and self.delivery.chance(AFTER_A_BLOCK):
            self.deliver_one()

    def ready(self) -> list[Operation]:
        """Return the operations that may complete: the first of each pipe, and all without a pipe."""
        pipes: set[Hashable] = set()
        result = []
        for operation in self.pending:
            if operation.pipe is None or operation.pipe not in pipes:
                result.append(operation)
            pipes.add(operation.pipe)
        return result

    def drain(self, pipe: Hashable, newest: int = 0) -> None:
        """Deliver the operations of a pipe except the last `newest` ones."""
        waiting = [x for x in self.pending if x.pipe == pipe]
        for operation in waiting[: len(waiting) - newest]:
            self.deliver(operation)

    def deliver(self, operation: Operation) -> None:
        self.pending.remove(operation)
        operation.carry_out()
        self.delivered(operation)

    def writing(self, region: MemoryRegion, cell: int) -> Operation:
        return next(x for x in self.pending for s in x.writes if s.region is region and (s.cells == cell).any())

    def naming(self, address: int, cta: int) -> list[Operation]:
        """Return the operations in flight that signal the barrier at a shared address of a CTA."""
        return [x for x in self.pending if any(s.address == address and s.cta == cta for s in x.signals)]
