"""Reductions by a user's function, which is associative but needn't be commutative.

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

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from ...dataclass import dataclass, field, lean
from ...dtypes import DType, float32, int32
from ...ir.arithmetic import build, facts
from ...ir.arithmetic.evaluate import evaluate
from ...ir.combine import Combine
from ...ir.nodes import FALSE, TRUE, Expr, Load, Store, TileOp, Var, Vector
from ...isa.barriers import BARRIERS
from ...isa.warp import SHUFFLE_INDEX, SHUFFLE_XOR
from ...ops.fold import COMBINE, PAIRS, REDUCE
from ...scopes import SCOPES
from ...target import WARP as LANES
from ..builder import Builder
from ..plans import Facts, Folds, Plan
from ..schedule.addresses import Thread
from ..schedule.placement import DigitStep
from ..schedule.shares import Gathering, ReducedTiles, dim_of, lanes_and_others, reduced_tiles, step_of
from ..schedule.views import Digit
from ..variant import DispatchContext
from .combining import LaneReduction, Partial, SharedPartials, gathered

Array = np.ndarray

#: values of the register digits that haven't been combined yet, slowest first
Key = tuple[int, ...]

#: the thread's index in conditions that the compiler evaluates for all threads
_THREAD = Var("fold.thread", int32)

#: a partial result for each of a thread's results
Partials = list[Partial]


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


class FoldSteps:
    """The operations of a fold on values of one type: None here, where they are only counted.

    Subclasses emit or trace the operations. thread: the thread's index in the scope.
    """

    thread: Expr = _THREAD

    def __init__(self) -> None:
        self.combinations = self.shuffles = self.gatherings = self.fetches = 0

    def combined(self, low: Any, high: Any, counts: Expr) -> Any:
        """Return `low` combined with `high` if the condition `counts` holds, else `low`."""
        self.combinations += 1

    def across(self, values: Sequence[Any], distance: int) -> list[tuple[Any, Any]]:
        """Exchange `values` with the lane `distance` away; return (lower lane's, higher lane's) for each value."""
        self.shuffles += len(values)
        return [(None, None)] * len(values)

    def gathered(self, values: Sequence[Any], gathering: Gathering, lane: Expr | None = None) -> list[list[Any]]:
        """Return, for each of `values`, the corresponding values of all members, in the order of members.

        lane: the thread's lane if each thread needs only the value of member `lane` modulo their number; else None.
        """
        self.gatherings += 1
        return [[None] * (gathering.members if lane is None else 1) for _ in values]

    def fetched(self, values: Sequence[Any], lane: Expr) -> list[Any]:
        """Return the values of another lane of the warp."""
        self.fetches += len(values)
        return list(values)

    def chosen(self, cond: Expr, yes: Any, no: Any) -> Any:
        """Return `yes` in threads where `cond` holds, `no` in others."""
        return yes

    def initial(self) -> Any:
        """Return the value that precedes all elements of a scan."""
        return None


@lean(frozen=True, slots=False)
class FoldOrder(ReducedTiles):
    """The digits of the combined elements, in the order in which they are combined."""

    #: fastest first
    steps: tuple[FoldStep, ...]
    #: the names of the operands that precede all elements of a scan
    initial: tuple[str, ...] = ()

    @staticmethod
    def of(op: TileOp, threads: int, pairs: Sequence[tuple[str, str]]) -> FoldOrder:
        """Return the order, or raise LayoutError, as `reduced_tiles` does. pairs: as for `reduced_tiles`."""
        reduced = reduced_tiles(op, threads, pairs)
        return FoldOrder(reduced.tiles, reduced.weights, steps_of(reduced, threads))

    @property
    def slots(self) -> tuple[Key, ...]:
        """The registers that are combined into a result, as values of their digits."""
        return tuple(product(*(range(digit.extent) for digit in self._registers(0))))

    def register(self, operand: str, slot: Key) -> int:
        """Return the distance of a slot's register from the result's first one; 0 for the result itself, slot ()."""
        digits = zip(self._registers(0), slot, strict=False)
        return sum(digit.elements(operand) * value for digit, value in digits)

    def _registers(self, done: int) -> list[Digit]:
        return [step.digit for step in reversed(self.steps[done:]) if step.digit is not None]

    @property
    def operation(self) -> str:
        return REDUCE.name

    def applied(self, values: Mapping[Key, Any], steps: FoldSteps) -> Mapping[Key, Any]:
        """Combine the values of all slots, lanes and threads; return the values to store, here one, by slot."""
        done = 0
        while done < len(self.steps):
            step, end = self.steps[done], done + 1
            runs: dict[Key, list[Any]] = {}
            if step.digit is not None:
                for key, value in values.items():
                    runs.setdefault(key[:-1], []).append(value)
            elif step.is_lane:
                assert step.threads is not None
                exchanged = steps.across(list(values.values()), step.threads.threads)
                runs = {key: [*both] for key, both in zip(values, exchanged, strict=True)}
            else:
                while end < len(self.steps) and self.steps[end].digit is None and not self.steps[end].is_lane:
                    end += 1
                members = steps.gathered(list(values.values()), self.gathering(done, end, steps.thread))
                runs = dict(zip(values, members, strict=True))
            values = {key: self._combined(run, steps, done, end, key) for key, run in runs.items()}
            done = end
        return values

    def _combined(self, run: Sequence[Any], steps: FoldSteps, first: int, end: int, key: Key) -> Any:
        """Combine the values of steps `first` to `end` - 1, which are consecutive digits, the first one the fastest."""
        for done in range(first, end):
            extent, slower, at = self.steps[done].extent, self.steps[done + 1 : end], self.at(key, done + 1)
            above = enumerate(product(*(range(step.extent) for step in reversed(slower))))
            run = [
                self._tree(run[k * extent : (k + 1) * extent], steps, done, _moved(at, slower, values), end)
                for k, values in above
            ]
        (last,) = run
        return last

    def _tree(self, run: Sequence[Any], steps: FoldSteps, done: int, at: Mapping[int, int], end: int) -> Any:
        """Combine all values of one digit in a balanced tree.

        at: index of the first value's first element in each dimension, without the thread's contribution.
        end: index of the first step that adds to the thread's contribution.
        """
        step = self.steps[done]
        level = [(value, k) for k, value in enumerate(run)]
        while len(level) > 1:
            joined = []
            for (low, first), (high, second) in zip(level[::2], level[1::2], strict=False):
                counts = self.counts(_moved(at, [step], (second,)), end, steps.thread)
                joined.append((low if counts == FALSE else steps.combined(low, high, counts), first))
            level = [*joined, *level[len(level) & ~1 :]]
        return level[0][0]

    def at(self, key: Key, done: int) -> dict[int, int]:
        """Return the index of value `key`'s first element after `done` steps, without the thread's contribution."""
        at = dict.fromkeys(range(len(self.weights)), 0)
        for digit, value in zip(self._registers(done), key, strict=False):
            assert digit.dim is not None
            at[digit.dim] += value * digit.weight
        return at

    def counts(self, at: Mapping[int, int], done: int, thread: Expr) -> Expr:
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

    def gathering(self, first: int, end: int, thread: Expr) -> Gathering:
        members = [step.threads for step in self.steps[first:end] if step.threads is not None]
        later = [step.threads for step in self.steps[end:] if step.threads is not None]
        is_leader = self.tiles["src"].placement.is_mover(thread, loads=False)
        for done, _ in _joined(self.steps[:first]):
            is_leader = build.logical_and(is_leader, build.equal(done.of_thread(thread), 0))
        return Gathering.of(thread, members[::-1], (*self.group_steps, *later), is_leader)


def steps_of(reduced: ReducedTiles, threads: int) -> tuple[FoldStep, ...]:
    """Return the steps over all digits of the combined elements, fastest first."""
    steps = [step for d in reduced.tiles.digits if reduced.weight_of(d) for step in _steps(d, threads)]
    steps.sort(key=lambda step: (-step.dim, step.weight))
    return tuple(steps)


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


@dataclass(frozen=True, slots=True)
class Folding(Plan):
    """The plan of a reduction by a user's function."""

    scope: str
    threads: int
    cta_threads: int
    #: for each value of the function, (name of its destination, name of its source)
    pairs: tuple[tuple[str, str], ...]
    combine: Combine
    order: FoldOrder

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(mnemonic, count per thread): calls of the function, as operation and types, shuffles and barriers."""
        counted = FoldSteps()
        self.order.applied(dict.fromkeys(self.order.slots, None), counted)
        results, words = self.order.results.count, sum(_carried(dtype).bits // 32 for dtype in self.combine.takes)
        made = [(f"{self.order.operation}.{'.'.join(map(str, self.combine.takes))}", counted.combinations * results)]
        if counted.shuffles:
            made.append((SHUFFLE_XOR.mnemonic, counted.shuffles * results * words))
        if counted.fetches:
            made.append((SHUFFLE_INDEX.mnemonic, counted.fetches * results * words))
        if counted.gatherings:
            made.append((BARRIERS[SCOPES[self.scope]].mnemonic, counted.gatherings))
        return tuple(made)

    def facts(self) -> Facts:
        return Facts("-", self.order.results.count)

    def combined_order(self) -> Folds:
        order, slots = self.order, self.order.slots
        threads = np.arange(self.threads)
        every = {slot: (threads * len(slots) + k)[:, None] for k, slot in enumerate(slots)}
        (combined,) = self.carried_out(every, lambda slots, thread: slots[thread], _concatenated).values()
        reach = np.array([[order.register(of, slot) for slot in slots] for _, of in self.pairs])
        return Folds(
            dst=np.array([self.registers(to) for to, _ in self.pairs]),
            src=np.array([self.registers(of) for _, of in self.pairs])[:, :, None] + reach[:, None, :],
            order=combined,
        )

    def carried_out(
        self, values: Mapping[Key, Any], take: Callable[[Any, Array], Any], merge: Callable[[Any, Any, Array], Any],
        first: Any = None,
    ) -> Mapping[Key, Any]:
        """Return what `FoldOrder.applied` returns for these values, in each thread. Parameters as for `_Tracing`."""
        return self.order.applied(values, _Tracing(np.arange(self.threads), take, merge, first))

    def initial_values(self, op: TileOp) -> Partial:
        """Return the values that precede all elements of a scan; () if none do."""
        return tuple([value for name in self.order.initial if (value := op.value(name)) is not None])

    def registers(self, operand: str) -> Array:
        """Return the register of each of a thread's results in an operand."""
        return np.array(list(self.order.each_result(operand))) + int(evaluate(self.order.tiles[operand].start, {}))

    def schedule(self) -> Array:
        """Return one row per result of the first destination: (its register, the source registers it combines ...)."""
        moves = self.combined_order()
        return np.column_stack([moves.dst[0], moves.src[0]])

    def emit(self, op: TileOp, b: Builder) -> None:
        thread, order = b.thread(self.scope, self.threads), self.order
        names = [name for pair in self.pairs for name in pair]
        for firsts in b.each_start(*[order.tiles[name].touched(1) for name in names]):
            first = dict(zip(names, firsts, strict=True))
            values = {slot: self._entered(op, b, first, slot) for slot in order.slots}
            steps = _Emitting(b, self, thread, self.initial_values(op))
            for slot, partials in order.applied(values, steps).items():
                for k, (to, _) in enumerate(self.pairs):
                    reach = order.register(to, slot)
                    for register, partial in zip(order.each_result(to), partials, strict=True):
                        place = Vector(op.region(to).buffer, build.add(first[to], register + reach))
                        b.append(Store(place, partial[k], span=b.span))

    def _entered(self, op: TileOp, b: Builder, first: dict[str, Expr], slot: Key) -> Partials:
        columns = [
            [
                b.let("value", Load(Vector(op.region(of).buffer, build.add(first[of], register + reach))))
                for register in self.order.each_result(of)
            ]
            for _, of in self.pairs
            for reach in (self.order.register(of, slot),)
        ]
        return list(zip(*columns, strict=True))


