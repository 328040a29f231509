"""The layout of a tile that nobody laid out and that meets no other."""

from __future__ import annotations

import math

from .axes import Axis
from .iters import Iter
from .tile_layout import TileLayout

__all__ = ["alone"]


def alone(
    shape: tuple[int, ...], bits: int, threads: int, axis: str, widest: int
) -> tuple[TileLayout, tuple[int, ...]]:
    """In each round neighbouring threads own neighbouring vectors, in row-major order; of one element all own a copy.

    shape: of the tile, `bits` an element. axis: counts the threads. widest: bits that one access moves at most.
    returns: the layout, and its slots where it has more than the tile has elements.
    """
    count, m = math.prod(shape), Axis("m")
    if count == 1:
        return TileLayout((Iter(1, 1, m),) * max(1, len(shape)), (Iter(threads, 1, Axis(axis)),)), ()
    innermost = shape[-1]
    width = widest // bits
    while width > 1 and (count % (threads * width) or innermost % width):
        width //= 2
    rounds = -(-count // (threads * width))
    layout = TileLayout((Iter(rounds, width, m), Iter(threads, 1, Axis(axis)), Iter(width, 1, m)))
    slots = rounds * threads * width
    return layout, () if slots == count else (slots,)
