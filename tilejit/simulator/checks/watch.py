"""The state of all checks of one launch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..decode.translate import Program
from ..machine.lanes import WARP, Lanes
from ..machine.memory import MemoryPart, MemoryRegion
from .access_findings import AccessFindings
from .definedness import Definedness
from .findings import Findings
from .order import HappensBefore
from .places import PtxPlaces
from .precedence import Precedence
from .races import AccessChecker
from .records import UNWRITTEN, LocalShadow, Shadow
from .replicas import Replicas


class Watch:
    def __init__(
        self, program: Program, lanes: Lanes, ctas: int, places: PtxPlaces, findings: Findings, strict: bool
    ) -> None:
        """strict: whether shuffles, votes and matches order no memory accesses."""
        self.program = program
        facts = program.ordering
        self.order = HappensBefore(ctas, ctas * -(-lanes.threads // WARP), lanes, not strict, facts)
        precedence = Precedence(self.order, facts)
        report = AccessFindings(
            lanes, places, findings, precedence, Definedness(program, lanes, places, findings), program.sites,
            Replicas(program.control_flow, precedence, findings, places),
        )
        self.checker = AccessChecker(self.order, report)

    def begin(self, lanes: Lanes) -> None:
        """Start a chunk, as if all its CTAs had just executed a barrier."""
        self.order.begin(lanes)
        self.order.cta_barrier(np.arange(lanes.first, lanes.first + lanes.ctas), True)

    def shadow_global(self, region: MemoryRegion, fresh: Sequence[MemoryPart]) -> None:
        """Add records to a region of global memory; the parts `fresh` are unwritten."""
        shift = self.program.cell_shift["global"]
        shadow = Shadow(region, shift, True)
        lead = region.view("u1", 0)[1] if not shift else -region.base % (1 << shift)
        for p in fresh:
            first = -(-(p.start - lead) >> shift) if p.start > lead else 0
            last = (p.start + p.size_bytes - lead) >> shift
            shadow.writes[first:last] = UNWRITTEN
        region.shadow = shadow

    def shadow_chunk(self, region: MemoryRegion) -> None:
        shift = self.program.cell_shift[region.space]
        region.shadow = Shadow(region, shift, False) if region.space == "shared" else LocalShadow(region, shift)
