"""In which order a function that needn't be commutative combines the elements that become one.

Each digit of their index in row-major order is combined by itself, from the fastest to the slowest: so neighbours meet,
and the lower of two values always comes from elements that lie before those of the higher. A row of 1024 among 128
threads, of which each has 2 times 4 elements:

    digit     half 2         warp 4       lane 32         element 4
    weight    512            128          4               1
    where     register 4     thread 32    thread 1        register 1
    step      4th            3rd          2nd             1st

    registers   in the thread, a balanced tree
    lanes       bit by bit, from the nearest on: two lanes exchange what they have, and both combine it
    members     through shared memory: every thread reads all that belongs to its results, and combines it as a tree

Padding is skipped. What is combined at a digit is a run of values of which the first ones hold elements, so a value
counts if its first slot does, and only the higher of two needs to be asked.
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

__all__ = ["FoldOrder", "FoldStep", "FoldSteps", "Gathering", "Key"]

T = TypeVar("T")

#: values of the digits among registers that aren't combined yet, slowest first
Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FoldStep:
    """A digit that is combined at once.

    dim, weight: of the space the dimension, and what a step is worth in its index.
    digit: where it counts registers; else None. threads: where it counts threads; else None. is_lane: of these, two
    lanes that a shuffle connects.
    """

    extent: int
    dim: int
    weight: int
    digit: Digit | None = None
    threads: DigitStep | None = None
    is_lane: bool = False


@dataclass(frozen=True, slots=True)
class Gathering:
    """Threads whose values meet in shared memory.

    members: how many values become one; member: which of them the thread has, by rising index.
    groups: how many groups of threads have values of their own; group: which the thread belongs to.
    is_leader: whether the thread is the lowest of those that have the same values.
    """

    members: int
    member: Expr
    groups: int
    group: Expr
    is_leader: Expr


class FoldSteps(ABC, Generic[T]):
    """What can be done with a value for each of a thread's results: emitted, counted or traced."""

    @abstractmethod
    def combined(self, low: T, high: T, counts: Expr) -> T:
        """Both as one; `low` where `high` doesn't count."""

    @abstractmethod
    def across(self, values: Sequence[T], distance: int) -> list[tuple[T, T]]:
        """For each value what the lower of two lanes has and what the higher has."""

    @abstractmethod
    def gathered(self, values: Sequence[T], gathering: Gathering) -> list[list[T]]:
        """For each value what all members have, in order."""


@dataclass(frozen=True, slots=True)
class FoldOrder:
    """The digits of the elements that become one, in the order in which they are combined.

    tiles: all tiles over the sources' shape; "src" is the first source. weights: for each of its dimensions what a step
    is worth among the elements that become one; 0 where it is kept. steps: fastest first.
    """

    tiles: DigitSchedule
    weights: tuple[int, ...]
    steps: tuple[FoldStep, ...]

    @staticmethod
    def of(op: TileOp, threads: int, pairs: Sequence[tuple[str, str]]) -> FoldOrder:
        """That of an operation on local tiles by a scope of so many threads.

        pairs: destination and source of each value, by name. raises: LayoutError as `reduced_tiles`.
        """
        tiles, weights = reduced_tiles(op, threads, pairs)
        steps = [step for d in tiles.digits if _is_reduced(d, weights) for step in _steps(d, threads)]
        return FoldOrder(tiles, weights, tuple(sorted(steps, key=lambda step: (-step.dim, step.weight))))

    @property
    def results(self) -> DigitSchedule:
        """The digits that count a thread's results."""
        return self.tiles.where(lambda d: not _is_reduced(d, self.weights) and not d.is_spread("src"))

    def each_result(self, operand: str) -> list[int]:
        """The register of each of a thread's results in an operand; in a source, of its first slot."""
        digits = self.results.digits
        counted = product(*(range(digit.extent) for digit in digits))
        return [_register(digits, operand, values) for values in counted]

    @property
    def slots(self) -> tuple[Key, ...]:
        """The registers of a result, by the values of their digits."""
        return tuple(product(*(range(digit.extent) for digit in self._registers(0))))

    def register(self, operand: str, slot: Key) -> int:
        """How far a slot lies from the first in an operand's registers."""
        return _register(self._registers(0), operand, slot)

    def _registers(self, done: int) -> list[Digit]:
        """The digits among registers that aren't combined yet, slowest first."""
        return [step.digit for step in reversed(self.steps[done:]) if step.digit is not None]

    def applied(self, values: Mapping[Key, T], steps: FoldSteps[T], thread: Expr) -> T:
        """What is left of a thread's values, one for each slot. thread: its number in the scope."""
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
                end = done + self._members_from(done)
                values = self._among(values, steps, (done, end), thread)
                done = end
        (last,) = values.values()
        return last

    def _members_from(self, done: int) -> int:
        """How many digits from this one on meet in shared memory together."""
        count = 0
        for step in self.steps[done:]:
            if step.digit is not None or step.is_lane:
                break
            count += 1
        return count

    def _in_registers(self, values: Mapping[Key, T], steps: FoldSteps[T], done: int, thread: Expr) -> Mapping[Key, T]:
        runs: dict[Key, list[T]] = {}
        for key, value in values.items():
            runs.setdefault(key[:-1], []).append(value)
        return {
            key: self._tree(run, steps, done, self._at(key, done + 1), thread) for key, run in runs.items()
        }

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
        """span: the first of the digits that meet in shared memory, and the end."""
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
        """All values of one digit as one: neighbours are combined, and what these give, until one is left.

        at: where the first of them lies in each dimension, without what threads add. end: behind the digits of which
        threads add nothing; the next one unless given.
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
        """Where a slot lies in each dimension, by its digits from `done` on."""
        at = dict.fromkeys(range(len(self.weights)), 0)
        for digit, value in zip(self._registers(done), key, strict=False):
            assert digit.dim is not None
            at[digit.dim] += value * digit.weight
        return at

    def _counts(self, at: Mapping[int, int], done: int, thread: Expr) -> Expr:
        """Whether a value counts whose first element lies there, with what threads add by the digits from `done` on."""
        cond: Expr = TRUE
        for dim in self.tiles.space.padded:
            if not self.weights[dim]:
                continue
            left = self.tiles.space.dims[dim] - at[dim]
            if left <= 0:
                return FALSE
            along = _joined([step for step in self.steps[done:] if step.dim == dim])
            index = build.weighted_sum([(step.of_thread(thread), weight) for step, weight in along], int32)
            # rounded up, neighbours often have one limit
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
    assert digit.dim is not None, "no digits were joined"
    return bool(weights[digit.dim])


def _steps(digit: Digit, threads: int) -> Iterator[FoldStep]:
    """The digit as those that are combined at once."""
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
    """The steps among threads with their weights, fastest first; those that go on evenly as one."""
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
    """A place further by values of some digits, those given slowest first."""
    moved = dict(at)
    for step, value in zip(reversed(steps), values, strict=True):
        moved[step.dim] += value * step.weight
    return moved


def _register(digits: Sequence[Digit], operand: str, values: Sequence[int]) -> int:
    """How far values of the digits lead in an operand's registers."""
    return sum(digit.elements(operand) * value for digit, value in zip(digits, values, strict=True))
