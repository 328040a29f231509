"""Counts of shared-memory wavefronts and global-memory sectors, per instruction."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ..machine.lanes import WARP, Index, Lanes
from ..machine.memory import MemoryRegion
from ..opcodes.memory import Site

BANKS = 32
BANK_BYTES = 4
SECTOR_BYTES = 32
# Placeholder for the address of an inactive lane, lower than any address.
ABSENT = -(1 << 62)
# Weights of a hash of rows of 32 integers. Hashes may collide, so the rows are compared as well.
_WEIGHTS = np.arange(1, WARP + 1, dtype=np.int64) * 0x1E3779B97F4A7C15
# Costs are cached for accesses whose warps have at most this number of distinct patterns.
_FEW = 16


@dataclass(slots=True)
class Traffic:
    """Memory traffic of an instruction or line: shared-memory wavefronts, 32-byte global sectors, and their minima."""

    wavefronts: int = 0
    ideal_wavefronts: int = 0
    sectors: int = 0
    ideal_sectors: int = 0

    def add(self, other: Traffic) -> None:
        self.wavefronts += other.wavefronts
        self.ideal_wavefronts += other.ideal_wavefronts
        self.sectors += other.sectors
        self.ideal_sectors += other.ideal_sectors


class Profiler:
    """Accumulates the memory traffic of each instruction."""

    def __init__(self) -> None:
        self.traffic: dict[int, Traffic] = {}

    def access(self, lanes: Lanes, site: Site, region: MemoryRegion, index: Index, lead: int) -> None:
        """Count an access by each executing thread to its element in `index`; element 0 is at byte `lead`."""
        if region.space not in ("shared", "global"):
            return
        traffic = self.traffic.setdefault(site.pc, Traffic())
        shared = region.space == "shared"
        base = region.base if shared else region.counted_base
        if lanes.whole_warps():
            count, ideal = by_pattern(index.reshape(-1, WARP), site.shift, lead + base, shared)
        else:
            table = np.full((lanes.ctas * lanes.warps_per_cta, WARP), ABSENT)
            table[lanes.get("chunk_warp"), lanes.get("lane")] = (index << site.shift) + (lead + base)
            costs = wavefronts if shared else sectors
            count, ideal = (int(x.sum()) for x in costs(table, 1 << site.shift))
        if shared:
            traffic.wavefronts += count
            traffic.ideal_wavefronts += ideal
        else:
            traffic.sectors += count
            traffic.ideal_sectors += ideal


def by_pattern(index: Index, shift: int, base: int, shared: bool) -> tuple[int, int]:
    """Return (wavefronts or sectors, minimum), summed over full warps; compute them once per pattern.

    Shifting all shared addresses by words, which permutes the banks, or all global ones by sectors keeps the counts.
    """
    first = index[:, 0]
    start = ((first << shift) + base) & ((BANK_BYTES if shared else SECTOR_BYTES) - 1)
    pattern = index - first[:, None]
    rows, times = representatives(pattern, start)
    costs = _costs if rows.size <= _FEW else _costs.__wrapped__
    counts, ideals = costs(pattern[rows].tobytes(), start[rows].tobytes(), shift, shared)
    return int(counts @ times), int(ideals @ times)


def representatives(pattern: Index, start: Index) -> tuple[Index, Index]:
    """Return (representatives, sizes) of groups of warps with equal rows, or of single warps if hashes collide."""
    count = start.size
    if same_rows(pattern, pattern[:1]) and same_rows(start, start[:1]):
        return np.zeros(1, np.int64), np.full(1, count)
    keys = pattern @ _WEIGHTS + start
    _, rows, which, times = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    if same_rows(pattern, pattern[rows][which]) and same_rows(start, start[rows][which]):
        return rows, times
    return np.arange(count), np.ones(count, np.int64)


def same_rows(a: Index, b: Index) -> bool:
    return int(np.count_nonzero(a == b)) == a.size


@lru_cache(maxsize=1024)
def _costs(pattern: bytes, start: bytes, shift: int, shared: bool) -> tuple[Index, Index]:
    """Return (count, minimum) per warp.

    start: lane 0's byte offset in its word or sector. pattern: offsets from lane 0, in elements.
    """
    table = np.frombuffer(pattern, np.int64).reshape(-1, WARP) << shift
    table = table + np.frombuffer(start, np.int64)[:, None]
    return wavefronts(table, 1 << shift) if shared else sectors(table, 1 << shift)


def wavefronts(address: Index, width: int) -> tuple[Index, Index]:
    """Return (wavefronts in shared memory, minimum) per warp. address: in bytes, warps x 32, ABSENT if inactive.

    A warp's 8-byte accesses take a pass per half-warp, its 16-byte accesses a pass per quarter-warp. In each pass, a
    bank delivers one 4-byte word per wavefront, to any number of threads.
    """
    per_pass = WARP * BANK_BYTES // max(width, BANK_BYTES)
    words = max(width // BANK_BYTES, 1)
    word = (address.reshape(-1, per_pass, 1) // BANK_BYTES + np.arange(words)).reshape(-1, per_pass * words)
    word = np.sort(word, axis=1)
    pass_, at = np.nonzero(changes(word, word > ABSENT // (2 * BANK_BYTES)))
    each = np.bincount(pass_ * BANKS + (word[pass_, at] & (BANKS - 1)), minlength=word.shape[0] * BANKS)
    load = each.reshape(-1, BANKS)
    per_warp = (address.shape[0], -1)
    return load.max(axis=1).reshape(per_warp).sum(axis=1), (-(-load.sum(axis=1) // BANKS)).reshape(per_warp).sum(axis=1)


def sectors(address: Index, width: int) -> tuple[Index, Index]:
    """Return (32-byte sectors, minimum for the bytes) per warp. address: in bytes, warps x 32, ABSENT if inactive."""
    address = np.sort(address, axis=1)
    there = address > ABSENT // 2
    # An aligned access of at most 32 bytes is within one sector.
    count = changes(address // SECTOR_BYTES, there).sum(axis=1)
    distinct = changes(address, there).sum(axis=1)
    return count, -(-distinct * width // SECTOR_BYTES)


def changes(rows: Index, there: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask of the elements of sorted rows that are `there` and differ from their predecessors."""
    new: NDArray[np.bool_] = there.copy()
    new[:, 1:] &= rows[:, 1:] != rows[:, :-1]
    return new
