"""Asynchronous operations in flight: copies that an instruction starts and another agent carries out.

An operation accesses memory when it is delivered. On a GPU the hardware chooses the time; here, `Delivery` chooses it:
`late` delivers as late as possible, `early` immediately, and `random:7` at random, with seed 7.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ...errors import LaunchError
from ...fast_unique import fast_unique
from ..decode.names import DTYPES
from ..opcodes.memory import Site
from .lanes import Index
from .memory import MemoryRegion

if TYPE_CHECKING:
    from ..checks.order import Message
    from .access import Access

# the probabilities, in random mode, of a delivery at each issue and after each block
AT_ISSUE, AFTER_A_BLOCK = 0.3, 0.1


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """Cells of a region's shadow that an operation reads or writes."""

    region: MemoryRegion
    cells: Index


@dataclass(frozen=True, slots=True)
class Signal:
    """The bytes that an operation reports, when delivered, to the mbarrier at a shared address of a CTA."""

    address: int
    cta: int
    size_bytes: int
    #: the barrier's phase when the operation was issued
    phase: int = 0


@dataclass(slots=True, eq=False)
class Operation:
    """An asynchronous operation from its issue to its delivery."""

    pc: int
    #: position in the chunk of the thread that issued it
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
    #: the happens-before message that its signals add to the releases of their barriers' phases
    news: Message | None = None


class Delivery:
    """The policy for delivering operations: "late", "early", or "random:" and a seed."""

    def __init__(self, text: str) -> None:
        self.text = text
        kind, _, seed = text.partition(":")
        if not (text in ("late", "early") or (kind == "random" and seed.isdigit())):
            raise LaunchError(f"delivery must be 'late', 'early' or 'random:' followed by a number, got {text!r}")
        self.early = text == "early"
        self.random = np.random.default_rng(int(seed)) if seed else None

    def chance(self, probability: float) -> bool:
        return self.random is not None and bool(self.random.random() < probability)


class Operations:
    """The operations in flight of a chunk, in the order of their issue.

    delivered: a callback for each delivered operation, which signals barriers and updates the checks.
    issued: the number of operations issued so far.
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
        """Deliver the newest operation that may complete (in random mode, any); return False if there is none."""
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
        """Return the operations that may complete: the first of each pipe, and all those without a pipe."""
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
        shadow = region.shadow
        return next(x for x in self.pending for s in x.writes if s.region.shadow is shadow and (s.cells == cell).any())

    def naming(self, address: int, cta: int) -> list[Operation]:
        """Return the operations in flight that signal the barrier at a shared address of a CTA."""
        return [x for x in self.pending if any(s.address == address and s.cta == cta for s in x.signals)]


@dataclass(frozen=True, slots=True)
class RunPart:
    """The elements of an `AddressRun` in one region. which: indices in the run, None: all. index: indices in `view`."""

    region: MemoryRegion
    view: NDArray[Any]
    which: Index | None
    index: Index


@dataclass(frozen=True, slots=True)
class AddressRun:
    """The `count` elements of an access, in order. which: indices of those to access (None: all); others read as 0."""

    site: Site
    count: int
    parts: tuple[RunPart, ...]
    which: Index | None

    def read(self) -> NDArray[Any]:
        if len(self.parts) == 1 and self.parts[0].which is None:
            return self.parts[0].view[self.parts[0].index]
        result = np.zeros(self.count, DTYPES[self.site.dtype])
        for part in self.parts:
            result[slice(None) if part.which is None else part.which] = part.view[part.index]
        return result

    def write(self, values: NDArray[Any]) -> None:
        for part in self.parts:
            part.view[part.index] = values if part.which is None else values[part.which]

    def spans(self) -> tuple[ByteSpan, ...]:
        return tuple(
            ByteSpan(x.region, cells_of(x.region, x.index, self.site.shift)) for x in self.parts if x.region.shadow
        )

    def part(self, which: Index | None) -> AddressRun:
        if which is None:
            return self
        chosen = np.zeros(self.count, bool)
        chosen[which] = True
        number = np.cumsum(chosen) - 1
        parts = []
        for x in self.parts:
            mine = chosen if x.which is None else chosen[x.which]
            at = np.flatnonzero(chosen) if x.which is None else x.which[mine]
            parts.append(RunPart(x.region, x.view, number[at], x.index[mine]))
        return AddressRun(self.site, which.size, tuple(parts), None)


def cells_of(region: MemoryRegion, index: Index, shift: int) -> Index:
    """Return the shadow cells of elements. If elements are smaller than cells, each cell occurs once."""
    by = shift - region.shadow.cell_shift
    if by < 0:
        cells = index >> -by
        # adjacent elements mostly share a cell: without repetitions, few cells are left to sort
        return fast_unique(cells[np.flatnonzero(np.diff(cells, prepend=-1))])
    if not by:
        return index
    wide: Index = ((index << by)[:, None] + np.arange(1 << by)).reshape(-1)
    return wide


def address_run(
    access: Access, site: Site, cta: int, addresses: Index, issuer: int, inside: NDArray[np.bool_] | None = None
) -> AddressRun:
    """Return the elements that `cta` accesses at `addresses`; report the first address outside all regions.

    inside: a mask of the elements to access, None for all. issuer: position of the thread to name in the report.
    """
    which = None if inside is None else np.flatnonzero(inside)
    chosen = addresses if which is None else addresses[which]
    if not chosen.size:
        return AddressRun(site, addresses.size, (), which)
    parts = []
    for region, some in _regions(access, site, chosen, issuer):
        of = which if some is None else some if which is None else which[some]
        view, lead = region.view(site.dtype, site.shift)
        index: Index = ((chosen if some is None else chosen[some]) - (region.base + lead)) >> site.shift
        if region.owner:
            index = index + cta * (region.stride >> site.shift)
        parts.append(RunPart(region, view, of, index))
    return AddressRun(site, addresses.size, tuple(parts), which)


def _regions(
    access: Access, site: Site, addresses: Index, issuer: int
) -> list[tuple[MemoryRegion, Index | None]]:
    """Return [(region, indices of its addresses or None for all)]; report the first address outside all regions."""
    region = access.memory.find(site.space, int(addresses[0]))
    width = 1 << site.shift
    if region is not None and addresses.min() >= region.base \
            and addresses.max() + width <= region.base + region.size:
        return [(region, None)]
    numbers = access.memory.find_each(site, addresses.astype(np.uint64))
    outside = np.flatnonzero(numbers < 0)
    if outside.size:
        group = access.lanes.group
        access.lanes.select(np.array([issuer]))
        access.report_outside(site, addresses[outside[:1]].astype(np.uint64), np.zeros(1, np.int64))
        access.lanes.select(group)
    regions = access.memory.regions
    return [(regions[n], np.flatnonzero(numbers == n)) for n in np.unique(numbers[numbers >= 0]).tolist()]
