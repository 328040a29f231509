"""The order in which groups of threads run."""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from ...fast_unique import fast_unique
from .lanes import WARPGROUP, Index, Lanes

Groups = dict[int, Index | None]


class Schedule:
    """Chooses the next ready group.

    seed: 0 runs the whole group at the lowest block, so that threads reconverge after a branch. Others run a random
    group, and often only some of its warps: each seed gives a legal order.
    together: blocks at which warpgroups aren't split.
    """

    def __init__(self, seed: int, lanes: Lanes, together: Set[int]) -> None:
        self.together = together
        self.random = np.random.default_rng(seed) if seed else None
        self.lanes = lanes

    def take(self, ready: Groups) -> tuple[int, Index | None]:
        if self.random is None:
            number = min(ready) if len(ready) > 1 else next(iter(ready))
            return number, ready.pop(number)
        number = int(self.random.choice(sorted(ready)))
        group = ready.pop(number)
        positions = np.arange(self.lanes.total) if group is None else group
        warp = self.lanes.full["chunk_warp"][positions]
        if number in self.together:
            per_cta = -(-self.lanes.threads // WARPGROUP)
            inside = self.lanes.full["thread"][positions] // WARPGROUP
            warp = self.lanes.full["chunk_cta"][positions] * per_cta + inside
        warps = fast_unique(warp)
        if warps.size == 1 or self.random.random() < 0.5:
            return number, group
        chosen = np.isin(warp, warps[self.random.random(warps.size) < 0.5])
        if chosen.all() or not chosen.any():
            return number, group
        ready[number] = positions[~chosen]
        return number, positions[chosen]

    def wakes(self) -> bool:
        """True if parked and held groups should retry now, although others are ready."""
        return self.random is not None and bool(self.random.random() < 0.1)
