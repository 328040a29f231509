"""Atomic updates by a group of threads, as if executed one by one in ascending thread order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics.floats import FUNCTIONS as FLOAT

Array = NDArray[Any]
Update = Callable[[Array, tuple[Array, ...]], Array]

_INTEGER: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}

# an update of one element by one thread, on Python integers
_ONE_BY_ONE: dict[str, Callable[..., int]] = {
    "cas": lambda old, expected, new: new if old == expected else old,
    "inc": lambda old, bound: 0 if old >= bound else old + 1,
    "dec": lambda old, bound: bound if old == 0 or old > bound else old - 1,
}
# the number of scalar updates (`_one_by_one`) that take as long as one vectorized step
_STEP_THREADS = 80

# the same updates and the exchange, vectorized over distinct elements: (old values, operands) → new values
_STEPS: dict[str, Update] = {
    "exch": lambda old, v: v[0].astype(old.dtype),
    "cas": lambda old, v: np.where(old == v[0], v[1], old),
    "inc": lambda old, v: np.where(old >= v[0], old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, v: np.where((old == 0) | (old > v[0]), v[0], old - old.dtype.type(1)),
}


def step(op: str) -> Update:
    """Return a function (old values, operands) → new values, which applies `op`, such as "add.u32", elementwise."""
    name, _, t = op.partition(".")
    if name in _STEPS:
        return _STEPS[name]
    function = _INTEGER[name]
    if t in ("f16x2", "bf16", "bf16x2"):
        function = FLOAT.get(f"{name}_{t}", function)
    elif name in ("min", "max") and t == "f16":
        function = np.fmin if name == "min" else np.fmax
    return lambda old, v: function(old, v[0])


def update(op: str, view: Array, index: NDArray[np.int64], values: tuple[Array, ...], wanted: bool) -> Any:
    """Apply `op` to `view[index]`, as if thread by thread. Return the old values, or possibly None if not `wanted`."""
    name, _, t = op.partition(".")
    plain = name in _INTEGER and t not in ("f16x2", "bf16", "bf16x2")
    if plain and not wanted and index.size > 1:
        _INTEGER[name].at(view, index, values[0])
        return None
    order = _stable_order(index)
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
    if name == "exch":
        return _exchange(view, runs, values[0])
    if name in _ONE_BY_ONE:
        # the bound of inc and dec, the expected value of cas
        first_operand = values[0][order]
        each_run = first_operand[runs.starts]
        if (first_operand == runs.spread(each_run)).all():
            if name == "cas":
                return _swap_once(view, runs, each_run.astype(view.dtype, copy=False), values[1])
            return _count_modulo(name, view, runs, each_run)
    if name in _ONE_BY_ONE and runs.longest > index.size // _STEP_THREADS:
        return _one_by_one(_ONE_BY_ONE[name], view, runs, values)
    return _by_rank(step(op), view, runs, values)


def _stable_order(index: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a stable argsort of `index`; if possible, sort 16-bit keys, which NumPy does 4 to 10 times as fast."""
    least = index.min()
    span = int(index.max() - least)
    if span == 0:
        return np.arange(index.size)
    if span >= 1 << 32:
        return np.argsort(index, kind="stable")
    above = index - least
    order = np.argsort(above.astype(np.uint16), kind="stable")
    if span >= 1 << 16:
        order = order[np.argsort((above >> 16).astype(np.uint16)[order], kind="stable")]
    return order


class _Runs:
    """Threads sorted by the element that they update; the threads that update one element form a run.

    order: the sorted threads' indices. starts, lengths, places: each run's start in `order`, length, and element index.
    """

    def __init__(self, order: Array, place: Array, first: Array) -> None:
        self.order = order
        self.starts = np.flatnonzero(first)
        self.places = place[self.starts]
        self.lengths = np.diff(np.append(self.starts, place.size))
        self.longest = int(self.lengths.max())

    def unsorted(self, values: Array) -> Array:
        result = np.empty_like(values)
        result[self.order] = values
        return result

    def spread(self, values: Array) -> Array:
        """Repeat each run's value for each of its threads; return a single run's value as is, since it broadcasts."""
        return values if values.size == 1 else np.repeat(values, self.lengths)