def _concatenated(low: Array, high: Array, counts: Array) -> Array:
    """Append slots to slots, -1 for each that is skipped."""
    return np.concatenate([low, np.where(counts[:, None], high, -1)], axis=1)


def plan_fold(
    op: TileOp, context: DispatchContext, made: type[Folding] = Folding,
    order: Callable[[TileOp, int, Sequence[tuple[str, str]]], FoldOrder] = FoldOrder.of,
) -> Folding:
    """Plan a reduction by a user's function, or raise LayoutError, e.g. if the layouts of the tiles don't match."""
    combine, threads = op.attr(COMBINE.name), context.count(op.scope)
    assert isinstance(combine, Combine), f"{op.name} has no function"
    pairs = tuple((to, of) for to, of in PAIRS if to in op.tiles)
    return made(op.scope, threads, context.threads, pairs, combine, order(op, threads, pairs))


def _carried(dtype: DType) -> DType:
    """Return the type in which values are exchanged: one of at least 32 bits that represents `dtype` exactly."""
    if dtype.bits >= 32:
        return dtype
    return float32 if dtype.is_float else int32


def _as(dtypes: Sequence[DType], partials: Sequence[Partial], change: Callable[[DType], DType]) -> Partials:
    return [tuple(build.cast(x, change(t)) for x, t in zip(partial, dtypes, strict=True)) for partial in partials]


