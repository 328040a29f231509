"""What accesses to shared memory cost: wavefronts are passes in which each bank gives one word.

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

__all__ = ["LaneDigit", "SharedAccesses", "WORD_BYTES", "wavefronts"]

Array = np.ndarray

_BANKS, WORD_BYTES, _LANES = 32, 4, 32


@dataclass(frozen=True, slots=True, eq=False)
class SharedAccesses:
    """What warps access, as pieces that banks give together: an access, or a word of which it is a part.

    Lanes that access one piece share it. Accesses of 8 bytes go by half warps, of 16 by quarters.
    group: which pieces go at once. address: of their first elements, before swizzling. bytes_each: of an element.
    at_once: how many pieces a wavefront has. instructions: of all warps.
    """

    group: Array
    address: Array
    bytes_each: int
    at_once: int
    instructions: int

    @staticmethod
    def of(issue: Array, thread: Array, address: Array, width: int, bytes_each: int) -> SharedAccesses:
        """A row each. address: of the first element, a multiple of `width`, which is a power of two."""
        size = max(width, WORD_BYTES // bytes_each)
        at_once = _BANKS * WORD_BYTES // (size * bytes_each)
        lanes, threads = min(_LANES, at_once), int(thread.max(initial=0)) + 1
        span = int(address.max(initial=0)) + 1
        pieces = fast_unique((issue * threads + thread // lanes) * span + address // size * size)
        group = np.unique(pieces // span, return_inverse=True)[1]
        instructions = len(fast_unique(issue * threads + thread // _LANES))
        return SharedAccesses(group, pieces % span, bytes_each, at_once, instructions)

    def wavefronts(self, swizzles: Sequence[Swizzle]) -> Array:
        """How many they take with each of some swizzles, which keep words and accesses together."""
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
        """In quarter cycles, with each of some swizzles."""
        return ACCESS * self.instructions + WAVEFRONT * self.wavefronts(swizzles)

    @property
    def least(self) -> int:
        """What they cost where no two lanes meet in a bank."""
        ideal = -(-np.bincount(self.group) // self.at_once)
        return ACCESS * self.instructions + WAVEFRONT * int(ideal.sum())


class LaneDigit(NamedTuple):
    """Lanes along one axis: how many, how many of them access memory, and how many bytes apart; None is far apart."""

    lanes: int
    active: int
    stride: int | None


#: elements as they lie
_AS_THEY_ARE = Swizzle(0, 0, 0)


@lru_cache(maxsize=4096)
def wavefronts(run: int, digits: tuple[LaneDigit, ...]) -> int:
    """How many a warp's access takes. run: bytes of each lane. digits: neighbouring lanes first."""
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
