"""How many wavefronts accesses to shared memory take: passes in which each bank gives one word.

source: NVIDIA, CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks"; Nsight Compute, "Shared memory tables".
"""

from __future__ import annotations

import numpy as np

__all__ = ["wavefronts"]

Array = np.ndarray

_BANKS, _BANK_BYTES, _LANES = 32, 4, 32


def wavefronts(issue: Array, thread: Array, address: Array, bytes_each: int) -> int:
    """Those of all accesses, a row each. address: of the first byte. bytes_each: a power of two.

    Lanes that read one word share it. Accesses of 8 bytes go by half warps, of 16 by quarters.
    """
    words = max(1, bytes_each // _BANK_BYTES)
    lanes_at_once = _LANES // words
    group = issue * (int(thread.max(initial=0)) // lanes_at_once + 1) + thread // lanes_at_once
    word = (address[:, None] // _BANK_BYTES + np.arange(words)).ravel()
    pairs = np.unique(np.stack([np.repeat(group, words), word], axis=1), axis=0)
    at = np.unique(pairs[:, 0], return_inverse=True)[1].ravel() * _BANKS + pairs[:, 1] % _BANKS
    each = np.bincount(at, minlength=(int(at.max(initial=0)) // _BANKS + 1) * _BANKS)
    return int(each.reshape(-1, _BANKS).max(axis=1).sum())
