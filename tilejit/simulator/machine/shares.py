"""Checks of multicast copies that the CTAs of a cluster share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...dataclass import dataclass, replace
from ..checks.records import place
from ..opcodes.memory import Site
from .lanes import Index
from .mbarrier import MBarrier
from .mbarriers import MBarriers
from .tensor_map import EncodedMap, Share

#: the compiler may have clamped coordinates outside this range, so such boxes are not compared
_EXACT = range(-(1 << 31) + 1, (1 << 31) - 16)
SHARES_HINT = (
    "all CTAs that share a copy must name the same region and destination: compute both from what these CTAs have in "
    "common, such as the id of their cluster, and not from their own ids or ranks"
)


@dataclass(frozen=True, slots=True)
class SharedBox:
    """A box that a thread copies, and its address in shared memory."""

    map: EncodedMap
    #: innermost dimension first
    coordinates: tuple[int, ...]
    #: the shared address of its first element
    to: int
    #: the thread's position in the chunk
    position: int
    site: Site
    #: False if a coordinate may have been clamped
    is_exact: bool = True

    def by_first(self, rank: int, share: Share) -> SharedBox:
        """Return the corresponding box of the first receiver. rank: the index of this box's CTA among the receivers."""
        coordinates = [c - rank * step for c, step in zip(self.coordinates, share.coordinates, strict=True)]
        is_exact = all(c in _EXACT for c in self.coordinates)
        to = self.to - rank * share.bytes
        return replace(self, coordinates=tuple(coordinates), to=to, is_exact=is_exact)

    def differs(self, other: SharedBox) -> bool:
        """Return True if the two boxes certainly begin at different global addresses."""
        here, there = (box.map.address + box.map.shape.first(box.coordinates) for box in (self, other))
        return here != there and self.is_exact and other.is_exact

    @property
    def region(self) -> str:
        """A description such as 'A from (0, 128) on', in the order of the array's dimensions."""
        axes = self.map.axes or range(len(self.coordinates))[::-1]
        starts = [str(start) for _, start in sorted(zip(axes, self.coordinates, strict=False))]
        return f"{self.map.name or 'an array'} from ({', '.join(starts)}) on"


class Shares:
    """Checks that the CTAs that share a multicast copy read parts of one region and write to one destination.

    Each box implies where the region begins: at the start of the box minus the offset of its CTA's part from the first
    CTA's. If regions or destinations differ, every CTA receives a mixture, which a GPU doesn't report.

    copied: (receiving CTA, barrier address) → destination → index of the copying CTA among the receivers → box. All
    receivers of a copy refer to one dictionary.
    """

    def __init__(self, mbarriers: MBarriers) -> None:
        self.mbarriers = mbarriers
        self.copied: dict[tuple[int, int], dict[int, dict[int, SharedBox]]] = {}

    def note(self, box: SharedBox, barrier: int, ctas: Sequence[int]) -> None:
        """Record a box if its map has a `share` and its CTA is among the receivers `ctas`.

        Report it if an earlier box for the same destination implies another region.
        """
        share, own = box.map.share, int(self.mbarriers.lanes.full["chunk_cta"][box.position])
        if share is None or own not in ctas:
            return
        rank = ctas.index(own)
        mine = box.by_first(rank, share)
        copied = self.copied.get((ctas[0], barrier))
        if copied is None:
            copied = {}
            self.copied.update({(cta, barrier): copied for cta in ctas})
        there = copied.setdefault(mine.to, {})
        other = next((x for x in there.values() if mine.differs(x)), None)
        there[rank] = mine
        if other is not None:
            self.report("regions", mine, other)

    def finish(self, barrier: MBarrier, ctas: Index) -> None:
        """At the end of a phase, report CTAs that copied their parts to different destinations."""
        for cta in ctas.tolist() if self.copied else ():
            copied = self.copied.pop((cta, barrier.address), {})
            sharing = {rank for there in copied.values() for rank in there}
            parts = [there for there in copied.values() if len(there) < len(sharing)]
            for there in parts[:1]:
                others = [box for part in parts for rank, box in part.items() if rank not in there]
                if others:
                    self.report("places", others[0], next(iter(there.values())))
            copied.clear()

    def report(self, what: str, mine: SharedBox, other: SharedBox) -> None:
        message = f"CTAs of a cluster share a copy and name different {what}: {self.described(mine)}"
        more = f"\nand {self.described(other)}"
        if other.site.pc != mine.site.pc:
            more = self.mbarriers.places.located(more, other.site.pc)
        threads = self.mbarriers.lanes.numbers(np.array([mine.position, other.position]))
        findings = self.mbarriers.access.findings
        findings.add("in-flight", message, mine.site.pc, other.site.pc, threads, hint=SHARES_HINT, more=more)

    def described(self, box: SharedBox) -> str:
        thread = self.mbarriers.lanes.describe_position(box.position)
        memory = self.mbarriers.access.memory.find("shared", box.to)
        width = box.map.shape.element_bytes
        where = f"address {box.to:#x}" if memory is None else place(memory, box.to - memory.base, width)
        return f"{thread} copies {box.region} to {where}"
