"""Operands of wgmma in shared memory: decodes their descriptors, and checks the reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import SimulationError
from ..checks.agents import Agents, Start
from ..checks.clocks import products_of
from ..checks.places import PtxPlaces
from ..numerics.products import Doubles
from ..numerics.warpgroup import from_chunks
from .access import Access
from .descriptor import decode
from .lanes import WARP, WARPGROUP, Index, Lanes
from .reach import AddressRun, Reach


class Operands:
    """Loads the operands of a chunk's products. latest: the event of each warp's last read of an operand."""

    def __init__(self, access: Access, lanes: Lanes, warps: int, places: PtxPlaces, agents: Agents | None) -> None:
        self.access = access
        self.lanes = lanes
        self.places = places
        self.agents = agents
        self.reach = Reach(access, lanes)
        self.latest: Index = np.zeros(warps, np.int64)

    def load(
        self, descriptor: Any, what: str, element: str, extent: int, transposed: bool, number: int, pc: int
    ) -> Doubles:
        """Return an operand as warpgroups × (M or N) × K. raises: SimulationError for an invalid descriptor."""
        bits = self.uniform(descriptor, f"the descriptor of {what}", pc)
        ctas = self.lanes.get("chunk_cta").reshape(-1, WARPGROUP)[:, 0]
        leaders = self.lanes.positions().reshape(-1, WARPGROUP)[:, 0]
        runs, shape = [], (0, 0)
        for one, cta, leader in zip(bits.tolist(), ctas.tolist(), leaders.tolist(), strict=True):
            decoded = decode(one)
            if isinstance(decoded, str):
                raise SimulationError(
                    f"the descriptor of {what}, {one:#018x}, is invalid or not supported: {decoded}\n"
                    f"  {self.places.describe(pc)}",
                    instructions=(pc,), threads=self.lanes.numbers(np.array([leader])),
                )
            chunks = decoded.chunks(extent, transposed)
            shape = chunks.shape
            runs.append(self.reach.run(self.access.sites[number], cta, chunks.reshape(-1), leader))
        self.read(runs, ctas, leaders)
        return np.stack([from_chunks(run.read().reshape(shape), element, transposed) for run in runs])

    def read(self, runs: Sequence[AddressRun], ctas: Index, leaders: Index) -> None:
        """Check and record the reads of products. The first and the last lane represent each warp of a warpgroup."""
        if self.agents is None:
            return
        warps = leaders[:, None] + WARP * np.arange(WARPGROUP // WARP)
        issuers = np.concatenate([warps, warps + WARP - 1], axis=1)
        groups = (leaders - ctas * self.lanes.threads) // WARPGROUP
        events = self.agents.read_each([
            (run.spans(), Start("product", lanes, run.site), products_of(group), cta)
            for run, lanes, group, cta in zip(runs, issuers, groups.tolist(), ctas.tolist(), strict=True)
        ])
        self.latest[self.lanes.full["chunk_warp"][warps]] = events[:, None]

    def uniform(self, value: Any, what: str, pc: int) -> NDArray[Any]:
        return self.lanes.uniform(self.places, value, WARPGROUP, what, pc)
