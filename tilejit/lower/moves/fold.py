"""Plans of reductions by a user's function; `schedule/fold.py` defines the order in which elements are combined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...dataclass import dataclass, field
from ...dtypes import DType, float32, int32
from ...ir.arithmetic import build
from ...ir.arithmetic.evaluate import evaluate
from ...ir.combine import Combine
from ...ir.nodes import TRUE, Expr, Load, Store, TileOp, Var, Vector
from ...isa.barriers import BARRIERS
from ...isa.warp import SHUFFLE_XOR
from ...ops.fold import COMBINE, PAIRS
from ...scopes import SCOPES
from ..builder import Builder
from ..plans import Facts, Folds
from ..plans import Plan as PlanBase
from ..schedule.fold import FoldOrder, FoldSteps, Key
from ..schedule.registers import each_start
from ..schedule.shares import Gathering
from ..variant import DispatchContext
from .combining import Partial
from .cross_thread import LaneReduction, SharedPartials, gathered

Array = np.ndarray

#: the thread's index in conditions that the compiler evaluates for all threads
_THREAD = Var("fold.thread", int32)

#: a partial result for each of a thread's results
Partials = list[Partial]


@dataclass(frozen=True, slots=True)
class Folding(PlanBase):
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
        """(mnemonic, count per thread): calls of the function, as "reduce" with its types, shuffles and barriers."""
        counted = _Counting()
        self.order.applied(dict.fromkeys(self.order.slots, None), counted, _THREAD)
        results, words = self.order.results.count, sum(_carried(dtype).bits // 32 for dtype in self.combine.takes)
        made = [(f"reduce.{'.'.join(map(str, self.combine.takes))}", counted.combined_values * results)]
        if counted.shuffled:
            made.append((SHUFFLE_XOR.mnemonic, counted.shuffled * results * words))
        if counted.gatherings:
            made.append((BARRIERS[SCOPES[self.scope]].mnemonic, counted.gatherings))
        return tuple(made)

    def facts(self) -> Facts:
        return Facts("-", self.order.results.count)

    def combined_order(self) -> Folds:
        order, slots = self.order, self.order.slots
        threads = np.arange(self.threads)
        every = {slot: (threads * len(slots) + k)[:, None] for k, slot in enumerate(slots)}
        reach = np.array([[order.register(of, slot) for slot in slots] for _, of in self.pairs])
        return Folds(
            dst=np.array([self.registers(to) for to, _ in self.pairs]),
            src=np.array([self.registers(of) for _, of in self.pairs])[:, :, None] + reach[:, None, :],
            order=self.carried_out(every, lambda slots, thread: slots[thread], _concatenated),
        )

    def carried_out(
        self, values: Mapping[Key, Any], take: Callable[[Any, Array], Any], merge: Callable[[Any, Any, Array], Any]
    ) -> Any:
        """Return the combination of the values of all slots, in each thread. take, merge: as for `_Tracing`."""
        return self.order.applied(values, _Tracing(np.arange(self.threads), take, merge), _THREAD)

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
        for firsts in each_start(b, *[order.tiles[name].touched(1) for name in names]):
            first = dict(zip(names, firsts, strict=True))
            values = {slot: self._entered(op, b, first, slot) for slot in order.slots}
            partials = order.applied(values, _Emitting(b, self, thread), thread)
            for k, (to, _) in enumerate(self.pairs):
                for register, partial in zip(order.each_result(to), partials, strict=True):
                    place = Vector(op.region(to).buffer, build.add(first[to], register))
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


def plan_fold(op: TileOp, context: DispatchContext) -> Folding:
    """Plan a reduction by a user's function, or raise LayoutError, e.g. if the layouts of the tiles don't match."""
    combine, threads = op.attr(COMBINE.name), context.count(op.scope)
    assert isinstance(combine, Combine), f"{op.name} has no function"
    pairs = tuple((to, of) for to, of in PAIRS if to in op.tiles)
    return Folding(op.scope, threads, context.threads, pairs, combine, FoldOrder.of(op, threads, pairs))


def _carried(dtype: DType) -> DType:
    """Return the type in which values are exchanged: one of at least 32 bits that represents `dtype` exactly."""
    if dtype.bits >= 32:
        return dtype
    return float32 if dtype.is_float else int32


def _as(dtypes: Sequence[DType], partials: Sequence[Partial], change: Callable[[DType], DType]) -> Partials:
    return [tuple(build.cast(x, change(t)) for x, t in zip(partial, dtypes, strict=True)) for partial in partials]


@dataclass(slots=True)
class _Emitting(FoldSteps[Partials]):
    b: Builder
    plan: Folding
    thread: Expr
    #: the registers for shuffles, allocated at the first use
    lanes: LaneReduction | None = None
    has_synchronized: bool = False
    conditions: dict[Expr, Expr] = field(default_factory=dict)

    def combined(self, low: Partials, high: Partials, counts: Expr) -> Partials:
        if counts not in self.conditions:
            self.conditions[counts] = self.b.let("counts", counts)
        return [self._one(*pair, self.conditions[counts]) for pair in zip(low, high, strict=True)]

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

    def gathered(self, values: Sequence[Partials], gathering: Gathering) -> list[list[Partials]]:
        own = [partial for value in values for partial in value]
        dtypes = self.plan.combine.takes
        shared = SharedPartials(self.plan.scope, self.plan.cta_threads, gathering, lane=None)
        carried = tuple(map(_carried, dtypes))
        every = gathered(self.b, carried, shared, _as(dtypes, own, _carried), is_idle=self.has_synchronized)
        self.has_synchronized = True
        # `every` is indexed by [result][member]; it concatenates the results of all values
        by_member = [self._back([partials[k] for partials in every]) for k in range(gathering.members)]
        parted = [self._parted(partials, values) for partials in by_member]
        return [[member[k] for member in parted] for k in range(len(values))]

    def _back(self, partials: Sequence[Partial]) -> Partials:
        return _as(self.plan.combine.takes, partials, lambda dtype: dtype)

    def _parted(self, partials: Partials, like: Sequence[Partials]) -> list[Partials]:
        starts = np.cumsum([0, *map(len, like)]).tolist()
        return [partials[start : start + len(value)] for start, value in zip(starts, like, strict=False)]


@dataclass(slots=True)
class _Counting(FoldSteps[None]):
    combined_values: int = 0
    shuffled: int = 0
    gatherings: int = 0

    def combined(self, low: None, high: None, counts: Expr) -> None:
        self.combined_values += 1

    def across(self, values: Sequence[None], distance: int) -> list[tuple[None, None]]:
        self.shuffled += len(values)
        return [(None, None)] * len(values)

    def gathered(self, values: Sequence[None], gathering: Gathering) -> list[list[None]]:
        self.gatherings += 1
        return [[None] * gathering.members for _ in values]


@dataclass(slots=True)
class _Tracing(FoldSteps[Any]):
    """Carries out the order of combining. take: returns the values that threads get from the given ones.

    merge: combines two values in the threads of a mask; the others keep the lower one.
    """

    threads: Array
    take: Callable[[Any, Array], Any]
    merge: Callable[[Any, Any, Array], Any]
    here: dict[str, Array | int] = field(init=False)

    def __post_init__(self) -> None:
        self.here = {_THREAD.name: self.threads}

    def combined(self, low: Any, high: Any, counts: Expr) -> Any:
        return self.merge(low, high, self._of_all(counts))

    def across(self, values: Sequence[Any], distance: int) -> list[tuple[Any, Any]]:
        lower, higher = self.threads & ~distance, self.threads | distance
        return [(self.take(value, lower), self.take(value, higher)) for value in values]

    def gathered(self, values: Sequence[Any], gathering: Gathering) -> list[list[Any]]:
        member, group = self._of_all(gathering.member), self._of_all(gathering.group)
        writers = self.threads[self._of_all(gathering.is_leader)]
        rows = (group * gathering.members + member)[writers]
        count = gathering.groups * gathering.members
        assert np.array_equal(np.sort(rows), np.arange(count)), "each partial must be written exactly once"
        writer_of = np.empty(count, np.int64)
        writer_of[rows] = writers
        read = [writer_of[group * gathering.members + k] for k in range(gathering.members)]
        return [[self.take(value, source) for source in read] for value in values]

    def _of_all(self, expr: Expr) -> Array:
        return np.broadcast_to(evaluate(expr, self.here), self.threads.shape)