def ranks(lengths: Array) -> NDArray[np.int64]:
    """Return the numbers 0, 1, …, length - 1 of each run, concatenated."""
    if lengths.size == 1:
        return np.arange(lengths[0])
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if ends.size else 0
    result: NDArray[np.int64] = np.arange(total) - np.repeat(ends - lengths, lengths)
    return result


def _running_totals(view: Array, runs: _Runs, value: Array) -> Array:
    sorted_values = value[runs.order].astype(view.dtype, copy=False)
    total = np.cumsum(sorted_values, dtype=view.dtype)
    before = total - sorted_values
    base = view[runs.places] - before[runs.starts]
    view[runs.places] = base + total[runs.starts + runs.lengths - 1]
    return runs.unsorted(before + np.repeat(base, runs.lengths))


def _accumulate(ufunc: Any, view: Array, runs: _Runs, value: Array) -> Array:
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


def _exchange(view: Array, runs: _Runs, value: Array) -> Array:
    left = value[runs.order].astype(view.dtype, copy=False)
    old = np.empty_like(left)
    old[1:] = left[:-1]
    old[runs.starts] = view[runs.places]
    view[runs.places] = left[runs.starts + runs.lengths - 1]
    return runs.unsorted(old)


def _count_modulo(name: str, view: Array, runs: _Runs, bounds: Array) -> Array:
    """Apply inc or dec to runs, each with one bound for all its threads: count modulo bound + 1."""
    begin, bound = view[runs.places].astype(np.int64), bounds.astype(np.int64)
    last = bound if name == "inc" else np.zeros_like(bound)
    forward = 1 if name == "inc" else -1
    # an initial value above the bound wraps in the first step
    inside = np.where(begin > bound, last, begin)
    counts = runs.spread(inside) + forward * ranks(runs.lengths)
    old = counts % runs.spread(bound + 1)
    old[runs.starts] = begin
    view[runs.places] = ((inside + forward * runs.lengths) % (bound + 1)).astype(view.dtype)
    return runs.unsorted(old.astype(view.dtype))


def _swap_once(view: Array, runs: _Runs, expected: Array, new: Array) -> Array:
    """Apply cas to runs, each with one expected value for all its threads: once that is replaced, the rest fail."""
    new = new[runs.order].astype(view.dtype, copy=False)
    old = np.repeat(view[runs.places], runs.lengths)
    ends = runs.starts + runs.lengths
    position = np.arange(new.size)
    first = np.minimum.reduceat(
        np.where(new != np.repeat(expected, runs.lengths), position, new.size), runs.starts
    )
    changed = np.flatnonzero((view[runs.places] == expected) & (first < ends))
    winners = np.repeat(first[changed], runs.lengths[changed])
    members = np.repeat(runs.starts[changed], runs.lengths[changed]) + ranks(runs.lengths[changed])
    late = members > winners
    old[members[late]] = new[winners[late]]
    view[runs.places[changed]] = new[first[changed]]
    return runs.unsorted(old)


def _one_by_one(function: Callable[..., int], view: Array, runs: _Runs, values: tuple[Array, ...]) -> Array:
    operands = list(zip(*(v[runs.order].tolist() for v in values), strict=True))
    old: list[int] = []
    for start, length, place in zip(runs.starts.tolist(), runs.lengths.tolist(), runs.places.tolist(), strict=True):
        now = int(view[place])
        for operand in operands[start : start + length]:
            old.append(now)
            now = function(now, *operand)
        view[place] = now
    return runs.unsorted(np.array(old, view.dtype))


def _by_rank(function: Update, view: Array, runs: _Runs, values: tuple[Array, ...]) -> Array:
    """Update in vectorized steps: step i applies the i-th update of each run that has one, to distinct elements."""
    # longest first, so the runs that are still active in a step form a prefix
    longest_first = np.argsort(-runs.lengths, kind="stable")
    starts, places = runs.starts[longest_first], runs.places[longest_first]
    active = np.searchsorted(-runs.lengths[longest_first], -np.arange(runs.longest), side="left")
    sorted_values = tuple(v[runs.order] for v in values)
    old = np.empty(runs.order.size, view.dtype)
    now = view[places]
    for r, count in enumerate(active):
        at = starts[:count] + r
        old[at] = now[:count]
        now[:count] = function(now[:count], tuple(v[at] for v in sorted_values))
    view[places] = now
    return runs.unsorted(old)
