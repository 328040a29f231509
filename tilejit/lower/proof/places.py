"""The place of each element of a region, by enumeration of its layout."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from ...ir.arithmetic import build
from ...ir.arithmetic.evaluate import evaluate
from ...ir.nodes import Buffer, Region, Strided
from ...scopes import CTA, SCOPES
from ...target import TMEM_LANE
from ..plans import launch_values

Array = np.ndarray

#: distance between threads in the keys of registers; greater than every register
_THREAD = 1 << 32


def addresses(region: Region, values: Mapping[str, int] | None = None, boxes: Array | None = None) -> Array:
    """Return the address of each element, in elements.

    values: those of variables, by default `launch_values`. boxes: the index of each gathered box, 0 by default.
    """
    names = launch_values((region,)) if values is None else values
    layout, at = region.buffer.layout, _coordinates(region, names)
    if boxes is not None and region.gathered is not None:
        at[region.gathered.dim] = np.repeat(boxes, prod(region.counts))
    if isinstance(layout, Strided):
        strides = [s if isinstance(s, int) else names[s.name] for s in layout.strides]
        return np.asarray(sum(x * s for x, s in zip(at, strides, strict=True)))
    places = _places(region.buffer, at)
    return np.asarray(sum(places.values(), start=np.zeros(1, np.int64))[0])


def owners_of(region: Region, scope: str) -> tuple[Array, Array]:
    """Return (thread, register) of each element, one row per replica."""
    zero = np.zeros((1, prod(region.shape)), np.int64)
    thread, register = zero, zero
    for name, values in _places(region.buffer, _coordinates(region, {})).items():
        if name in CTA.steps:
            thread = thread + values * SCOPES[scope].steps[name]
        else:
            register = register + values
    both = np.broadcast_arrays(thread, register)
    return both[0], both[1]


def elements_of_threads(region: Region, scope: str, threads: int, registers: int = 0) -> Array:
    """Return the index of the element of `region`, or -1, in each thread's registers. registers: minimum number."""
    owners, places = owners_of(region, scope)
    held = np.full((threads, max(region.buffer.tile_layout.storage().span(), registers)), -1)
    held[owners, places] = np.arange(owners.shape[1])
    return held


def whole(region: Region) -> Region:
    """Return the region of all elements of a local tile."""
    buffer = region.buffer
    return Region(buffer, tuple(build.const(0, s.dtype) for s in region.starts), buffer.fixed_shape)


def keys(region: Region, scope: str, values: Mapping[str, int]) -> Array:
    """Return each element's place as `key_of` encodes it, of shape (replicas, elements). values: those of variables."""
    space = region.buffer.space
    if space == "local":
        return key_of(region, *owners_of(region, scope))
    if space != "tmem":
        return np.broadcast_to(addresses(region, values), (1, prod(region.shape)))
    return tmem_places(region, values, TMEM_LANE)


def key_of(region: Region, thread: Array, place: Array) -> Array:
    """Encode places as integers. thread, place: as in `plans.Moves`."""
    return np.asarray(thread * _THREAD + place) if region.buffer.space == "local" else place


def tmem_places(region: Region, values: Mapping[str, int], pitch: int) -> Array:
    """Return lane * `pitch` + column, in elements, of each element in tensor memory."""
    places = _places(region.buffer, _coordinates(region, values))
    none = np.zeros((1, prod(region.shape)), np.int64)
    return np.asarray(none + places.get("TLane", none) * pitch + places.get("TCol", none))


def _coordinates(region: Region, values: Mapping[str, int]) -> list[Array]:
    """Return the index of each element (in row-major order) in every dimension of the buffer; 0 in a gathered one."""
    spans = [
        np.arange(count) + int(evaluate(start, values))
        for start, count in zip(region.starts, region.counts, strict=True)
    ]
    boxes = prod(region.index_shape)
    return [np.tile(g.ravel(), boxes) for g in np.meshgrid(*spans, indexing="ij")] if spans else []


def _places(buffer: Buffer, at: list[Array]) -> dict[str, Array]:
    """Map each axis name to the coordinate of each element, one row per replica."""
    layout, shape = buffer.tile_layout, tuple(n for n in buffer.laid_out if isinstance(n, int))
    # a tile of shape () has one element
    grouped, ends = layout.group(shape or (1,))
    here: dict[str, Array] = {axis.name: np.full(1, value) for axis, value in layout.offset}
    for index, first, last in zip(at, ends, ends[1:], strict=False):
        remainder = index
        for k in reversed(range(first, last)):
            it = grouped.shard[k]
            digit = remainder if k == first else remainder % it.extent
            remainder = remainder // it.extent
            here[it.axis.name] = here.get(it.axis.name, np.zeros(1, np.int64)) + digit * it.stride
    here = {name: value[None] for name, value in here.items()}
    copy = np.arange(prod(it.extent for it in layout.replica))
    for it in layout.replica:
        digit, copy = copy % it.extent, copy // it.extent
        here[it.axis.name] = here.get(it.axis.name, np.zeros((1, 1), np.int64)) + digit[:, None] * it.stride
    if layout.swizzle is not None:
        here["m"] = layout.swizzle.apply(here.get("m", np.zeros((1, 1), np.int64)))
    return here