@dataclass(slots=True)
class _Emitting(FoldSteps):
    b: Builder
    plan: Folding
    thread: Expr
    #: the initial values of a scan
    given: Partial = ()
    #: the registers for shuffles, allocated at the first use
    lanes: LaneReduction | None = None
    has_synchronized: bool = False
    conditions: dict[Expr, Expr] = field(default_factory=dict)

    def combined(self, low: Partials, high: Partials, counts: Expr) -> Partials:
        counts = self._named(counts)
        return [self._one(*pair, counts) for pair in zip(low, high, strict=True)]

    def _named(self, cond: Expr) -> Expr:
        if cond not in self.conditions:
            self.conditions[cond] = self.b.let("counts", cond)
        return self.conditions[cond]

    def chosen(self, cond: Expr, yes: Partials, no: Partials) -> Partials:
        cond = self._named(cond)
        return [
            tuple([self.b.let("chosen", build.where(cond, x, y)) for x, y in zip(*pair, strict=True)])
            for pair in zip(yes, no, strict=True)
        ]

    def initial(self) -> Partials:
        return [self.given] * self.plan.order.results.count

    def _one(self, low: Partial, high: Partial, counts: Expr) -> Partial:
        made = self.plan.combine.applied(low, high, self.b.let)
        if counts == TRUE:
            return made
        return tuple(self.b.let("kept", build.where(counts, new, old)) for new, old in zip(made, low, strict=True))

    def across(self, values: Sequence[Partials], distance: int) -> list[tuple[Partials, Partials]]:
        own = [partial for value in values for partial in value]
        dtypes = self.plan.combine.takes
        if self.lanes is None:
            # these registers suffice for later steps, which exchange at most this number of values
            self.lanes = LaneReduction.of(self.b, tuple(map(_carried, dtypes)), len(own))
        other = self._back(self.lanes.values(_as(dtypes, own, _carried), distance))
        upper = self.b.let("upper", build.not_equal(build.bitwise_and(self.thread, distance), 0))
        low, high = self.lanes.chosen(upper, other, own), self.lanes.chosen(upper, own, other)
        return list(zip(self._parted(low, values), self._parted(high, values), strict=True))

    def fetched(self, values: Sequence[Partials], lane: Expr) -> list[Partials]:
        assert self.lanes is not None, "no values were exchanged between lanes before"
        own, dtypes = [partial for value in values for partial in value], self.plan.combine.takes
        fetched = self.lanes.values(_as(dtypes, own, _carried), self.b.let("lane", lane), SHUFFLE_INDEX)
        return self._parted(self._back(fetched), values)

    def gathered(
        self, values: Sequence[Partials], gathering: Gathering, lane: Expr | None = None
    ) -> list[list[Partials]]:
        own = [partial for value in values for partial in value]
        dtypes = self.plan.combine.takes
        shared = SharedPartials(self.plan.scope, self.plan.cta_threads, gathering, lane)
        carried = tuple(map(_carried, dtypes))
        every = gathered(self.b, carried, shared, _as(dtypes, own, _carried), is_idle=self.has_synchronized)
        self.has_synchronized = True
        # `every` is indexed by [result][member]; it concatenates the results of all values
        by_member = [self._back(list(partials)) for partials in zip(*every, strict=True)]
        parted = [self._parted(partials, values) for partials in by_member]
        return [list(members) for members in zip(*parted, strict=True)]

    def _back(self, partials: Sequence[Partial]) -> Partials:
        return _as(self.plan.combine.takes, partials, lambda dtype: dtype)

    def _parted(self, partials: Partials, like: Sequence[Partials]) -> list[Partials]:
        starts = np.cumsum([0, *map(len, like)]).tolist()
        return [partials[start : start + len(value)] for start, value in zip(starts, like, strict=False)]


