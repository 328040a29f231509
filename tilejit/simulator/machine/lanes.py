"""The threads of a chunk of CTAs, as NumPy arrays, and the group of them that is executing."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...fast_unique import fast_unique

WARP = 32
WARPGROUP = 128
Index = NDArray[np.int64]
# lowest bit of the CTA's rank in a shared address, as on sm_90
RANK_SHIFT = 24
#: a cluster of one CTA
ALONE = (1, 1, 1)


@lru_cache(maxsize=8)
def _template(threads: int, ctas: int) -> dict[str, NDArray[Any]]:
    thread = np.arange(threads, dtype=np.int64)
    cta = np.repeat(np.arange(ctas, dtype=np.int64), threads)
    arrays: dict[str, NDArray[Any]] = {
        "thread": np.tile(thread, ctas),
        "chunk_cta": cta,
        "chunk_warp": np.tile(thread // WARP, ctas) + cta * -(-threads // WARP),
        "lane": np.tile(thread % WARP, ctas),
        "gid": np.arange(1, ctas * threads + 1, dtype=np.uint64),
        "position": np.arange(ctas * threads, dtype=np.int64),
    }
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


@lru_cache(maxsize=32)
def thread_coordinate(block: tuple[int, int, int], ctas: int, axis: int) -> Any:
    """Return %tid along an axis for all threads of a chunk; the scalar 0 if the block's extent there is 1."""
    if block[axis] == 1:
        return np.uint32(0)
    values = np.tile(_coordinate(np.arange(prod(block)), block, axis).astype(np.uint32), ctas)
    values.flags.writeable = False
    return values


