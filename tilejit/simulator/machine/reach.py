"""Memory accesses of asynchronous operations: many addresses in one CTA, on behalf of one thread."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ...fast_unique import fast_unique
from ..opcodes.memory import Site
from .access import Access
from .lanes import Index
from .memory import ELEMENTS, MemoryRegion
from .operations import ByteSpan


@dataclass(frozen=True, slots=True)
class RunPart:
    """A run's elements in a region. which: their positions in the run, None for all. index: their indices in `view`."""

    region: MemoryRegion
    view: NDArray[Any]
    which: Index | None
    index: Index


@dataclass(frozen=True, slots=True)
class AddressRun:
    """The `count` elements of an access, in order. which: those with an address (others read as 0), None for all."""

    site: Site
    count: int
    parts: tuple[RunPart, ...]
    which: Index | None

    def read(self) -> NDArray[Any]:
        if len(self.parts) == 1 and self.parts[0].which is None:
            return self.parts[0].view[self.parts[0].index]
        result = np.zeros(self.count, ELEMENTS[self.site.dtype])
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

    def in_bounds(self) -> AddressRun:
        return self.part(self.which)


def cells_of(region: MemoryRegion, index: Index, shift: int) -> Index:
    """Return the shadow cells of elements; a cell that several elements share occurs once."""
    by = shift - region.shadow.cell_shift
    if by < 0:
        cells = index >> -by
        # neighbours mostly share a cell, so few are left to sort
        return fast_unique(cells[np.flatnonzero(np.diff(cells, prepend=-1))])
    if not by:
        return index
    wide: Index = ((index << by)[:, None] + np.arange(1 << by)).reshape(-1)
    return wide


class Reach:
    """Resolves addresses to regions, and reports addresses outside all regions."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.lanes = access.lanes

    def run(
        self, site: Site, cta: int, addresses: Index, issuer: int, inside: NDArray[np.bool_] | None = None
    ) -> AddressRun:
        """Return the elements at addresses of a CTA. inside: a mask of the elements to access. issuer: for reports."""
        which = None if inside is None else np.flatnonzero(inside)
        chosen = addresses if which is None else addresses[which]
        if not chosen.size:
            return AddressRun(site, addresses.size, (), which)
        parts = []
        for region, some in self.regions(site, chosen, issuer):
            of = which if some is None else some if which is None else which[some]
            index = self.elements(site, region, cta, chosen if some is None else chosen[some])
            parts.append(RunPart(region, region.view(site.dtype, site.shift)[0], of, index))
        return AddressRun(site, addresses.size, tuple(parts), which)

    def regions(self, site: Site, addresses: Index, issuer: int) -> list[tuple[MemoryRegion, Index | None]]:
        """Return (region, indices of its addresses, None for all) per accessed region; report the first outside."""
        region = self.access.memory.find(site.space, int(addresses[0]))
        width = 1 << site.shift
        if region is not None and addresses.min() >= region.base \
                and addresses.max() + width <= region.base + region.size:
            return [(region, None)]
        numbers = self.access.memory.find_each(site, addresses.astype(np.uint64))
        outside = np.flatnonzero(numbers < 0)
        if outside.size:
            group = self.lanes.group
            self.lanes.select(np.array([issuer]))
            self.access.report_outside(site, addresses[outside[:1]].astype(np.uint64), np.zeros(1, np.int64))
            self.lanes.select(group)
        regions = self.access.memory.regions
        return [(regions[n], np.flatnonzero(numbers == n)) for n in np.unique(numbers[numbers >= 0]).tolist()]

    def elements(self, site: Site, region: MemoryRegion, cta: int, addresses: Index) -> Index:
        lead = region.view(site.dtype, site.shift)[1]
        index: Index = (addresses - (region.base + lead)) >> site.shift
        if region.owner:
            index = index + cta * (region.stride >> site.shift)
        return index
