"""Asynchronous operations in flight: copies and products that an instruction has started and another agent carries out.

An operation reads and writes its memory when it is delivered, at a moment that the hardware chooses. So a launch says
how the simulator chooses: `late` as late as it can be, `early` at once, `random:7` by chance.
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

# By chance: how often an operation is delivered when it is issued, and how often one is after each block that runs.
AT_ISSUE, AFTER_A_BLOCK = 0.3, 0.1


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """Cells of a region's shadow that an operation reads or writes; of several CTAs, if it does."""

    region: MemoryRegion
    cells: Index


@dataclass(frozen=True, slots=True)
class Signal:
    """What an operation reports at its delivery: bytes to the mbarrier at a shared address of a CTA of the chunk."""

    address: int
    cta: int
    size_bytes: int


@dataclass(slots=True, eq=False)
class Operation:
    """An asynchronous operation from its issue to its delivery.

    pc, issuer: the instruction, and the position of the thread that issued it.
    what: its name in messages, such as "TMA load".
    carry_out: reads and writes the memory; called once.
    reads, writes: the cells that it may touch from its issue to its delivery.
    signals: what it reports to barriers then.
    news: what those learn who wait for what it reports to, once it has been carried out.
    pipe: operations of one pipe are delivered in the order of their issue; those of None in any.
    """

    pc: int
    issuer: int
    what: str
    carry_out: Callable[[], None]
    reads: Sequence[ByteSpan] = ()
    writes: Sequence[ByteSpan] = ()
    signals: Sequence[Signal] = ()
    pipe: Hashable | None = None
    news: Message | None = None


class Delivery:
    """When operations are delivered: "late", "early", or "random:" and a seed."""

    def __init__(self, text: str) -> None:
        self.text = text
        kind, _, seed = text.partition(":")
        if not (text in ("late", "early") or (kind == "random" and seed.isdigit())):
            raise LaunchError(f"delivery is 'late', 'early' or 'random:' and a number, got {text!r}")
        self.early = text == "early"
        self.random = np.random.default_rng(int(seed)) if seed else None

    def chance(self, probability: float) -> bool:
        return self.random is not None and bool(self.random.random() < probability)


class Operations:
    """The operations in flight of a chunk, in the order of their issue.

    delivered: called with each operation when it has been carried out; it signals barriers and tells the checks.
    issued: how many there have been.
    """

    def __init__(self, delivery: Delivery, delivered: Callable[[Operation], None]) -> None:
        self.delivery = delivery
        self.delivered = delivered
        self.pending: list[Operation] = []
        self.issued = 0

    def issue(self, operation: Operation) -> None:
        """Start an operation."""
        self.pending.append(operation)
        self.issued += 1
        if self.delivery.early:
            self.deliver(operation)
        elif self.delivery.chance(AT_ISSUE):
            self.deliver_one()

    def deliver_one(self) -> bool:
        """Deliver the newest operation that may complete, or by chance any; False if there is none."""
        ready = self.ready()
        if not ready:
            return False
        random = self.delivery.random
        self.deliver(ready[-1] if random is None else ready[int(random.integers(len(ready)))])
        return True

    def after_block(self) -> None:
        """A block has run: by chance, time has passed."""
        if self.pending and self.delivery.chance(AFTER_A_BLOCK):
            self.deliver_one()

    def ready(self) -> list[Operation]:
        """Those that may complete: of each pipe the first."""
        pipes: set[Hashable] = set()
        result = []
        for operation in self.pending:
            if operation.pipe is None or operation.pipe not in pipes:
                result.append(operation)
            pipes.add(operation.pipe)
        return result

    def drain(self, pipe: Hashable, newest: int = 0) -> None:
        """Deliver all but the newest operations of a pipe: a thread waits for them."""
        waiting = [x for x in self.pending if x.pipe == pipe]
        for operation in waiting[: len(waiting) - newest]:
            self.deliver(operation)

    def deliver(self, operation: Operation) -> None:
        self.pending.remove(operation)
        operation.carry_out()
        self.delivered(operation)

    def writing(self, region: MemoryRegion, cell: int) -> Operation:
        """The operation in flight that writes a cell."""
        return next(x for x in self.pending for s in x.writes if s.region is region and (s.cells == cell).any())

    def naming(self, address: int, cta: int) -> list[Operation]:
        """The operations in flight that report to a CTA's barrier."""
        return [x for x in self.pending if any(s.address == address and s.cta == cta for s in x.signals)]
