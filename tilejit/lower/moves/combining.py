"""Partial results of reductions, and how they are combined: two of them, or those of several threads.

A partial result is one value for most reductions, and a value with its index for argmax and argmin. Threads combine
theirs by shuffles, a `redux` or a vote, or through shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...dataclass import dataclass
from ...dtypes import DType, bool_, int32
from ...ir.arithmetic import build
from ...ir.arithmetic.intern import integer
from ...ir.nodes import TRUE, Buffer, BufferView, Expr, Instruction, Load, Store, Sync, Var, Vector
from ...isa import Row
from ...isa.access import WIDEST_BITS
from ...isa.barriers import OF_WARPGROUPS
from ...isa.warp import SHUFFLE_XOR
from ...layout import TileLayout
from ...ops.reduce import Reduction
from ...target import WARP as LANES
from ..builder import Builder, instances_of
from ..schedule.shares import Gathering

#: a partial result: one expression per value; in a `Combining`, one for each of its `types`
Partial = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Combining:
    """A reduction whose values are combined in `dtype`."""

    reduction: Reduction
    dtype: DType

    @property
    def types(self) -> tuple[DType, ...]:
        return (self.dtype, int32) if self.reduction.picks else (self.dtype,)

    @property
    def words(self) -> int:
        return sum(dtype.bits // 32 for dtype in self.types)

    def entered(self, x: Expr, index: int) -> Partial:
        if self.reduction.tests:
            x = build.not_equal(x, build.const(False if x.dtype == bool_ else 0, x.dtype))
        value = build.cast(x, self.dtype)
        return (value, build.const(index, int32)) if self.reduction.picks else (value,)

    def moved(self, partial: Partial, by: Expr) -> Partial:
        return (partial[0], build.add(partial[1], by)) if self.reduction.picks else partial

    def combined(self, b: Builder, low: Partial, high: Partial, *, in_order: bool) -> Partial:
        """Combine two partial results. in_order: True if all elements of `low` precede all elements of `high`."""
        if not self.reduction.picks:
            return (build.op(self.reduction.combines, low[0], high[0]),)
        takes = b.let("takes", self._takes_high(low, high, in_order=in_order))
        return tuple(
            b.let(stem, build.where(takes, new, old))
            for stem, new, old in zip(("value", "index"), high, low, strict=True)
        )

    def tree(self, b: Builder, partials: Sequence[Partial], *, in_order: bool, counts: Sequence[Expr] = ()) -> Partial:
        """Combine all partial results in a balanced tree of adjacent ones: five values become (((0, 1), (2, 3)), 4).

        counts: for each partial result, the condition that it isn't padding. Adjacent results with the same condition
        are combined before it is tested.
        """
        level = list(zip(partials, counts or [TRUE] * len(partials), strict=True))
        while len(level) > 1:
            pairs, left_over = zip(level[::2], level[1::2], strict=False), level[len(level) & ~1 :]
            level = [*[self._joined(b, low, high, in_order=in_order) for low, high in pairs], *left_over]
        return self._counted(*level[0])

    def _joined(
        self, b: Builder, low: tuple[Partial, Expr], high: tuple[Partial, Expr], *, in_order: bool
    ) -> tuple[Partial, Expr]:
        if low[1] is high[1] or low[1] == high[1]:
            return self.combined(b, low[0], high[0], in_order=in_order), low[1]
        return self.combined(b, self._counted(*low), self._counted(*high), in_order=in_order), TRUE

    def _counted(self, partial: Partial, counts: Expr) -> Partial:
        """Replace the value by the identity unless `counts` holds; the index of an identity is irrelevant."""
        identity = build.const(self.reduction.identity(self.dtype), self.dtype)
        return (build.where(counts, partial[0], identity), *partial[1:])

    def named(self, b: Builder, partial: Partial) -> Partial:
        return tuple(b.let(stem, value) for stem, value in zip((self.reduction.name, "index"), partial, strict=False))

    def result(self, partial: Partial, dtype: DType) -> Expr:
        if self.reduction.tests:
            return build.not_equal(partial[0], 0)
        return build.cast(partial[-1], dtype)

    def _takes_high(self, low: Partial, high: Partial, *, in_order: bool) -> Expr:
        """Return the condition that `high` wins: it is better, or equally good with a lower index."""
        better, no_worse = self._beats(low[0], high[0])
        if in_order:
            return better
        return build.where(build.less(high[1], low[1]), no_worse, better)

    def _beats(self, x: Expr, y: Expr) -> tuple[Expr, Expr]:
        """Return the conditions (y is better than x, y is at least as good as x); NaN beats every number."""
        is_greatest = self.reduction.combines == "maximum"
        above, reaches = (build.greater, build.greater_equal) if is_greatest else (build.less, build.less_equal)
        if not self.dtype.is_float:
            return above(y, x), reaches(y, x)
        # with NaN, every comparison except `!=` is false
        better = build.logical_and(build.equal(x, x), build.logical_not(reaches(x, y)))
        return better, build.logical_or(build.not_equal(y, y), reaches(y, x))


_WORD_BITS = 32

#: cost of a shuffle; a selection costs 1, assumed to be as fast as a compare
#: source: CUDA C++ Programming Guide, "Arithmetic Instructions": 32 warp shuffles or 64 compares per cycle and SM
_SHUFFLE_COST = 2


def by_redux(b: Builder, combining: Combining, instruction: str, partials: Sequence[Partial]) -> list[Partial]:
    """Combine each partial result over all lanes of the warp by a `redux` instruction."""
    made = b.scratch("reduced", combining.dtype, len(partials))
    for k, (value,) in enumerate(partials):
        b.append(Instruction(instruction, (_element(made, k),), (value,), span=b.span))
    return [combining.named(b, (Load(_element(made, k)),)) for k in range(len(partials))]


def by_vote(b: Builder, combining: Combining, row: Row, threads: int, partials: Sequence[Partial]) -> list[Partial]:
    """Combine each partial result, 0 or 1, over an instance of the vote's scope. threads: number in the CTA."""
    _, instance = instances_of(row.scope.name, threads)
    number = [build.add(instance, OF_WARPGROUPS)] if len(row.arguments) > 1 else []
    answers: list[Partial] = []
    for (value,) in partials:
        answer = Var(b.name(combining.reduction.name), bool_)
        b.append(Instruction(row.name, (), (*number, build.not_equal(value, 0)), span=b.span, var=answer))
        answers.append((build.cast(answer, combining.dtype),))
    return answers


