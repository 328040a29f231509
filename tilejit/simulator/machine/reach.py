"""What an asynchronous operation reaches in memory: many addresses of one CTA, on behalf of one thread."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks.places import PtxPlaces
from ..opcodes.memory import Site
from .access import Access
from .lanes import Index, Lanes
from .memory import ELEMENTS, MemoryRegion


class Reach:
    """Finds the regions of addresses, and reports those that lie in none."""

    def __init__(self, access: Access, lanes: Lanes, places: PtxPlaces) -> None:
        self.access = access
        self.lanes = lanes
        self.places = places

    def parts(
        self, site: Site, cta: int, addresses: Index, issuer: int
    ) -> list[tuple[MemoryRegion, NDArray[np.bool_] | slice, Index]]:
        """(region, which of the addresses, their elements in its view of the site's width) for each region.

        issuer: the position of the thread that is named where an address is out of bounds.
        """
        flat = addresses.reshape(-1)
        region = self.access.memory.find(site.space, int(flat[0]))
        width = 1 << site.shift
        if region is not None and flat.min() >= region.base and flat.max() + width <= region.base + region.size:
            return [(region, slice(None), self.elements(site, region, cta, flat))]
        numbers = self.access.memory.find_each(site, flat.astype(np.uint64))
        outside = np.flatnonzero(numbers < 0)
        if outside.size:
            group = self.lanes.group
            self.lanes.select(np.array([issuer]))
            self.access.report_outside(site, flat[outside[:1]].astype(np.uint64), np.zeros(1, np.int64))
            self.lanes.select(group)
        regions = self.access.memory.regions
        result = []
        for number in np.unique(numbers[numbers >= 0]).tolist():
            which = numbers == number
            result.append((regions[number], which, self.elements(site, regions[number], cta, flat[which])))
        return result

    def elements(self, site: Site, region: MemoryRegion, cta: int, addresses: Index) -> Index:
        """The elements at addresses of one region, in the copy of a CTA."""
        lead = region.view(site.dtype, site.shift)[1]
        index: Index = (addresses - (region.base + lead)) >> site.shift
        if region.owner:
            index = index + cta * (region.stride >> site.shift)
        return index

    def read_shared(self, number: int, cta: int, addresses: Index, issuer: int) -> NDArray[Any]:
        """The elements at addresses of shared memory; zeros for those out of bounds."""
        site = self.access.sites[number]
        parts = self.parts(site, cta, addresses, issuer)
        if len(parts) == 1 and isinstance(parts[0][1], slice):
            region, _, index = parts[0]
            whole: NDArray[Any] = region.view(site.dtype, site.shift)[0][index].reshape(addresses.shape)
            return whole
        result = np.zeros(addresses.size, ELEMENTS[site.dtype])
        for region, which, index in parts:
            result[which] = region.view(site.dtype, site.shift)[0][index]
        return result.reshape(addresses.shape)