@dataclass(slots=True)
class _Tracing(FoldSteps):
    """Carries out the order of combining. take: returns the values that threads get from the given ones.

    merge: combines two values in the threads of a mask; the others keep the lower one. first: as `initial` returns it.
    """

    threads: Array
    take: Callable[[Any, Array], Any]
    merge: Callable[[Any, Any, Array], Any]
    first: Any = None
    here: dict[str, Array | int] = field(init=False)

    def __post_init__(self) -> None:
        self.here = {_THREAD.name: self.threads}

    def combined(self, low: Any, high: Any, counts: Expr) -> Any:
        return self.merge(low, high, self._of_all(counts))

    def across(self, values: Sequence[Any], distance: int) -> list[tuple[Any, Any]]:
        lower, higher = self.threads & ~distance, self.threads | distance
        return [(self.take(value, lower), self.take(value, higher)) for value in values]

    def fetched(self, values: Sequence[Any], lane: Expr) -> list[Any]:
        source = self.threads // LANES * LANES + self._of_all(lane)
        return [self.take(value, source) for value in values]

    def gathered(self, values: Sequence[Any], gathering: Gathering, lane: Expr | None = None) -> list[list[Any]]:
        member, group = self._of_all(gathering.member), self._of_all(gathering.group)
        writers = self.threads[self._of_all(gathering.is_leader)]
        rows = (group * gathering.members + member)[writers]
        count = gathering.groups * gathering.members
        assert np.array_equal(np.sort(rows), np.arange(count)), "each partial must be written exactly once"
        writer_of = np.empty(count, np.int64)
        writer_of[rows] = writers
        which = range(gathering.members) if lane is None else [self._of_all(lane) % gathering.members]
        read = [writer_of[group * gathering.members + k] for k in which]
        return [[self.take(value, source) for source in read] for value in values]

    def chosen(self, cond: Expr, yes: Any, no: Any) -> Any:
        return np.where(self._of_all(cond), yes, no)

    def initial(self) -> Any:
        return self.first

    def _of_all(self, expr: Expr) -> Array:
        return np.broadcast_to(evaluate(expr, self.here), self.threads.shape)
