"""The order in which a function that needn't be commutative combines elements.

The digits of the elements' row-major index are combined one at a time, fastest first, so that the elements of the lower
of two values directly precede those of the higher. A row of 1024 over 128 threads with 2 times 4 elements each:

    digit     half 2         warp 4       lane 32         element 4
    weight    512            128          4               1
    place     register 4     thread 32    thread 1        register 1
    step      4th            3rd          2nd             1st

    registers   a balanced tree in each thread
    lanes       bit by bit, from the smallest distance up: two lanes exchange their values and both combine them
    members     through shared memory: every thread reads all values of its results and combines them in a tree

Padding is skipped. The valid elements of a dimension come first, so a partial result is valid if its first element is,
and only the higher of two partial results must be tested.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Generic, TypeVar

from ...dataclass import dataclass
from ...dtypes import int32
from ...ir.arithmetic import build, facts
from ...ir.nodes import FALSE, TRUE, Expr, TileOp
from ...scopes import WARP
from ...target import WARP as LANES
from .digits import Digit
from .placement import DigitStep
from .shares import at_warp, is_binary, numbered, reduced_tiles
from .strides import Thread
from .views import DigitSchedule

T = TypeVar("T")

#: values of the register digits that haven't been combined yet, slowest first
Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FoldStep:
    """A digit that is combined in one step."""

    extent: int
    #: the dimension of the space, and the digit's weight in that dimension's index
    dim: int
    weight: int
    #: set if the step is over registers
    digit: Digit | None = None
    #: set if the step is over threads
    threads: DigitStep | None = None
    #: True if the step combines the values of two lanes by a shuffle
    is_lane: bool = False


@dataclass(frozen=True, slots=True)
class Gathering:
    """Threads whose values are combined through shared memory."""

    #: number of values per result, and the index of the calling thread's value
    members: int
    member: Expr
    #: number of thread groups with separate results, and the index of the calling thread's group
    groups: int
    group: Expr
    #: True if the calling thread is the lowest of the threads that hold the same values
    is_leader: Expr


class FoldSteps(ABC, Generic[T]):
    """The operations of a fold on values of type T. Subclasses emit, count or trace the operations."""

    @abstractmethod
    def combined(self, low: T, high: T, counts: Expr) -> T:
        """Return `low` combined with `high` if the condition `counts` holds, else `low`."""

    @abstractmethod
    def across(self, values: Sequence[T], distance: int) -> list[tuple[T, T]]:
        """Exchange `values` with the lane `distance` away; return (lower lane's, higher lane's) for each value."""

    @abstractmethod
    def gathered(self, values: Sequence[T], gathering: Gathering) -> list[list[T]]:
        """Return for each of `values` the corresponding values of all members, in order."""


@dataclass(frozen=True, slots=True)
class FoldOrder:
    """The digits of the combined elements, in the order in which they are combined."""

    #: all tiles over the sources' shape; "src" is the first source
    tiles: DigitSchedule
    #: each dimension's stride in the row-major index of the combined elements; 0 if the dimension is kept
    weights: tuple[int, ...]
    #: fastest first
    steps: tuple[FoldStep, ...]

    @staticmethod
    def of(op: TileOp, threads: int, pairs: Sequence[tuple[str, str]]) -> FoldOrder:
        """Return the order, or raise LayoutError as `reduced_tiles` does. pairs: names of destinations and sources."""
        tiles, weights = reduced_tiles(op, threads, pairs)
        steps = [step for d in tiles.digits if _is_reduced(d, weights) for step in _steps(d, threads)]
        return FoldOrder(tiles, weights, tuple(sorted(steps, key=lambda step: (-step.dim, step.weight))))

    @property
    def results(self) -> DigitSchedule:
        return self.tiles.where(lambda d: not _is_reduced(d, self.weights) and not d.is_spread("src"))

    def each_result(self, operand: str) -> list[int]:
        """Return a thread's result registers relative to `operand`'s start; in a source, each result's first slot."""
        digits = self.results.digits
        counted = product(*(range(digit.extent) for digit in digits))
        return [_register(digits, operand, values) for values in counted]

    @property
    def slots(self) -> tuple[Key, ...]:
        """The registers that are combined into a result, as values of their digits."""
        return tuple(product(*(range(digit.extent) for digit in self._registers(0))))

    def register(self, operand: str, slot: Key) -> int:
        return _register(self._registers(0), operand, slot)

    def _registers(self, done: int) -> list[Digit]:
        return [step.digit for step in reversed(self.steps[done:]) if step.digit is not None]

    def applied(self, values: Mapping[Key, T], steps: FoldSteps[T], thread: Expr) -> T:
        """Combine the values of all slots into one. thread: the thread's index in the scope."""
        done = 0
        while done < len(self.steps):
            step = self.steps[done]
            if step.digit is not None:
                values = self._in_registers(values, steps, done, thread)
                done += 1
            elif step.is_lane:
                values = self._across(values, steps, done, thread)
                done += 1
            else:
                end = done
                while end < len(self.steps) and self.steps[end].digit is None and not self.steps[end].is_lane:
                    end += 1
                values = self._among(values, steps, (done, end), thread)
                done = end
        (last,) = values.values()
        return last

    def _in_registers(self, values: Mapping[Key, T], steps: FoldSteps[T], done: int, thread: Expr) -> Mapping[Key, T]:
        runs: dict[Key, list[T]] = {}
        for key, value in values.items():
            runs.setdefault(key[:-1], []).append(value)
        return {key: self._tree(run, steps, done, self._at(key, done + 1), thread) for key, run in runs.items()}

    def _across(self, values: Mapping[Key, T], steps: FoldSteps[T], done: int, thread: Expr) -> Mapping[Key, T]:
        step = self.steps[done]
        assert step.threads is not None
        exchanged = steps.across(list(values.values()), step.threads.threads)
        return {
            key: self._tree(both, steps, done, self._at(key, done + 1), thread)
            for key, both in zip(values, exchanged, strict=True)
        }

    def _among(
        self, values: Mapping[Key, T], steps: FoldSteps[T], span: tuple[int, int], thread: Expr
    ) -> Mapping[Key, T]:
        """Combine values through shared memory. span: indices (first, end) of the steps that are combined."""
        gathered = steps.gathered(list(values.values()), self._gathering(span, thread))
        left = {}
        for key, every in zip(values, gathered, strict=True):
            run = list(every)
            for done in range(*span):
                extent, slower = self.steps[done].extent, self.steps[done + 1 : span[1]]
                above = list(product(*(range(step.extent) for step in reversed(slower))))
                run = [
                    self._tree(
                        run[k * extent : (k + 1) * extent], steps, done,
                        _moved(self._at(key, done + 1), slower, at), thread, span[1],
                    )
                    for k, at in enumerate(above)
                ]
            (left[key],) = run
        return left

    def _tree(
        self, run: Sequence[T], steps: FoldSteps[T], done: int, at: Mapping[int, int], thread: Expr, end: int = 0
    ) -> T:
        """Combine all values of one digit in a balanced tree.

        at: index of the first value's first element in each dimension, without the thread's contribution.
        end: index of the first step that adds to the thread's contribution; by default `done` + 1.
        """
        step = self.steps[done]
        level = [(value, k) for k, value in enumerate(run)]
        while len(level) > 1:
            joined = []
            for (low, first), (high, second) in zip(level[::2], level[1::2], strict=False):
                counts = self._counts(_moved(at, [step], (second,)), end or done + 1, thread)
                joined.append((low if counts == FALSE else steps.combined(low, high, counts), first))
            level = [*joined, *level[len(level) & ~1 :]]
        return level[0][0]

    def _at(self, key: Key, done: int) -> dict[int, int]:
        """Return the index of a value's first element, without the thread's part. key: its `Key` after `done` steps."""
        at = dict.fromkeys(range(len(self.weights)), 0)
        for digit, value in zip(self._registers(done), key, strict=False):
            assert digit.dim is not None
            at[digit.dim] += value * digit.weight
        return at

    def _counts(self, at: Mapping[int, int], done: int, thread: Expr) -> Expr:
        """Return the condition that `at` plus the thread's part after `done` steps isn't padding of a reduced axis."""
        cond: Expr = TRUE
        for dim in self.tiles.space.padded:
            if not self.weights[dim]:
                continue
            left = self.tiles.space.dims[dim] - at[dim]
            if left <= 0:
                return FALSE
            along = _joined([step for step in self.steps[done:] if step.dim == dim])
            index = build.weighted_sum([(step.of_thread(thread), weight) for step, weight in along], int32)
            # a limit rounded up to a multiple of the index's divisor gives the same result, and slots often share it
            multiple = facts.multiple_of(index) or 1
            cond = build.logical_and(cond, build.less(index, -(-left // multiple) * multiple))
        return cond

    def _gathering(self, span: tuple[int, int], thread: Expr) -> Gathering:
        first, end = span
        members = _threads(reversed(self.steps[first:end]))
        kept = [d for d in self.tiles.digits if not _is_reduced(d, self.weights) and d.is_spread("src")]
        groups = [DigitStep(d.extent, d["src"]) for d in kept] + _threads(self.steps[end:])
        is_leader = self.tiles["src"].placement.is_mover(thread, loads=False)
        for done, _ in _joined(self.steps[:first]):
            is_leader = build.logical_and(is_leader, build.equal(done.of_thread(thread), 0))
        return Gathering(
            members=prod(step.extent for step in members),
            member=numbered(thread, members),
            groups=prod(step.extent for step in groups),
            group=numbered(thread, groups),
            is_leader=is_leader,
        )


def _is_reduced(digit: Digit, weights: Sequence[int]) -> bool:
    assert digit.dim is not None, "a joined digit has no dimension"
    return bool(weights[digit.dim])


def _steps(digit: Digit, threads: int) -> Iterator[FoldStep]:
    assert digit.dim is not None
    if not digit.is_spread("src"):
        yield FoldStep(digit.extent, digit.dim, digit.weight, digit=digit)
        return
    step = DigitStep(digit.extent, digit["src"])
    inner, outer = (step, None) if WARP.left_over(threads) else at_warp(step)
    reaches = not WARP.left_over(threads) and is_binary(inner.extent) and is_binary(inner.threads)
    if reaches and inner.threads < LANES:
        for k in range(inner.extent.bit_length() - 1):
            lane = DigitStep(2, Thread(inner.threads << k))
            yield FoldStep(2, digit.dim, digit.weight << k, threads=lane, is_lane=True)
    else:
        yield FoldStep(inner.extent, digit.dim, digit.weight, threads=inner)
    if outer is not None:
        yield FoldStep(outer.extent, digit.dim, digit.weight * inner.extent, threads=outer)


def _joined(steps: Sequence[FoldStep]) -> list[tuple[DigitStep, int]]:
    """Return the steps over threads with their weights, fastest first, with contiguous steps merged."""
    joined: list[tuple[DigitStep, int]] = []
    for step in steps:
        if step.threads is None:
            continue
        last, weight = joined[-1] if joined else (DigitStep(0, Thread(0)), 0)
        if last.extent and step.weight == weight * last.extent and step.threads.threads == last.threads * last.extent:
            joined[-1] = DigitStep(last.extent * step.extent, last.stride), weight
        else:
            joined.append((step.threads, step.weight))
    return joined


def _threads(steps: Sequence[FoldStep] | Iterator[FoldStep]) -> list[DigitStep]:
    return [step.threads for step in steps if step.threads is not None]


def _moved(at: Mapping[int, int], steps: Sequence[FoldStep], values: Sequence[int]) -> dict[int, int]:
    moved = dict(at)
    for step, value in zip(reversed(steps), values, strict=True):
        moved[step.dim] += value * step.weight
    return moved


def _register(digits: Sequence[Digit], operand: str, values: Sequence[int]) -> int:
    return sum(digit.elements(operand) * value for digit, value in zip(digits, values, strict=True))
