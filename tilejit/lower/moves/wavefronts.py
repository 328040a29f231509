"""What accesses to shared memory cost: wavefronts are passes in which each bank gives one word.

source: NVIDIA, CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks"; Nsight Compute, "Shared memory tables".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...ir.nodes import Expr
from ...layout import Swizzle
from ..open.cost import ISSUE, WAVEFRONT
from ..schedule.turns import Turns

__all__ = ["SharedAccesses", "wavefronts"]

Array = np.ndarray

_BANKS, _BANK_BYTES, _LANES = 32, 4, 32

#: for so many threads and rounds wavefronts are counted: further ones repeat them
_COUNTED_THREADS, _COUNTED_ROUNDS = 64, 8


def wavefronts(issue: Array, thread: Array, address: Array, bytes_each: int) -> int:
    """Those of all accesses, a row each. address: of the first byte, a multiple of `bytes_each`, a power of two.

    Lanes that read one word share it. Accesses of 8 bytes go by half warps, of 16 by quarters.
    """
    return _passes(_groups(issue, thread, bytes_each), address // _piece(bytes_each), _at_once(bytes_each))


def _piece(bytes_each: int) -> int:
    """Bytes that banks give together: an access, or a word of which it is a part."""
    return max(_BANK_BYTES, bytes_each)


def _at_once(bytes_each: int) -> int:
    """How many pieces a wavefront has, and how many lanes it may serve."""
    return _BANKS * _BANK_BYTES // _piece(bytes_each)


def _groups(issue: Array, thread: Array, bytes_each: int) -> Array:
    """Which accesses go at once."""
    lanes_at_once = min(_LANES, _at_once(bytes_each))
    return np.asarray(issue * (int(thread.max(initial=0)) // lanes_at_once + 1) + thread // lanes_at_once)


def _passes(group: Array, piece: Array, at_once: int) -> int:
    """How many passes give each group its pieces."""
    if not len(group):
        return 0
    span = int(piece.max()) + 1
    each_once = np.sort(group * span + piece)
    each_once = each_once[np.concatenate([[True], each_once[1:] != each_once[:-1]])]
    banks = each_once // span * at_once + each_once % span % at_once
    count = np.bincount(banks, minlength=(int(group.max()) + 1) * at_once)
    return int(count.reshape(-1, at_once).max(axis=1).sum())


@dataclass(frozen=True, slots=True, eq=False)
class SharedAccesses:
    """What the first warps access in the first of `rounds` rounds: further ones repeat it.

    group: which of them go at once. address: of the first element, before swizzling. width: elements of each.
    bytes_each: of an element. instructions: of all warps. counted: rounds.
    """

    group: Array
    address: Array
    width: int
    bytes_each: int
    instructions: int
    rounds: int
    counted: int

    @staticmethod
    def of(
        rounds: int,
        threads: int,
        address: Callable[[Expr, Expr], Expr],
        takes_part: Callable[[Expr, Expr], Expr],
        width: int,
        bytes_each: int,
    ) -> SharedAccesses:
        """address, takes_part: of a thread in a round."""
        counted = min(rounds, _COUNTED_ROUNDS)
        turns = Turns(counted, min(threads, _COUNTED_THREADS))
        rows = turns.holding(takes_part(*turns.turn))
        at = turns.values(address(*turns.turn))[rows, 0]
        issue, thread = turns.rounds_of[rows], turns.threads_of[rows]
        group = _groups(issue, thread, width * bytes_each)
        warps = len(np.unique(issue * threads + thread // _LANES))
        return SharedAccesses(group, at, width, bytes_each, warps, rounds, counted)

    def cost(self, swizzle: Swizzle | None = None) -> int:
        """Of all rounds, where addresses are swizzled."""
        at = self.address if swizzle is None else swizzle.apply(self.address)
        size = self.width * self.bytes_each
        return self._priced(_passes(self.group, at * self.bytes_each // _piece(size), _at_once(size)))

    @property
    def least(self) -> int:
        """As if no two lanes met in a bank."""
        size = self.width * self.bytes_each
        pieces = np.unique(np.stack([self.group, self.address * self.bytes_each // _piece(size)]), axis=1)
        return self._priced(int((-(-np.bincount(pieces[0]) // _at_once(size))).sum()))

    def _priced(self, passes: int) -> int:
        return (ISSUE * self.instructions + WAVEFRONT * passes) * self.rounds // max(self.counted, 1)
