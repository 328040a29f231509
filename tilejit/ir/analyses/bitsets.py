"""Sets of small nonnegative integers, as integers: bit b is set if b is a member."""

from __future__ import annotations

import numpy as np


def flagged(flags: np.ndarray) -> int:
    """Return the set of the indices of nonzero flags."""
    return int.from_bytes(np.packbits(flags.astype(bool), bitorder="little").tobytes(), "little")


def set_of(numbers: np.ndarray) -> int:
    """Return the set of these numbers."""
    flags = np.zeros(int(numbers.max(initial=-1)) + 1, bool)
    flags[numbers.ravel()] = True
    return flagged(flags)


def members(bits: int) -> list[int]:
    """Return the members of a set in ascending order."""
    packed = np.frombuffer(bits.to_bytes((bits.bit_length() + 7) // 8, "little"), np.uint8)
    return [int(n) for n in np.flatnonzero(np.unpackbits(packed, bitorder="little"))]
