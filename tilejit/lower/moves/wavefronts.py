"""The cost of shared memory accesses in wavefronts: passes in which a bank serves at most one word.

source: NVIDIA, CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks"; Nsight Compute, "Shared memory tables".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...dataclass import dataclass
from ...fast_unique import fast_unique
from ...layout import Swizzle
from ..weights import ACCESS, WAVEFRONT

Array = np.ndarray

_BANKS, WORD_BYTES, _LANES = 32, 4, 32


@dataclass(frozen=True, slots=True, eq=False)
class SharedAccesses:
    """The distinct pieces of shared memory that warps access. A piece is an access, or a word that contains it.

    Lanes that access the same piece share it. Accesses of 8 bytes are served per half warp, of 16 bytes per quarter.
    """

    #: the group of lanes whose pieces are served together, for each piece
    group: Array
    #: the first element of each piece, before swizzling
    address: Array
    bytes_each: int
    #: pieces per wavefront
    at_once: int
    instructions: int

    @staticmethod
    def of(issue: Array, thread: Array, address: Array, width: int, bytes_each: int) -> SharedAccesses:
        """Collect the pieces of accesses. address: multiples of `width`, which is a power of two."""
        size = max(width, WORD_BYTES // bytes_each)
        at_once = _BANKS * WORD_BYTES // (size * bytes_each)
        lanes, threads = min(_LANES, at_once), int(thread.max(initial=0)) + 1
        span = int(address.max(initial=0)) + 1
        pieces = fast_unique((issue * threads + thread // lanes) * span + address // size * size)
        group = np.unique(pieces // span, return_inverse=True)[1]
        instructions = len(fast_unique(issue * threads + thread // _LANES))
        return SharedAccesses(group, pieces % span, bytes_each, at_once, instructions)

    def wavefronts(self, swizzles: Sequence[Swizzle]) -> Array:
        """Return the number of wavefronts with each swizzle; swizzles must keep words and accesses contiguous."""
        if not len(self.group):
            return np.zeros(len(swizzles), np.int64)
        address = np.stack([swizzle.apply(self.address) for swizzle in swizzles])
        piece = address * (self.bytes_each * self.at_once) // (_BANKS * WORD_BYTES)
        groups = int(self.group[-1]) + 1
        every = np.arange(len(swizzles))[:, None] * groups + self.group
        banks = len(swizzles) * groups * self.at_once
        count = np.bincount((every * self.at_once + piece % self.at_once).ravel(), minlength=banks)
        return np.asarray(count.reshape(len(swizzles), groups, self.at_once).max(axis=2).sum(axis=1))

    def costs(self, swizzles: Sequence[Swizzle]) -> Array:
        """Return the cost in quarter cycles with each swizzle."""
        return ACCESS * self.instructions + WAVEFRONT * self.wavefronts(swizzles)

    @property
    def least(self) -> int:
        """The cost without bank conflicts."""
        ideal = -(-np.bincount(self.group) // self.at_once)
        return ACCESS * self.instructions + WAVEFRONT * int(ideal.sum())


class LaneDigit(NamedTuple):
    """Lanes along an axis: their number, how many are active, and their stride in bytes (None if in the same bank)."""

    lanes: int
    active: int
    stride: int | None


#: the identity swizzle
_AS_THEY_ARE = Swizzle(0, 0, 0)


@lru_cache(maxsize=4096)
def wavefronts(run: int, digits: tuple[LaneDigit, ...]) -> int:
    """Return the number of wavefronts of a warp's access. run: bytes per lane. digits: fastest first."""
    thread = address = np.zeros(1, np.int64)
    step = 1
    for digit in digits:
        at = np.arange(digit.active)[:, None]
        thread = (thread + step * at).ravel()
        stride = _BANKS * WORD_BYTES if digit.stride is None else digit.stride
        address = (address + stride * at).ravel()
        step *= digit.lanes
    accesses = SharedAccesses.of(np.zeros_like(thread), thread, address, run, 1)
    return int(accesses.wavefronts((_AS_THEY_ARE,))[0])
