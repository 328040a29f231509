"""The order in which a function that needn't be commutative combines elements.

The digits of the elements' row-major index are combined one at a time, fastest first, so that the elements of the lower
of two values directly precede those of the higher. A row of 1024 over 128 threads with 2 times 4 elements each:

    digit     half 2         warp 4       lane 32         element 4
    weight    512            128          4               1
    stride    register 4     thread 32    thread 1        register 1
    step      4th            3rd          2nd             1st

    registers   a balanced tree in each thread
    lanes       bit by bit, by ascending weight: two lanes exchange their values and both combine them
    members     through shared memory: every thread reads all values of its results and combines each digit in a tree

Padding is skipped. The valid elements of a dimension come first, so a partial result is valid if its first element is,
and only the higher of two partial results must be tested.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Generic, TypeVar

from ...dataclass import dataclass, lean
from ...dtypes import int32
from ...ir.arithmetic import build, facts
from ...ir.nodes import FALSE, TRUE, Expr, TileOp
from .placement import DigitStep
from .shares import Gathering, ReducedTiles, dim_of, lanes_and_others, reduced_tiles, step_of
from .strides import Thread
from .views import Digit

T = TypeVar("T")

#: values of the register digits that haven't been combined yet, slowest first
Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FoldStep:
    """A digit, or a part of a digit over threads, that is combined in one step."""

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
        """Return, for each of `values`, the corresponding values of all members, in the order of members."""


@lean(frozen=True, slots=False)
class FoldOrder(ReducedTiles):
    """The digits of the combined elements, in the order in which they are combined."""

    #: fastest first
    steps: tuple[FoldStep, ...]

    @staticmethod
    def of(op: TileOp, threads: int, pairs: Sequence[tuple[str, str]]) -> FoldOrder:
        """Return the order, or raise LayoutError, as `reduced_tiles` does. pairs: as for `reduced_tiles`."""
        reduced = reduced_tiles(op, threads, pairs)
        steps = [step for d in reduced.tiles.digits if reduced.weight_of(d) for step in _steps(d, threads)]
        steps.sort(key=lambda step: (-step.dim, step.weight))
        return FoldOrder(reduced.tiles, reduced.weights, tuple(steps))

    @property
    def slots(self) -> tuple[Key, ...]:
        """The registers that are combined into a result, as values of their digits."""
        return tuple(product(*(range(digit.extent) for digit in self._registers(0))))

    def register(self, operand: str, slot: Key) -> int:
        digits = zip(self._registers(0), slot, strict=True)
        return sum(digit.elements(operand) * value for digit, value in digits)

    def _registers(self, done: int) -> list[Digit]:
        return [step.digit for step in reversed(self.steps[done:]) if step.digit is not None]

    def applied(self, values: Mapping[Key, T], steps: FoldSteps[T], thread: Expr) -> T:
        """Combine the values of all slots, lanes and threads into one. thread: the thread's index in the scope."""
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
        """Return the index of value `key`'s first element after `done` steps, without the thread's contribution."""
        at = dict.fromkeys(range(len(self.weights)), 0)
        for digit, value in zip(self._registers(done), key, strict=False):
            assert digit.dim is not None
            at[digit.dim] += value * digit.weight
        return at

    def _counts(self, at: Mapping[int, int], done: int, thread: Expr) -> Expr:
        """Return the condition that an element is within the extents of all reduced dimensions, not in their padding.

        Its index is `at` plus the thread's contribution from the steps after the first `done`.
        """
        cond: Expr = TRUE
        for dim in self.tiles.padded:
            if not self.weights[dim]:
                continue
            left = self.tiles.extents[dim] - at[dim]
            if left <= 0:
                return FALSE
            along = _joined([step for step in self.steps[done:] if step.dim == dim])
            index = build.weighted_sum([(step.of_thread(thread), weight) for step, weight in along], int32)
            # rounding a limit up to a multiple of the index's divisor keeps the result, and lets slots share tests
            multiple = facts.multiple_of(index) or 1
            cond = build.logical_and(cond, build.less(index, -(-left // multiple) * multiple))
        return cond

    def _gathering(self, span: tuple[int, int], thread: Expr) -> Gathering:
        first, end = span
        members = [step.threads for step in self.steps[first:end] if step.threads is not None]
        later = [step.threads for step in self.steps[end:] if step.threads is not None]
        is_leader = self.tiles["src"].placement.is_mover(thread, loads=False)
        for done, _ in _joined(self.steps[:first]):
            is_leader = build.logical_and(is_leader, build.equal(done.of_thread(thread), 0))
        return Gathering.of(thread, members[::-1], (*self.group_steps, *later), is_leader)


def _steps(digit: Digit, threads: int) -> Iterator[FoldStep]:
    dim, weight = dim_of(digit), digit.weight
    if not digit.is_spread("src"):
        yield FoldStep(digit.extent, dim, weight, digit=digit)
        return
    lanes, others = lanes_and_others(step_of(digit), threads)
    for number, step in enumerate((*lanes, *others)):
        yield FoldStep(step.extent, dim, weight, threads=step, is_lane=number < len(lanes))
        weight *= step.extent


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


def _moved(at: Mapping[int, int], steps: Sequence[FoldStep], values: Sequence[int]) -> dict[int, int]:
    moved = dict(at)
    for step, value in zip(reversed(steps), values, strict=True):
        moved[step.dim] += value * step.weight
    return moved
