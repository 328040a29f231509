"""Who runs: the threads of a chunk of CTAs, as NumPy arrays, and the group of them that executes now."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

WARP = 32
Index = NDArray[np.int64]


class Lanes:
    """The threads of CTAs first … first+ctas-1, CTA by CTA; `group` is the part that executes now.

    group: positions in the chunk, ascending, or None for all of them.
    """

    def __init__(self, grid: tuple[int, int, int], block: tuple[int, int, int], first: int, ctas: int) -> None:
        self.grid = grid
        self.block = block
        self.threads = block[0] * block[1] * block[2]
        self.warps_per_cta = -(-self.threads // WARP)
        self.first = first
        self.ctas = ctas
        self.total = ctas * self.threads
        self.n = self.total
        self.group: Index | None = None
        thread = np.arange(self.threads, dtype=np.int64)
        cta = np.repeat(np.arange(ctas, dtype=np.int64), self.threads)
        self.full: dict[str, NDArray[Any]] = {
            "thread": np.tile(thread, ctas),
            "chunk_cta": cta,
            "cta": cta + first,
            "chunk_warp": np.tile(thread // WARP, ctas) + cta * self.warps_per_cta,
            "lane": np.tile(thread % WARP, ctas),
        }
        self.full["warp"] = self.full["chunk_warp"] + first * self.warps_per_cta
        gid = np.arange(1, self.total + 1, dtype=np.uint64) + np.uint64(first * self.threads)
        self.full["gid"] = gid
        self.cache: dict[Any, NDArray[Any]] = {}
        self.offsets_full: dict[tuple[str, int], Index] = {}

    def select(self, group: Index | None) -> None:
        """Make `group` the lanes that execute."""
        if group is None and self.group is None:
            return
        self.group = group
        self.n = self.total if group is None else group.size
        self.cache.clear()

    def get(self, key: str) -> NDArray[Any]:
        """An attribute of each executing thread: thread, cta (in the grid), warp (in the grid), lane, gid."""
        if self.group is None:
            return self.full[key]
        if key not in self.cache:
            self.cache[key] = self.full[key][self.group]
        return self.cache[key]

    def offsets(self, owner: str, stride: int) -> Index:
        """Where each executing thread's own copy begins, in elements, for copies `stride` elements apart."""
        key = (owner, stride)
        found = self.cache.get(key)
        if found is not None:
            return found
        full = self.offsets_full.get(key)
        if full is None:
            who = self.full["chunk_cta"] if owner == "cta" else np.arange(self.total, dtype=np.int64)
            full = self.offsets_full[key] = who * stride
        if self.group is None:
            return full
        self.cache[key] = full[self.group]
        return self.cache[key]

    def positions(self) -> Index:
        """The executing lanes' positions in the chunk."""
        return np.arange(self.total, dtype=np.int64) if self.group is None else self.group

    def cta_coordinates(self, cta: int) -> tuple[int, int, int]:
        x, y, _ = self.grid
        return cta % x, cta // x % y, cta // (x * y)

    def describe(self, gid: int) -> str:
        """'thread 5 (warp 0, lane 5) of CTA (0, 0, 0)' for a global thread number that counts from 1."""
        thread = (gid - 1) % self.threads
        cta = self.cta_coordinates((gid - 1) // self.threads)
        return f"thread {thread} (warp {thread // WARP}, lane {thread % WARP}) of CTA {cta}"

    def describe_position(self, position: int) -> str:
        return self.describe(int(self.full["gid"][position]))
