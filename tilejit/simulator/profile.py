"""Counts of shared-memory wavefronts and global-memory sectors, per instruction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilejit.simulator.lanes import Lanes
from tilejit.simulator.memory import Region
from tilejit.simulator.opcodes.memory import Site

BANKS = 32
BANK_BYTES = 4
SECTOR_BYTES = 32
WAVEFRONT_BYTES = 128


@dataclass(slots=True)
class Traffic:
    """What an instruction or line cost: 128-byte shared wavefronts, 32-byte global sectors, and the least possible."""

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
    """Watches every access and sums its traffic by instruction."""

    def __init__(self) -> None:
        self.lanes: Lanes | None = None
        self.traffic: dict[int, Traffic] = {}

    def access(self, site: Site, region: Region, offsets: NDArray[Any]) -> None:
        assert self.lanes is not None
        if region.space not in ("shared", "global"):
            return
        warp = self.lanes.get("chunk_warp")
        traffic = self.traffic.setdefault(site.pc, Traffic())
        width = 1 << site.shift
        if region.space == "shared":
            base = offsets if not region.owner else offsets % region.stride
            base = base + region.base
            count, ideal = wavefronts(warp, self.lanes.get("lane"), base, width)
            traffic.wavefronts += count
            traffic.ideal_wavefronts += ideal
        else:
            count, ideal = sectors(warp, offsets + region.base, width)
            traffic.sectors += count
            traffic.ideal_sectors += ideal


def wavefronts(
    warp: NDArray[np.int64], lane: NDArray[np.int64], address: NDArray[np.int64], width: int
) -> tuple[int, int]:
    """(wavefronts, the least possible) of one shared-memory instruction.

    A warp's 8-byte accesses go half-warp by half-warp, its 16-byte ones quarter by quarter. In each of those passes
    a bank delivers one 4-byte word a wavefront, to any number of threads.
    """
    per_pass = 32 * BANK_BYTES // max(width, BANK_BYTES)
    passes = warp * (32 // per_pass) + lane // per_pass
    words = max(width // BANK_BYTES, 1)
    word = (address[:, None] // BANK_BYTES + np.arange(words)).reshape(-1)
    # Distinct words of each pass, then how many of them fall into one bank.
    keys = distinct((np.repeat(passes, words) << 40) | word)
    cells = np.bincount((keys >> 40) * BANKS + (keys & (BANKS - 1)))
    load = np.append(cells, np.zeros(-cells.size % BANKS, np.int64)).reshape(-1, BANKS)
    return int(load.max(axis=1).sum()), int((-(-load.sum(axis=1) // BANKS)).sum())


def distinct(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The keys that differ, ascending."""
    keys = np.sort(keys)
    result: NDArray[np.int64] = keys[np.append(True, keys[1:] != keys[:-1])]
    return result


def sectors(warp: NDArray[np.int64], address: NDArray[np.int64], width: int) -> tuple[int, int]:
    """(32-byte sectors, the least that could hold the bytes) of one global-memory instruction."""
    origin = address.min() // SECTOR_BYTES * SECTOR_BYTES
    keys = (warp << 40) | (address - origin)
    sector = keys // SECTOR_BYTES
    # An aligned access lies within one sector, except 64-byte ones, which don't exist.
    count = distinct(sector).size
    per_warp = np.bincount(distinct(keys) >> 40)
    return count, min(int((-(-per_warp * width // SECTOR_BYTES)).sum()), count)
