"""Comparison of two layouts of a tile: the elements that each thread holds, and those that it needs.

    element     0       1       2       3
    from        0 r0    0 r1    1 r0    1 r1       thread, register
    to          0 r1    0 r0    1 r1    1 r0       no exchange is needed: r0 and r1 are renamed
    to          0 r0    1 r0    0 r1    1 r1       thread 0 needs element 2, and thread 1 needs element 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..dataclass import dataclass
from ..errors import LayoutError
from .tile_layout import TileLayout

Array = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """The thread and register of each element of a box, in row-major order, as arrays of shape (replicas, elements)."""

    thread: Array
    register: Array

    @staticmethod
    def of(
        layout: TileLayout, slots: Sequence[int], box: Sequence[tuple[int, int]], steps: Mapping[str, int]
    ) -> Holding:
        """Return a box's owners. slots: the tile's shape. box: (start, extent) pairs. steps: axis -> threads a step."""
        index = np.zeros((), np.int64)
        for (start, extent), size in zip(box, slots, strict=True):
            index = index[..., None] * size + start + np.arange(extent)
        flat = index.ravel()
        thread = np.zeros((1, flat.size), np.int64)
        register = thread.copy()
        for axis, coordinate in layout.map_all(slots).items():
            at = np.atleast_2d(coordinate)[:, flat]
            if axis in steps:
                thread = thread + at * steps[axis]
            elif axis == "m":
                register = register + at
            else:
                raise LayoutError(
                    f"{layout!r} uses axis {axis}, which the operation's scope doesn't have",
                    hint="use thread axes of that scope, and m for registers",
                )
        both = np.broadcast_arrays(thread, register)
        return Holding(both[0], both[1])

    @property
    def elements(self) -> int:
        return int(self.thread.shape[1])


def renaming(src: Holding, dst: Holding) -> tuple[tuple[int, int], ...] | str:
    """Return sorted (destination register, source register) pairs, or the reason why no renaming suits all threads."""
    if np.array_equal(src.thread, dst.thread):
        return _renamed(dst.register.ravel(), src.register.ravel())
    count = src.elements
    element = np.arange(count)
    held = (src.thread * count + element).ravel()
    order = np.argsort(held, kind="stable")
    wanted = (dst.thread * count + element).ravel()
    at = np.minimum(np.searchsorted(held[order], wanted), held.size - 1)
    missing = int(np.count_nonzero(held[order][at] != wanted))
    if missing:
        return f"{missing} of {wanted.size} values aren't held by the threads that need them"
    return _renamed(dst.register.ravel(), src.register.ravel()[order][at])


def _renamed(to: Array, source: Array) -> tuple[tuple[int, int], ...] | str:
    # destination register -> source register; if threads differ, that of the last one, which is detected below
    becomes = np.full(int(to.max(initial=-1)) + 1, -1, np.int64)
    becomes[to] = source
    if np.any(becomes[to] != source):
        return "the renaming of registers depends on the thread"
    return tuple((int(register), int(becomes[register])) for register in np.flatnonzero(becomes >= 0))
