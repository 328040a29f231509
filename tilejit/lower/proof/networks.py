"""Proof of sorting networks: the comparators of the emitted code, in order, applied to test vectors.

By the 0-1 principle a network sorts all rows if it sorts all rows of zeros and ones. Up to 16 elements, these are all
tested; of longer rows 10,240, fewer beyond 1,024 elements: half of them are random, and in the others the elements of
adjacent runs of equal length, a power of two, are sorted, so that they test merges. 64 rows are the bits of one number:
the minimum is their AND, the maximum their OR. Rows of numbers show that the other tiles are compared, or move along,
as they should.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...fast_unique import fast_unique
from ...remember import LIMIT
from ..moves.network import Network
from . import tags
from .tags import TAG, Array, Value, is_tag, tag

_ALL_UP_TO, _ROWS, _NUMBERED_ROWS = 16, 10240, 16
#: the length of rows of which fewer are tested, in proportion, to bound the time and memory
_LONG = 1024
#: the size of the table of values, in words of 64 rows of bits
_TABLE = 1 << 22


class _Compared(NamedTuple):
    """An operation on elements, in some threads."""

    name: str
    args: tuple[Array, ...]
    made: Array


#: the tag of the first result; the others follow
_FIRST = tags.of_name("comparison")


class Comparisons:
    """The operations on elements of a network, in order; each result gets a tag of its own."""

    def __init__(self) -> None:
        self.made: list[_Compared] = []
        self.count = 0

    def operation(self, name: str, args: list[Value]) -> Value:
        """Return the result of an operation: a number if all arguments are."""
        if not any(map(is_tag, args)) or name == "where" and not is_tag(args[0]):
            return tags.computed(name, args)
        if name == "bitwise_xor" and not is_tag(args[1]):
            # a mask of zeros or ones complements the elements of some threads
            return np.where(np.asarray(args[1]) != 0, self.operation("bitwise_not", args[:1]), tag(args[0]))
        assert name in _BITS and all(map(is_tag, args)), f"the proof can't trace {name} of elements"
        columns = np.broadcast_arrays(*map(tag, args))
        made = np.arange(self.count, self.count + columns[0].size).astype(TAG) + _FIRST
        self.count += made.size
        self.made.append(_Compared(name, tuple(columns), made))
        return made


_Functions = Mapping[str, Callable[..., Array]]

#: the operations on 64 rows of zeros and ones, the bits of a number
_BITS: _Functions = {
    "minimum": np.bitwise_and, "maximum": np.bitwise_or, "bitwise_not": np.invert,
    "logical_and": np.bitwise_and, "logical_or": np.bitwise_or, "equal": lambda x, y: ~(x ^ y),
    "less": lambda x, y: ~x & y, "greater": lambda x, y: x & ~y,
    "where": lambda cond, x, y: (cond & x) | (~cond & y),
}
#: the operations on numbers, where conditions are 0 or 1
_NUMBERS: _Functions = {
    "minimum": np.minimum, "maximum": np.maximum, "bitwise_not": np.invert,
    "logical_and": np.bitwise_and, "logical_or": np.bitwise_or, "equal": lambda x, y: (x == y).astype(TAG),
    "less": lambda x, y: (x < y).astype(TAG), "greater": lambda x, y: (x > y).astype(TAG),
    "where": lambda cond, x, y: np.asarray(np.where(cond != 0, x, y)),
}


def prove_sorted(
    plan: Network, comparisons: Comparisons, before: Sequence[Array], after: Sequence[Array]
) -> None:
    """Raise AssertionError unless the rows of the test vectors are sorted.

    before: the tags of the elements of each source. after: those of each destination, of shape (replicas, elements).
    """
    replay, length = _Replay(comparisons, before), 1 << len(plan.bits)
    kept, rows = 1 << plan.kept, before[0].size >> len(plan.bits)
    vectors = _zeros_and_ones(length)
    sorted_bits = np.sort(vectors, axis=0)[:kept]
    step = 64 * max(_TABLE // replay.size, 1)
    for first in range(0, vectors.shape[1], step):
        some = slice(first, first + step)
        given, wanted = (np.tile(_packed(each[:, some]), (rows, 1)) for each in (vectors, sorted_bits))
        made = replay.values([given] * len(before), _BITS)
        for k in range(plan.keys):
            _compare(plan, k, made(after[k]), wanted)
    if len(plan.pairs) > 1:
        columns = _numbers(plan, length)
        order = np.lexsort(columns[: plan.keys][::-1], axis=0)[:kept]
        made = replay.values([np.tile(x, (rows, 1)) for x in columns], _NUMBERS)
        for k, column in enumerate(columns):
            _compare(plan, k, made(after[k]), np.tile(np.take_along_axis(column, order, axis=0), (rows, 1)))


def _compare(plan: Network, k: int, found: Array, wanted: Array) -> None:
    wrong = np.argwhere((found != wanted).any(axis=-1))
    if len(wrong):
        element = int(wrong[0][1])
        raise AssertionError(
            f"the network doesn't sort: position {element % (1 << plan.kept)} of a row of {plan.pairs[k][0]} is wrong "
            "for a test vector"
        )


class _Replay:
    """The operations on elements, with their tags replaced by rows of a table, in groups of independent equal ones."""

    def __init__(self, comparisons: Comparisons, sources: Sequence[Array]) -> None:
        self.count, self.entered = comparisons.count, fast_unique(np.stack(sources))
        self.sources = [self.rows(x) for x in sources]
        depth = np.zeros(self.size, np.int64)
        groups: dict[tuple[int, str], list[list[Array]]] = {}
        for each in comparisons.made:
            columns = [self.rows(column) for column in (*each.args, each.made)]
            depths = np.max([depth[rows] for rows in columns[:-1]], axis=0) + 1
            depth[columns[-1]] = depths
            for at in fast_unique(depths).tolist():
                groups.setdefault((at, each.name), []).append([x[depths == at] for x in columns])
        self.groups = [
            (name, [np.concatenate(x) for x in zip(*groups[at, name], strict=True)]) for at, name in sorted(groups)
        ]

    @property
    def size(self) -> int:
        return self.count + len(self.entered)

    def rows(self, tagged: Array) -> Array:
        """Return the rows of tags: those of results, then those of elements of the sources."""
        row: Array = tagged - _FIRST
        if (row < self.count).all():
            return row.astype(np.int64)
        at = np.minimum(np.searchsorted(self.entered, tagged), len(self.entered) - 1)
        is_entered = self.entered[at] == tagged
        assert (is_entered | (row < self.count)).all(), "what is compared or stored is no element of the sources"
        return np.where(is_entered, at + self.count, row.astype(np.int64))

    def values(self, given: Sequence[Array], functions: _Functions) -> Callable[[Array], Array]:
        """Carry the operations out on `given` values of the sources; return a function from tags to values."""
        table = np.zeros((self.size, given[0].shape[1]), TAG)
        for rows, values in zip(self.sources, given, strict=True):
            table[rows] = values
        for name, columns in self.groups:
            *args, made = columns
            table[made] = functions[name](*[table[rows] for rows in args])
        return lambda tagged: np.asarray(table[self.rows(tagged)])


@lru_cache(LIMIT)
def _zeros_and_ones(length: int) -> Array:
    """Return test vectors of zeros and ones, of shape (length, vectors)."""
    position = np.arange(length)[:, None]
    if length <= _ALL_UP_TO:
        return (np.arange(1 << length) >> position & 1).astype(bool)
    random = np.random.default_rng(0)
    half = _ROWS // 2 // max(length // _LONG, 1)
    scattered = random.random((length, half)) < random.random(half)
    runs = 1 << random.integers(0, length.bit_length(), half)
    ones = random.integers(0, runs + 1, (length, half))
    # the number of ones of a run is that drawn for its first element
    first = position // runs * runs
    return np.concatenate([scattered, position - first >= np.take_along_axis(ones, first, axis=0)], axis=1)


def _packed(vectors: Array) -> Array:
    """Return vectors of booleans, of shape (length, vectors), as the bits of numbers; missing ones are 0."""
    made = np.packbits(vectors, axis=1)
    padded = np.zeros((len(made), -(-made.shape[1] // 8) * 8), np.uint8)
    padded[:, : made.shape[1]] = made
    return padded.view(TAG)


def _numbers(plan: Network, length: int) -> list[Array]:
    """Return values for each source, of shape (length, rows); the last key differs between all elements of a row."""
    random, shape = np.random.default_rng(0), (length, _NUMBERED_ROWS)
    made = [random.integers(0, 4, shape) for _ in plan.pairs]
    made[plan.keys - 1] = random.permuted(np.broadcast_to(np.arange(length)[:, None], shape), axis=0)
    for k in range(plan.keys, len(made)):
        made[k] = made[plan.keys - 1] * len(made) + k
    return [each.astype(TAG) for each in made]
