"""Two layouts of one tile compared: who holds what on either side, and how each owner comes to it.

    element     0       1       2       3
    from        0 r0    0 r1    1 r0    1 r1       thread, register
    to          0 r1    0 r0    1 r1    1 r0       each thread has what it needs: r0 and r1 change names
    to          0 r0    1 r0    0 r1    1 r1       thread 0 needs element 2 of thread 1, which needs element 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..dataclass import dataclass
from ..errors import LayoutError
from .tile_layout import TileLayout

__all__ = ["Holding", "renaming"]

Array = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """Which thread of a scope holds each element of a box in which register, elements in row-major order.

    thread, register: of shape (replicas, elements).
    """

    thread: Array
    register: Array

    @staticmethod
    def of(
        layout: TileLayout, slots: Sequence[int], box: Sequence[tuple[int, int]], steps: Mapping[str, int]
    ) -> Holding:
        """A box of a tile.

        slots: the shape that the layout has. box: (start, extent) a dimension. steps: thread axis -> how many threads
        of the scope a step along it is.
        raises: LayoutError where the layout counts threads beyond the scope.
        """
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
                    f"{layout!r} counts threads along {axis}, which the operation's scope doesn't have",
                    hint="count them along an axis of that scope",
                )
        both = np.broadcast_arrays(thread, register)
        return Holding(both[0], both[1])

    @property
    def elements(self) -> int:
        return int(self.thread.shape[1])


def renaming(src: Holding, dst: Holding) -> tuple[tuple[int, int], ...] | str:
    """(register of the destination, of the source), in order, where that is the same for every thread.

    returns: else why it isn't.
    """
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
        return f"{missing} of {wanted.size} values are held by other threads than need them"
    return _renamed(dst.register.ravel(), src.register.ravel()[order][at])


def _renamed(to: Array, source: Array) -> tuple[tuple[int, int], ...] | str:
    """As `renaming`, for values of which each goes from one register to another, in whatever thread."""
    # what each register becomes, by the last value that it gets
    becomes = np.full(int(to.max(initial=-1)) + 1, -1, np.int64)
    becomes[to] = source
    if np.any(becomes[to] != source):
        return "which register becomes which depends on the thread"
    return tuple((int(register), int(becomes[register])) for register in np.flatnonzero(becomes >= 0))