@dataclass(frozen=True, slots=True)
class Shuffles:
    """A butterfly of shuffles that combines several results; `distances` between lanes are powers of two.

    At each of the first `halvings` distances, two lanes split the results: each sends the half that the other keeps.
    That takes selections, but saves shuffles. Afterwards the results are gathered in reverse order of distances. The
    pairs that are combined, and so the bits of the results, don't depend on `halvings`.

        8 results, 32 lanes   no halving        5 · 8 = 40 shuffles
                              three halvings    4 + 2 + 1 + 1 + 1 + 1 + 2 + 4 = 16, and 28 selections
    """

    results: int
    distances: tuple[int, ...]

    @property
    def halvings(self) -> int:
        """The number of halvings: the maximum possible if it costs less than none, else 0."""
        most = min(len(self.distances), (self.results & -self.results).bit_length() - 1)
        return most if self._cost(most) < self._cost(0) else 0

    def _cost(self, halvings: int) -> int:
        selections = 4 * (self.results - (self.results >> halvings))
        return _SHUFFLE_COST * self._count(halvings) + selections

    def _count(self, halvings: int) -> int:
        left = self.results >> halvings
        return 2 * (self.results - left) + (len(self.distances) - halvings) * left

    @property
    def count(self) -> int:
        """The number of shuffles per thread, for partial results of one word."""
        return self._count(self.halvings)

    @property
    def steps(self) -> int:
        """The number of times that a thread combines two partial results."""
        left = self.results >> self.halvings
        return self.results - left + (len(self.distances) - self.halvings) * left

    def emit(self, b: Builder, combining: Combining, partials: Sequence[Partial], thread: Expr) -> list[Partial]:
        """Combine each partial result over the lanes that `distances` connect; these all get the same bits."""
        lanes = LaneReduction.of(b, combining.types, len(partials))
        halved, single = self.distances[: self.halvings], self.distances[self.halvings :]
        uppers = [b.let("upper", build.not_equal(build.bitwise_and(thread, distance), 0)) for distance in halved]
        own = list(partials)
        for upper, distance in zip(uppers, halved, strict=True):
            low, high = own[: len(own) // 2], own[len(own) // 2 :]
            kept, sent = lanes.chosen(upper, high, low), lanes.chosen(upper, low, high)
            own = _combined(b, combining, kept, lanes.values(sent, distance))
        for distance in single:
            own = _combined(b, combining, own, lanes.values(own, distance))
        for upper, distance in reversed(list(zip(uppers, halved, strict=True))):
            other = lanes.values(own, distance)
            own = [*lanes.chosen(upper, other, own), *lanes.chosen(upper, own, other)]
        return own


def _combined(b: Builder, combining: Combining, own: Sequence[Partial], other: Sequence[Partial]) -> list[Partial]:
    """Combine the partial results of two lanes pairwise; the reduction is commutative."""
    return [
        combining.named(b, combining.combined(b, low, high, in_order=False))
        for low, high in zip(own, other, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class LaneReduction:
    """Shuffles of partial results, through staging registers."""

    b: Builder
    #: for each value of a partial result, the registers that are sent and received, and views of both as 32-bit words
    columns: tuple[tuple[Buffer, ...], ...]

    @staticmethod
    def of(b: Builder, dtypes: Sequence[DType], count: int) -> LaneReduction:
        """Allocate registers for up to `count` partial results. dtypes: their sizes must be multiples of 32 bits."""
        columns = []
        for dtype in dtypes:
            staged = [b.scratch(stem, dtype, count) for stem in ("sent", "received")]
            columns.append((*staged, *[_words(b, buffer) for buffer in staged]))
        return LaneReduction(b, tuple(columns))

    def values(self, partials: Sequence[Partial], distance: int | Expr, row: Row = SHUFFLE_XOR) -> list[Partial]:
        """Exchange `partials` with lane `lane ^ distance`, and return that lane's; `row` may be another shuffle."""
        b, by = self.b, build.const(distance, int32) if isinstance(distance, int) else distance
        others: list[list[Expr]] = []
        for values, column in zip(zip(*partials, strict=True), self.columns, strict=True):
            sent, received, sent_words, received_words = column
            for k, value in enumerate(values):
                b.append(Store(_element(sent, k), value, span=b.span))
            for k in range(len(values) * sent.dtype.bits // _WORD_BITS):
                source, target = _element(sent_words, k), _element(received_words, k)
                b.append(Instruction(row.name, (target,), (source, by), span=b.span))
            # named, because the registers are reused for the next distance
            others.append([b.let("other", Load(_element(received, k))) for k in range(len(values))])
        return list(zip(*others, strict=True))

    def chosen(self, cond: Expr, yes: Sequence[Partial], no: Sequence[Partial]) -> list[Partial]:
        return [
            tuple(self.b.let("chosen", build.where(cond, x, y)) for x, y in zip(left, right, strict=True))
            for left, right in zip(yes, no, strict=True)
        ]


def _words(b: Builder, buffer: Buffer) -> Buffer:
    count = buffer.dtype.bits // _WORD_BITS
    if count == 1:
        return buffer
    shape = (buffer.tile_layout.size() * count,)
    view = Buffer(b.name("words"), "local", int32, shape, TileLayout.row_major(shape), buffer.align, base=buffer)
    b.head.append(BufferView(view, span=b.span))
    return view


@dataclass(frozen=True, slots=True)
class SharedPartials:
    """The calling thread's part in combining partial results through shared memory."""

    scope: str
    #: number of threads of the CTA
    threads: int
    #: the calling thread's place among the threads that combine; leaders write their partial results
    gathering: Gathering
    #: the calling thread's lane if all lanes of its warp need the same results, so each can read one partial; else None
    lane: Expr | None

    @property
    def by_lanes(self) -> Shuffles | None:
        """The shuffles that combine a result's partials if each lane reads one; None if each thread reads all."""
        members = self.gathering.members
        if self.lane is None or members & (members - 1) or not _MOST_READ < members <= LANES:
            return None
        return Shuffles(1, tuple(1 << k for k in range(members.bit_length() - 1)))


#: lanes read one partial each only if a result has more partials than this: 8 float32 are only two vectors to read
_MOST_READ = 8


def exchanged(b: Builder, combining: Combining, shared: SharedPartials, partials: Sequence[Partial]) -> list[Partial]:
    """Combine each result over all members through shared memory: leaders write, and each thread or warp reads all."""
    return [_result(b, combining, shared, places) for places in _written(b, combining.types, shared, partials)]


def gathered(
    b: Builder, dtypes: Sequence[DType], shared: SharedPartials, partials: Sequence[Partial], *, is_idle: bool
) -> list[list[Partial]]:
    """Write the partials; return for each result those of all members, or of one by lane if `shared` has a lane.

    is_idle: as in `Builder.exchange_buffer`.
    """
    results = _written(b, dtypes, shared, partials, is_idle=is_idle)
    if shared.lane is not None:
        return [[_of_lane(b, shared, shared.lane, places)] for places in results]
    return [_every(b, shared, places) for places in results]


def _written(
    b: Builder, dtypes: Sequence[DType], shared: SharedPartials, partials: Sequence[Partial], *, is_idle: bool = False
) -> list[list[tuple[Buffer, Expr]]]:
    """Write the partials to shared memory, synchronize, and return, by result, the buffers and offsets to read from."""
    gathering = shared.gathering
    groups, width = gathering.groups, gathering.members
    layout = TileLayout.row_major((len(partials) * groups * width,))
    buffers = [
        b.exchange(shared.scope, shared.threads, "partials", dtype, layout, is_idle=is_idle or k > 0)
        for k, dtype in enumerate(dtypes)
    ]
    group = b.let("group", gathering.group)
    rows = [build.mul(build.add(group, k * groups), width) for k in range(len(partials))]
    with b.when(gathering.is_leader):
        for row, partial in zip(rows, partials, strict=True):
            for (buffer, first), value in zip(buffers, partial, strict=True):
                place = Vector(buffer, build.total([first, row, gathering.member], int32))
                b.append(Store(place, value, span=b.span))
    b.append(Sync(shared.scope, span=b.span))
    return [[(buffer, build.add(first, row)) for buffer, first in buffers] for row in rows]


def _every(b: Builder, shared: SharedPartials, places: Sequence[tuple[Buffer, Expr]]) -> list[Partial]:
    columns = [_read(b, buffer, first, shared.gathering.members) for buffer, first in places]
    return list(zip(*columns, strict=True))


def _of_lane(b: Builder, shared: SharedPartials, lane: Expr, places: Sequence[tuple[Buffer, Expr]]) -> Partial:
    mine = build.mod(lane, shared.gathering.members)
    return tuple([b.let("partial", Load(Vector(buffer, build.add(first, mine)))) for buffer, first in places])


def _result(b: Builder, combining: Combining, shared: SharedPartials, places: Sequence[tuple[Buffer, Expr]]) -> Partial:
    """Read and combine the partials of a result. places: their buffer and start, for each value of a partial result."""
    if shared.by_lanes is not None and shared.lane is not None:
        one = _of_lane(b, shared, shared.lane, places)
        (result,) = shared.by_lanes.emit(b, combining, [one], shared.lane)
        return result
    return combining.named(b, combining.tree(b, _every(b, shared, places), in_order=False))


def _read(b: Builder, buffer: Buffer, first: Expr, count: int) -> list[Expr]:
    width = min(count & -count, WIDEST_BITS // buffer.dtype.bits)
    there = b.scratch("every", buffer.dtype, count)
    for k in range(0, count, width):
        target = Vector(there, build.const(k, int32), width)
        b.move(target, Vector(buffer, build.add(first, k), width))
    return [Load(_element(there, k)) for k in range(count)]


def _element(buffer: Buffer, k: int) -> Vector:
    return Vector(buffer, integer(k, int32))