class Lanes:
    """The threads of CTAs first … first+ctas-1, CTA by CTA, and the group of them that is executing.

    CTAs are numbered cluster by cluster, and by rank within a cluster, x fastest. A chunk consists of whole clusters.
    group: positions in the chunk of the executing threads, ascending, or None for all of them. n: their number.
    cluster: a cluster's number of CTAs along x, y and z. ranks: the product of these.
    full: name → array with one element per thread of the chunk; "gid" is the thread's number in the grid, from 1.
    """

    def __init__(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], first: int, ctas: int,
        cluster: tuple[int, int, int] = ALONE,
    ) -> None:
        self.grid = grid
        self.block = block
        self.cluster = cluster
        self.ranks = cluster[0] * cluster[1] * cluster[2]
        self.threads = block[0] * block[1] * block[2]
        self.warps_per_cta = -(-self.threads // WARP)
        self.first = first
        self.ctas = ctas
        self.total = ctas * self.threads
        self.n = self.total
        self.group: Index | None = None
        self.full: dict[str, NDArray[Any]] = dict(_template(self.threads, ctas))
        shifts = {"cta": ("chunk_cta", first), "warp": ("chunk_warp", first * self.warps_per_cta)}
        for name, (origin, by) in shifts.items():
            self.full[name] = self.full[origin] + by if by else self.full[origin]
        if self.ranks > 1:
            self.full["window"] = self.full["chunk_cta"] % self.ranks << RANK_SHIFT
        if first:
            self.full["gid"] = self.full["gid"] + np.uint64(first * self.threads)
        self.cache: dict[Any, NDArray[Any]] = {}
        self.offsets_full: dict[tuple[str, int], Index] = {}

    def select(self, group: Index | None) -> None:
        if group is self.group:
            return
        self.group = group
        self.n = self.total if group is None else group.size
        self.cache.clear()

    def get(self, key: str) -> NDArray[Any]:
        """Return the elements of `full[key]` for the executing threads."""
        if self.group is None:
            return self.full[key]
        if key not in self.cache:
            self.cache[key] = self.full[key][self.group]
        return self.cache[key]

    def offsets(self, owner: str, stride: int) -> Index:
        """Return the index at which each executing thread's copy of a region begins. stride: elements per copy.

        owner: "cta", "lane", or the rank of a CTA in the thread's cluster, as a decimal number.
        """
        key = (owner, stride)
        found = self.cache.get(key)
        if found is not None:
            return found
        if key not in self.offsets_full:
            if owner.isdigit():
                copy = self.full["chunk_cta"] // self.ranks * self.ranks + int(owner)
            else:
                copy = self.full["chunk_cta" if owner == "cta" else "position"]
            self.offsets_full[key] = copy * stride
        full = self.offsets_full[key]
        self.cache[key] = full if self.group is None else full[self.group]
        return self.cache[key]

    def whole_warps(self) -> bool:
        if self.group is None and self.threads % WARP == 0:
            return True
        if self.n % WARP:
            return False
        if "whole" not in self.cache:
            lane, warp = (self.get(x).reshape(-1, WARP) for x in ("lane", "chunk_warp"))
            self.cache["whole"] = (lane == np.arange(WARP)).all() & (warp == warp[:, :1]).all()
        return bool(self.cache["whole"])

    def warps(self) -> Index:
        """Return the indices in the chunk of the warps that have executing threads."""
        warp = self.get("chunk_warp")
        return warp.reshape(-1, WARP)[:, 0] if self.whole_warps() else fast_unique(warp)

    def each(self, value: Any) -> NDArray[Any]:
        return value if value.ndim else np.full(self.n, value)

    def positions(self) -> Index:
        return self.full["position"] if self.group is None else self.group

    def members(self, group: Index | None) -> Index:
        """Return the positions of a group's threads; None is the group of all threads."""
        return self.full["position"] if group is None else group

    def group_of(self, positions: Index) -> Index | None:
        """Return positions as a group: None if they are those of all threads of the chunk."""
        return None if positions.size == self.total else positions

    def cta_coordinates(self, cta: int) -> tuple[int, int, int]:
        x, y, z = (int(self.along(np.array([cta]), axis)[0]) for axis in range(3))
        return x, y, z

    def along(self, cta: Index, axis: int) -> Index:
        return self.cluster_along(cta, axis) * self.cluster[axis] + self.rank_along(cta, axis)

    def rank_along(self, cta: Index, axis: int) -> Index:
        return _coordinate(cta % self.ranks, self.cluster, axis)

    def cluster_along(self, cta: Index, axis: int) -> Index:
        return _coordinate(cta // self.ranks, self.clusters, axis)

    @property
    def clusters(self) -> tuple[int, int, int]:
        (x, y, z), (a, b, c) = self.grid, self.cluster
        return x // a, y // b, z // c

    def each_cta(self, of: Callable[[Index], Index]) -> Any:
        """Return `of(CTA)` for each thread of the chunk, as uint32; a scalar if it is equal for all CTAs."""
        values = of(np.arange(self.first, self.first + self.ctas)).astype(np.uint32)
        return values[0] if (values == values[0]).all() else np.repeat(values, self.threads)

    def cta_of(self, gid: int) -> int:
        return (gid - 1) // self.threads

    def describe(self, gid: int) -> str:
        """Describe a thread, as in 'thread 5 (warp 0, lane 5) of CTA (0, 0, 0)'."""
        thread = (gid - 1) % self.threads
        cta = self.cta_coordinates(self.cta_of(gid))
        return f"thread {thread} (warp {thread // WARP}, lane {thread % WARP}) of CTA {cta}"

    def party(self, positions: Index) -> str:
        """Describe the threads in the CTA of the first: 'warps 1 and 2 of CTA (0, 0, 0)' or 'thread 5 … and 3 more'."""
        cta = int(self.full["chunk_cta"][positions[0]])
        threads = fast_unique(self.full["thread"][positions[self.full["chunk_cta"][positions] == cta]])
        for size, unit in ((WARPGROUP, "warpgroup"), (WARP, "warp")):
            units, counts = np.unique(threads // size, return_counts=True)
            if (counts == np.minimum(size, self.threads - units * size)).all():
                text = unit + "s" * (units.size > 1) + " " + enumeration(units.tolist())
                return f"{text} of CTA {self.cta_coordinates(self.first + cta)}"
        first = self.describe_position(int(positions[0]))
        return first + (f" and {threads.size - 1} more" if threads.size > 1 else "")

    def describe_some(self, positions: Index) -> str:
        """Describe threads, as in 'thread 5 (warp 0, lane 5) of CTA (0, 0, 0) and 3 more'."""
        more = f" and {positions.size - 1} more" if positions.size > 1 else ""
        return self.describe_position(int(positions[0])) + more

    def describe_waiters(self, positions: Index) -> str:
        """Return a clause about threads of one CTA, such as 'warp 3 of CTA (0, 0, 0) waits', or its plural."""
        text = self.party(positions)
        return f"{text} {'wait' if text.split()[0].endswith('s') or ' more' in text else 'waits'}"

    def numbers(self, positions: Index) -> list[int]:
        """Return the linear indices of threads in the grid, from 0, as used in findings."""
        return self.numbers_of(self.full["gid"][positions])

    def numbers_of(self, gids: Index) -> list[int]:
        cta, thread = np.divmod(gids.astype(np.int64) - 1, self.threads)
        if self.ranks > 1:
            x, y, z = (self.along(cta, axis) for axis in range(3))
            cta = (z * self.grid[1] + y) * self.grid[0] + x
        result: list[int] = (cta * self.threads + thread).tolist()
        return result

    def leader(self, warp: int) -> int:
        """Return the position of the first thread of a warp of the chunk."""
        cta, inside = divmod(int(warp), self.warps_per_cta)
        return cta * self.threads + inside * WARP

    def describe_warp(self, warp: int) -> str:
        return self.describe_position(self.leader(warp))

    def describe_position(self, position: int) -> str:
        return self.describe(int(self.full["gid"][position]))


def _coordinate(numbers: Index, extents: tuple[int, int, int], axis: int) -> Index:
    x, y, _ = extents
    return (numbers % x, numbers // x % y, numbers // (x * y))[axis]


def enumeration(numbers: list[int]) -> str:
    """Return '1', '1 and 2' or '0, 2 and 3' for ascending numbers; '4 to 11' for three or more consecutive numbers."""
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    head = ", ".join(str(x) for x in numbers[:-1])
    return f"{head} and {numbers[-1]}" if head else str(numbers[-1])
