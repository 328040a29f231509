"""Selection of the rows and columns of a large tile that a picture shows.

An index is decomposed into the layout's digits. The first values and the last value of each digit are shown, and all
values of the innermost digits if there is room. Rows with digits (16, 8), of which at most 32 are shown:

    0 1 2 3 4 5 6 7 | 8 ... 15 | 16 ... 23 | … | 120 ... 127
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from ..errors import LayoutError
from . import iters
from .axes import m
from .iters import Iter, weights

if TYPE_CHECKING:
    from .tile_layout import TileLayout

#: maximum number of digits that are abridged; the outermost are merged if there are more
_MOST_DIGITS = 3


def parts(layout: TileLayout, shape: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the extents of the layout's digits in each dimension, split at a swizzle's chunks and rows."""
    try:
        groups = iters.refined(layout.shard, shape)
    except LayoutError:
        # digits cross dimensions and show no pattern
        return [(extent,) for extent in shape]
    return [tuple(e for it in iters.merged(group) for e in _cut(it, layout)) or (1,) for group in groups]


def _cut(it: Iter, layout: TileLayout) -> tuple[int, ...]:
    """Split an iterator's extent at the bits that the swizzle reads and changes."""
    swizzle, stride = layout.swizzle, abs(it.stride)
    if swizzle is None or it.axis != m or not stride:
        return (it.extent,)
    bits = (swizzle.base, swizzle.base + swizzle.shift, swizzle.base + swizzle.shift + swizzle.bits)
    extents: list[int] = []
    outer = it.extent
    for steps in sorted({(1 << bit) // stride for bit in bits}, reverse=True):
        if 1 < steps < outer and outer % steps == 0:
            extents.append(outer // steps)
            outer = steps
    return (*extents, outer)


def kept(extents: Sequence[int], most: int) -> list[int]:
    """Return at most `most` values of an index whose digits have these extents.

        kept((16, 2), 8)     [0, 1, 2, 3, 4, 5, 30, 31]
    """
    count = math.prod(extents)
    if count <= most:
        return list(range(count))
    fewer = [e for e in extents if e > 1]
    outer = len(fewer) - _MOST_DIGITS + 1
    if outer > 1:
        fewer = [math.prod(fewer[:outer]), *fewer[outer:]]
    counts = [2] * len(fewer)
    for k in reversed(range(len(fewer))):
        others = math.prod(counts) // counts[k]
        counts[k] = min(fewer[k], most // others)
    values = [_ends(extent, n) for extent, n in zip(fewer, counts, strict=True)]
    worth = weights(fewer)
    return [sum(x * w for x, w in zip(digits, worth, strict=True)) for digits in product(*values)]


def _ends(extent: int, count: int) -> list[int]:
    return list(range(extent)) if count == extent else [*range(count - 1), extent - 1]


def around(wanted: Sequence[int], extent: int, most: int) -> list[int]:
    """Return at most `most` indices below `extent`, sorted: the first of `wanted`, and the smallest others."""
    first = list(wanted)[:most]
    others = (number for number in range(extent) if number not in set(first))
    return sorted([*first, *(number for number, _ in zip(others, range(most - len(first)), strict=False))])
