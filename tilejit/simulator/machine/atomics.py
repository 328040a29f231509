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
    runs = _Runs(order, place, first)
    if plain and name == "add" and view.dtype.kind in "iu":
        return _running_totals(view, runs, values[0])
    if plain and runs.starts.size < runs.longest:
        return _accumulate(_INTEGER[name], view, runs, values[0])
    return _by_rank(step(op), view, runs, values)


class _Runs:
    """Threads sorted by the place that they update: one run per place.

    order: the threads; starts: where each run begins; places: what it updates; longest: threads of the longest.
    """

    def __init__(self, order: Array, place: Array, first: Array) -> None:
        self.order = order
        self.starts = np.flatnonzero(first)
        self.places = place[self.starts]
        self.lengths = np.diff(np.append(self.starts, place.size))
        self.longest = int(self.lengths.max())

    def unsorted(self, values: Array) -> Array:
        """Values of the sorted threads, in the threads' own order."""
        result = np.empty_like(values)
        result[self.order] = values
        return result


def _running_totals(view: Array, runs: _Runs, value: Array) -> Array:
    """Integer additions, which wrap: totals over all runs, less what lies in front of each."""
    sorted_values = value[runs.order].astype(view.dtype, copy=False)
    total = np.cumsum(sorted_values, dtype=view.dtype)
    before = total - sorted_values
    base = view[runs.places] - before[runs.starts]
    view[runs.places] = base + total[runs.starts + runs.lengths - 1]
    return runs.unsorted(before + np.repeat(base, runs.lengths))


def _accumulate(ufunc: Any, view: Array, runs: _Runs, value: Array) -> Array:
    """Few places that many threads update: running results, one place at a time."""
    sorted_values = value[runs.order]
    old = np.empty(sorted_values.size, view.dtype)
    for start, length, place in zip(runs.starts, runs.lengths, runs.places, strict=True):
        chain = np.empty(length + 1, view.dtype)
        chain[0] = view[place]
        chain[1:] = sorted_values[start : start + length]
        total = ufunc.accumulate(chain)
        old[start : start + length] = total[:-1]
        view[place] = total[-1]
    return runs.unsorted(old)


def _by_rank(function: Update, view: Array, runs: _Runs, values: tuple[Array, ...]) -> Array:
    """One round per thread of the most contended place; each round's places differ."""
    # the longest runs first, so that those that take part in a round are the first so many
    longest_first = np.argsort(-runs.lengths, kind="stable")
    starts, places = runs.starts[longest_first], runs.places[longest_first]
    taking_part = np.searchsorted(-runs.lengths[longest_first], -np.arange(runs.longest), side="left")
    sorted_values = tuple(v[runs.order] for v in values)
    old = np.empty(runs.order.size, view.dtype)
    now = view[places]
    for r, count in enumerate(taking_part):
        at = starts[:count] + r
        old[at] = now[:count]
        now[:count] = function(now[:count], tuple(v[at] for v in sorted_values))
    view[places] = now
    return runs.unsorted(old)
