"""Tensor maps of array arguments, for TMA copies.

A map contains the array's address. Maps are cached by parameter, array facts and address, so repeated launches with the
same arrays only look them up.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ..errors import LaunchError
from ..forks import renewed_at_fork
from ..ir.params import TensorMapParam, TensorMapSpec
from .arrays import ArrayFacts

#: the maximum number of cached maps per parameter
_MOST = 256


class MappedArray(NamedTuple):
    """An array's extents, with the dimension of stride 1 first, and the byte strides of the other dimensions."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]


#: encodes the 128-byte map of an array at an address
Encode = Callable[[TensorMapSpec, int, MappedArray], bytes]


def mapped(spec: TensorMapSpec, facts: ArrayFacts) -> MappedArray | None:
    """Return an array's extents and strides, or None if it has no elements; raise LaunchError if TMA can't copy it."""
    if 0 in facts.shape:
        return None
    dims: list[int] = []
    strides: list[int] = []
    packed = facts.dtype.bytes
    for axis in (*spec.axes, *[None] * (len(spec.box) - len(spec.axes))):
        extent = 1 if axis is None else facts.shape[axis]
        stride = packed if axis is None or extent == 1 else facts.strides[axis] * facts.dtype.bytes
        if extent >= spec.EXTENT_END or stride >= spec.STRIDE_END_BYTES or stride < 0:
            raise _unmappable(spec, axis, extent, stride)
        dims.append(extent)
        strides.append(stride)
        packed = -(-max(stride * extent, 1) // spec.UNIT_BYTES) * spec.UNIT_BYTES
    return MappedArray(tuple(dims), tuple(strides[1:]))


def _unmappable(spec: TensorMapSpec, axis: int | None, extent: int, stride: int) -> LaunchError:
    what = f"dimension {axis} of {spec.of}"
    passed = "a part" if extent >= spec.EXTENT_END else "a dense copy"
    hint = f"choose a variant of the copy that doesn't use TMA, with variant=..., or pass {passed} of the array"
    if extent >= spec.EXTENT_END:
        return LaunchError(f"{what} has {extent:,} elements; TMA supports at most {spec.EXTENT_END - 1:,}", hint=hint)
    if stride < 0:
        return LaunchError(f"{what} has a stride of {stride:,} bytes; TMA supports no negative strides", hint=hint)
    most = f"{spec.STRIDE_END_BYTES:,} bytes"
    return LaunchError(f"{what} has a stride of {stride:,} bytes; TMA supports strides below {most}", hint=hint)


class ParameterMaps:
    """The cached maps of one parameter."""

    def __init__(self, param: TensorMapParam, encode: Encode) -> None:
        self.spec = param.map
        self._encode = encode
        self._by_facts: dict[int, EncodedMaps] = {}
        self._order: deque[tuple[EncodedMaps, int]] = deque()
        self._lock = renewed_at_fork(threading.Lock())

    def of(self, facts: ArrayFacts) -> EncodedMaps:
        maps = self._by_facts.get(facts.number)
        return maps if maps is not None else self._by_facts.setdefault(facts.number, EncodedMaps(self, facts))

    def make(self, maps: EncodedMaps, facts: ArrayFacts, address: int) -> bytes:
        """Encode a map, cache it and return it; evict the oldest map if there are too many."""
        array = mapped(self.spec, facts)
        made = bytes(TensorMapParam.size_bytes) if array is None else self._encode(self.spec, address, array)
        with self._lock:
            self._order.append((maps, address))
            maps[address] = made
            if len(self._order) > _MOST:
                oldest, oldest_address = self._order.popleft()
                oldest.pop(oldest_address, None)
                if not oldest:
                    self._by_facts.pop(oldest.facts.number, None)
        return made


class EncodedMaps(dict[int, bytes]):
    """The maps of arrays with the same facts, by address; a missing map is encoded on lookup."""

    def __init__(self, parameter: ParameterMaps, facts: ArrayFacts) -> None:
        self._parameter = parameter
        self.facts = facts

    def __missing__(self, address: int) -> bytes:
        return self._parameter.make(self, self.facts, address)
