"""Atomic updates of a group of threads, as if the threads came one by one in ascending order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics.floats import FUNCTIONS as FLOAT

Array = NDArray[Any]
Update = Callable[[Array, tuple[Array, ...]], Array]


def _increment(old: Array, v: tuple[Array, ...]) -> Array:
    result: Array = np.where(old >= v[0], old.dtype.type(0), old + old.dtype.type(1))
    return result


def _decrement(old: Array, v: tuple[Array, ...]) -> Array:
    return np.where((old == 0) | (old > v[0]), v[0], old - old.dtype.type(1))


_INTEGER: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def step(op: str) -> Update:
    """The function (old, operands) → new of `op.type`, vectorised over places that differ."""
    name, _, t = op.partition(".")
    if name == "exch":
        return lambda old, v: v[0].astype(old.dtype)
    if name == "cas":
        return lambda old, v: np.where(old == v[0], v[1], old)
    if name == "inc":
        return _increment
    if name == "dec":
        return _decrement
    if name in ("add", "min", "max") and t in ("f16x2", "bf16", "bf16x2"):
        packed = FLOAT[f"{name}_{t}"]
        return lambda old, v: packed(old, v[0])
    if name in ("min", "max") and t == "f16":
        pick = np.fmin if name == "min" else np.fmax
        return lambda old, v: pick(old, v[0])
    ufunc = _INTEGER[name]
    return lambda old, v: ufunc(old, v[0])


def update(op: str, view: Array, index: NDArray[np.int64], values: tuple[Array, ...], wanted: bool) -> Any:
    """Carry out `op` on view[index]; returns what each thread found there if `wanted`."""
    name, _, t = op.partition(".")
    plain = name in _INTEGER and t not in ("f16x2", "bf16", "bf16x2")
    if plain and not wanted and index.size > 1:
        _INTEGER[name].at(view, index, values[0])
        return None
    order = np.argsort(index, kind="stable")
    place = index[order]
    first = np.empty(place.size, bool)
    first[0] = True
    np.not_equal(place[1:], place[:-1], out=first[1:])
    if np.count_nonzero(first) == place.size:
        old = view[index]
        view[index] = step(op)(old, values)
        return old
    if plain:
        return _accumulate(_INTEGER[name], view, order, place, first, values[0])
    return _by_rank(step(op), view, order, place, first, values)


def _accumulate(ufunc: Any, view: Array, order: Array, place: Array, first: Array, value: Array) -> Array:
    """Places that several threads update: running totals, one place at a time."""
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], place.size)
    sorted_values = value[order]
    old = np.empty(place.size, view.dtype)
    for start, end in zip(starts, ends, strict=True):
        chain = np.empty(end - start + 1, view.dtype)
        chain[0] = view[place[start]]
        chain[1:] = sorted_values[start:end]
        total = ufunc.accumulate(chain)
        old[start:end] = total[:-1]
        view[place[start]] = total[-1]
    result = np.empty_like(old)
    result[order] = old
    return result


def _by_rank(
    function: Update, view: Array, order: Array, place: Array, first: Array, values: tuple[Array, ...]
) -> Array:
    """One round per thread of the most contended place; each round's places differ."""
    starts = np.flatnonzero(first)
    rank = np.arange(place.size) - np.repeat(starts, np.diff(np.append(starts, place.size)))
    old = np.empty(place.size, view.dtype)
    for r in range(int(rank.max()) + 1):
        at = np.flatnonzero(rank == r)
        found = view[place[at]]
        old[at] = found
        view[place[at]] = function(found, tuple(v[order[at]] for v in values))
    result = np.empty_like(old)
    result[order] = old
    return result
