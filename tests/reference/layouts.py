"""Where an element lives, worked out longhand from plain numbers: an oracle that uses nothing of `tilejit.layout`.

A layout here is a dict as in the data files: `shard` and `replica` as [extent, stride, axis] lists, slowest first,
`offset` as {axis: number}, `swizzle` as per_element, swizzle_len, atom_len and inner.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from tilejit.layout import TileLayout

    #: one number, or an array of them: the arithmetic is the same
    Numbers = int | np.ndarray

#: how many threads of the operation's scope one step along a thread axis moves, in the scope that names it
THREAD_STEP = {"laneid": 1, "tid_in_wg": 1, "tx": 1, "wid_in_wg": 32, "warpid": 32, "wgid": 128}


def coordinates(region: Sequence[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """The logical indices of a region, last dimension fastest."""
    return itertools.product(*(range(start, start + extent) for start, extent in region))


def flat(index: Sequence[Numbers], shape: Sequence[int]) -> Numbers:
    """The row-major number of an index, or of each of many."""
    number: Numbers = 0
    for i, extent in zip(index, shape, strict=True):
        number = number * extent + i
    return number


def plain(layout: TileLayout) -> dict[str, Any]:
    """A layout as numbers."""
    numbers: dict[str, Any] = {
        "shard": [(it.extent, it.stride, it.axis.name) for it in layout.shard],
        "replica": [(it.extent, it.stride, it.axis.name) for it in layout.replica],
        "offset": {axis.name: value for axis, value in layout.offset},
    }
    if layout.swizzle is not None:
        s = layout.swizzle
        numbers["swizzle"] = {"per_element": s.base, "swizzle_len": s.bits, "atom_len": s.shift, "inner": s.inner}
    return numbers


def places(layout: dict[str, Any], number: Numbers) -> list[tuple[Numbers, Numbers]]:
    """Every (thread of the scope, memory element) where logical element `number` lives; replicas in order."""
    return [
        (sum(here.get(axis, 0) * step for axis, step in THREAD_STEP.items()), here.get("m", 0))
        for here in along_axes(layout, number)
    ]


def along_axes(layout: dict[str, Any], number: Numbers) -> list[dict[str, Numbers]]:
    """Where logical element `number` lives along each axis, after swizzling; replicas in order."""
    shard = [tuple(i) for i in layout["shard"]]
    at: dict[str, Numbers] = dict(layout.get("offset") or {})
    for extent, stride, axis in reversed(shard):
        at[axis] = at.get(axis, 0) + number % extent * stride
        number = number // extent
    replica = [tuple(i) for i in layout.get("replica") or []]
    copies = []
    for copy in itertools.product(*(range(extent) for extent, _, _ in replica)):
        here = dict(at)
        for k, (_, stride, axis) in zip(copy, replica, strict=True):
            here[axis] = here.get(axis, 0) + k * stride
        here["m"] = swizzled(layout.get("swizzle"), here.get("m", 0))
        copies.append(here)
    return copies


def swizzled(swizzle: dict[str, Any] | None, element: Numbers) -> Numbers:
    """The element's address after the swizzle: bits of the chunk number are flipped by higher bits of it."""
    if not swizzle:
        return element
    p, b, s = swizzle["per_element"], swizzle["swizzle_len"], swizzle["atom_len"]
    chunk, within = divmod(element, 2**p)
    if swizzle.get("inner", True):
        chunk ^= (chunk >> s) % 2**b
    else:
        chunk ^= (chunk % 2**b) << s
    return chunk * 2**p + within


def storage_size(layout: dict[str, Any]) -> int:
    """Elements of memory that hold the layout's own part, its last swizzle period whole."""
    span = 1 + sum((e - 1) * s for e, s, a in [*layout["shard"], *(layout.get("replica") or [])] if a == "m")
    span += (layout.get("offset") or {}).get("m", 0)
    sw = layout.get("swizzle")
    if sw and sw["swizzle_len"]:
        period = 2 ** (sw["per_element"] + sw["swizzle_len"] + sw["atom_len"])
        span = math.ceil(span / period) * period
    return span
