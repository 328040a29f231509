"""Sorting networks: the rows of a tile sorted by comparators between registers and between threads.

A position in a row of 2^n elements has n bits, each over registers or over threads:

    bits 0 to r - 1       registers of a thread: a comparator orders two registers
    bits r to n - 1       threads: two threads exchange all their values, and each keeps the lower or the higher ones,
                          by a shuffle between lanes of a warp, otherwise through shared memory

The network is Batcher's bitonic sort. Merge m, for m = 1, ..., n, compares elements that differ in bit m - 1, then in
bit m - 2, ..., then in bit 0; runs of 2^m elements become ascending where bit m is 0 and descending where it is 1. Of
bits over registers the direction is known; threads in whose position bit m is 1 complement their keys for the merge.

The first 2^k elements of each row need less: after merge k, runs of 2^k elements alternate in direction, so the lower
elements of two adjacent runs are the lowest of both, and merging them sorts them. Each such halving leaves one of two
registers; of two threads, both get the result.

    elements, kept    registers, lanes    comparators per thread
    1024, 1024        32, 32              640 between registers, 480 between lanes
    1024, 8           32, 32              216 between registers, 40 between lanes
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import product
from typing import NamedTuple

import numpy as np

from ...dataclass import dataclass, field
from ...dtypes import DType
from ...errors import LayoutError
from ...forks import cached_property
from ...ir.arithmetic import build
from ...ir.nodes import Buffer, Expr, Load, Region, Store, Sync, TileOp, Vector
from ...isa.barriers import BARRIERS
from ...isa.warp import SHUFFLE_XOR
from ...layout import TileLayout
from ...ops.sort import INDEXED, KEYS, given_pairs
from ...scopes import SCOPES, WARP
from ...target import WARP as LANES
from ...wording import counted
from ..builder import Builder
from ..plans import Facts, Plan
from ..schedule.addresses import Thread
from ..schedule.placement import DigitStep, need_all_threads, place
from ..variant import DispatchContext
from .combining import LaneReduction, Partial

#: the most bytes of shared memory through which values are exchanged at a time
_EXCHANGED_BYTES = 16384


class Bit(NamedTuple):
    """One bit of a position: the distance between the registers or, if `is_thread`, the threads that differ in it."""

    distance: int
    is_thread: bool


class Step(NamedTuple):
    """A step of a network: comparators of elements whose positions differ in one bit."""

    bit: int
    #: the bit of the position that is 1 where elements become descending; None if all become ascending
    direction: int | None
    #: True if only the lower elements are kept
    halves: bool


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The registers and threads that hold the rows of a tile."""

    #: extents of the steps over rows, with the distance of threads, or 0 for a step over registers
    row_steps: tuple[tuple[int, int], ...]
    #: the first register of each row of a thread
    rows: tuple[int, ...]
    #: lowest first
    bits: tuple[Bit, ...]

    @staticmethod
    def of(region: Region, scope: str, threads: int) -> Arrangement:
        """Return the arrangement of a whole tile; raise LayoutError if a row's positions aren't made of bits."""
        placement, name = place(region, scope), region.buffer.name
        need_all_threads(placement, scope, threads)
        if region.extents != region.buffer.shape or region.buffer.slots:
            raise LayoutError(f"{name} is a part of a tile, or padded", hint="copy it to a tile of its own")
        dims = placement.dims if region.shape[-1] != 1 else (*placement.dims, ())
        bits: list[Bit] = []
        for step in reversed(dims[-1]):
            distance, is_thread = _distance(step)
            if step.extent & (step.extent - 1) or is_thread and distance & (distance - 1):
                raise LayoutError(f"{step.extent} elements of a row of {name}, {distance} apart, are no power of two")
            bits += [Bit(distance << k, is_thread) for k in range(step.extent.bit_length() - 1)]
        steps = [(step.extent, *_distance(step)) for dim in dims[:-1] for step in dim]
        registers = [(extent, distance) for extent, distance, is_thread in steps if not is_thread]
        values = product(*(range(extent) for extent, _ in registers))
        rows = tuple([sum(k * d for k, (_, d) in zip(each, registers, strict=True)) for each in values])
        return Arrangement(tuple([(e, d if of_thread else 0) for e, d, of_thread in steps]), rows, tuple(bits))

    def register(self, position: int) -> int:
        """Return the register of a position, relative to its row's first one. position: of bits over registers."""
        return sum(bit.distance for k, bit in enumerate(self.bits) if position >> k & 1)


def _distance(step: DigitStep) -> tuple[int, bool]:
    is_thread = isinstance(step.stride, Thread)
    if is_thread:
        return step.threads, True
    assert isinstance(step.stride, int)
    return step.stride, False


@dataclass(frozen=True)
class Network(Plan):
    """The plan of a sort of rows."""

    scope: str
    threads: int
    cta_threads: int
    #: number of tiles that are compared
    keys: int
    #: True if the keys end with indices
    is_indexed: bool
    #: (name of a destination, name of its source)
    pairs: tuple[tuple[str, str], ...]
    #: those of each destination and its source
    arrangements: tuple[tuple[Arrangement, Arrangement], ...]
    dtypes: tuple[DType, ...]

    @property
    def bits(self) -> tuple[Bit, ...]:
        return self.arrangements[0][1].bits

    @property
    def kept(self) -> int:
        """The number of bits of a position in the result."""
        return len(self.arrangements[0][0].bits)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        return tuple(self._steps())

    def _steps(self) -> Iterator[Step]:
        bits, kept = len(self.bits), self.kept
        for size in range(1, bits + 1):
            if size > kept:
                yield Step(size - 1, None, halves=True)
            direction = size if size < bits else None
            for bit in reversed(range(min(size, kept))):
                yield Step(bit, direction, halves=False)

    def is_lane(self, bit: Bit) -> bool:
        return bit.is_thread and bit.distance < LANES and not WARP.left_over(self.threads)

    @cached_property
    def _counts(self) -> tuple[int, int, int]:
        """(comparators, shuffles of a value, exchanges through shared memory) of a thread."""
        registers = len(self.arrangements[0][1].rows) << sum(not bit.is_thread for bit in self.bits)
        comparators = shuffles = exchanges = 0
        for step in self.steps:
            bit = self.bits[step.bit]
            comparators += registers if bit.is_thread else registers // 2
            shuffles += registers if self.is_lane(bit) else 0
            exchanges += bit.is_thread and not self.is_lane(bit)
            registers //= 2 if step.halves and not bit.is_thread else 1
        return comparators, shuffles, exchanges

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(name, count per thread): comparators, as "sort" with the types of keys, shuffles and barriers."""
        comparators, shuffles, exchanges = self._counts
        words = sum(dtype.bits // 32 for dtype in self.dtypes)
        made = [(f"sort.{'.'.join(map(str, self.dtypes[: self.keys]))}", comparators)]
        made.append((SHUFFLE_XOR.mnemonic, shuffles * words))
        if exchanges:
            made.append((BARRIERS[SCOPES[self.scope]].mnemonic, 2 * exchanges - 1))
        return tuple([each for each in made if each[1]]) or (made[0],)

    def facts(self) -> Facts:
        between = sum(self.bits[step.bit].is_thread for step in self.steps)
        stages, moved = counted(len(self.bits), "stage"), len(self.pairs) - self.keys
        width = f"{1 << self.kept} of {1 << len(self.bits)} in {stages}, {counted(between, 'exchange')}"
        width += ", with indices" if self.is_indexed else ""
        return Facts(width + (f", moves {counted(moved, 'tile')} along" if moved else ""), len(self.steps))

    def schedule(self) -> np.ndarray:
        """Return one row per step: (bit, bit of the direction or -1, 1 if it halves, distance, 1 if over threads)."""
        rows = [
            (s.bit, -1 if s.direction is None else s.direction, s.halves, *self.bits[s.bit]) for s in self.steps
        ]
        return np.array(rows, np.int64).reshape(len(rows), 5)

    def emit(self, op: TileOp, b: Builder) -> None:
        positions = [0]
        for k, bit in enumerate(self.bits):
            positions += [] if bit.is_thread else [position | 1 << k for position in positions]
        columns = [(op.region(of).buffer, src) for (_, of), (_, src) in zip(self.pairs, self.arrangements, strict=True)]
        values: Values = {
            position: [
                tuple(b.let("value", Load(_element(buffer, src.rows[row] + src.register(position))))
                      for buffer, src in columns)
                for row in range(len(columns[0][1].rows))
            ]
            for position in positions
        }
        for position, rows in _Comparators(b, self, b.thread(self.scope, self.threads)).carried_out(values).items():
            for k, (to, _) in enumerate(self.pairs):
                buffer, dst = op.region(to).buffer, self.arrangements[k][0]
                for row, value in zip(dst.rows, rows, strict=True):
                    b.append(Store(_element(buffer, row + dst.register(position)), value[k], span=b.span))


def plan_network(op: TileOp, context: DispatchContext) -> Network:
    """Plan a sort, or raise LayoutError if the tiles' layouts don't match."""
    threads, pairs, keys = context.count(op.scope), tuple(given_pairs(op.tiles)), op.attr(KEYS.name)
    assert isinstance(keys, int)
    made = tuple([
        (Arrangement.of(op.region(to), op.scope, threads), Arrangement.of(op.region(of), op.scope, threads))
        for to, of in pairs
    ])
    dtypes = tuple([op.region(of).dtype for _, of in pairs])
    is_indexed = bool(op.attr(INDEXED.name))
    plan = Network(op.scope, threads, context.threads, keys, is_indexed, pairs, made, dtypes)
    first = made[0][1]
    for (dst, src), (to, of) in zip(made, pairs, strict=True):
        for each, name in ((dst, to), (src, of)):
            bits = zip(each.bits, first.bits, strict=False)
            is_equal = all(one == other or not (one.is_thread or other.is_thread) for one, other in bits)
            if each.row_steps != first.row_steps or not is_equal or len(each.bits) > len(first.bits):
                one, other = (op.region(n).buffer.name for n in (name, pairs[0][1]))
                raise LayoutError(f"{one} and {other} distribute rows over threads differently")
    return plan


#: by position, without bits over threads: the values of each row
Values = dict[int, list[Partial]]


@dataclass(slots=True)
class _Comparators:
    b: Builder
    plan: Network
    thread: Expr
    #: the bit over threads whose value 1 says that keys are complemented, if any
    complemented: int | None = None
    lanes: LaneReduction | None = None
    shared: list[tuple[Buffer, Expr]] = field(default_factory=list)

    def carried_out(self, values: Values) -> Values:
        for step in self.plan.steps:
            direction, bit = step.direction, self.plan.bits[step.bit]
            is_of_threads = direction is not None and self.plan.bits[direction].is_thread
            values = self._complemented(values, direction if is_of_threads else None)
            descending = {p for p in values if direction is not None and not is_of_threads and p >> direction & 1}
            if bit.is_thread:
                values = self._between_threads(values, bit, step, descending)
            else:
                values = self._between_registers(values, step, descending)
        return values

    def _between_registers(self, values: Values, step: Step, descending: Set[int]) -> Values:
        made: Values = {}
        for position, rows in values.items():
            if position >> step.bit & 1:
                continue
            other = position | 1 << step.bit
            ordered = [self._ordered(*pair) for pair in zip(rows, values[other], strict=True)]
            made[position] = [pair[position in descending] for pair in ordered]
            if not step.halves:
                made[other] = [pair[position not in descending] for pair in ordered]
        return made

    def _between_threads(self, values: Values, bit: Bit, step: Step, descending: Set[int]) -> Values:
        others = iter(self._exchanged([value for rows in values.values() for value in rows], bit))
        at = build.const(0, self.thread.dtype) if step.halves else build.bitwise_and(self.thread, bit.distance)
        upper = [self.b.let("upper", build.not_equal(at, 0)), self.b.let("lower", build.equal(at, 0))]
        return {
            position: [self._kept(one, next(others), upper[position in descending]) for one in rows]
            for position, rows in values.items()
        }

    def _kept(self, one: Partial, other: Partial, upper: Expr) -> Partial:
        """Return the lower of two values, or the higher where `upper` holds."""
        if len(one) == 1:
            low, high = self._ordered(one, other)
            return self._chosen(upper, high, low)
        takes = build.where(upper, self._precedes(one, other), self._precedes(other, one))
        return self._chosen(self.b.let("takes", takes), other, one)

    def _ordered(self, one: Partial, other: Partial) -> tuple[Partial, Partial]:
        b = self.b
        if len(one) == 1:
            low, high = (build.op(name, one[0], other[0]) for name in ("minimum", "maximum"))
            return (b.let("low", low),), (b.let("high", high),)
        takes = b.let("takes", self._precedes(other, one))
        return self._chosen(takes, other, one), self._chosen(takes, one, other)

    def _chosen(self, cond: Expr, yes: Partial, no: Partial) -> Partial:
        return tuple(self.b.let("kept", build.where(cond, x, y)) for x, y in zip(yes, no, strict=True))

    def _precedes(self, one: Partial, other: Partial) -> Expr:
        *first, (x, y) = zip(one[: self.plan.keys], other, strict=False)
        cond = build.less(x, y)
        for x, y in reversed(first):
            cond = build.logical_or(build.less(x, y), build.logical_and(build.equal(x, y), cond))
        return cond

    def _complemented(self, values: Values, bit: int | None) -> Values:
        """Complement the keys of threads in whose positions `bit` is 1, and of no others."""
        if bit == self.complemented:
            return values
        changed = [k for k in (bit, self.complemented) if k is not None]
        self.complemented = bit
        conditions = [build.not_equal(build.bitwise_and(self.thread, self.plan.bits[k].distance), 0) for k in changed]
        changes = conditions[0] if len(conditions) == 1 else build.not_equal(*conditions)
        masks = [
            self.b.let("mask", build.where(changes, build.const((1 << dtype.bits) - 1, dtype), build.const(0, dtype)))
            for dtype in self.plan.dtypes[: self.plan.keys]
        ]
        return {position: [self._masked(value, masks) for value in rows] for position, rows in values.items()}

    def _masked(self, value: Partial, masks: Sequence[Expr]) -> Partial:
        keys = [self.b.let("key", build.bitwise_xor(x, mask)) for x, mask in zip(value, masks, strict=False)]
        return (*keys, *value[len(keys) :])

    def _exchanged(self, own: Sequence[Partial], bit: Bit) -> list[Partial]:
        """Return the values of the thread whose position differs in `bit`."""
        if self.plan.is_lane(bit):
            if self.lanes is None:
                # these registers suffice for later steps, which exchange at most this number of values
                self.lanes = LaneReduction.of(self.b, self.plan.dtypes, len(own))
            return self.lanes.values(own, bit.distance)
        b, plan = self.b, self.plan
        size = sum(dtype.bytes for dtype in plan.dtypes)
        count = max(min(_EXCHANGED_BYTES // (plan.threads * size), len(own)), 1)
        others: list[Partial] = []
        partner = b.let("partner", build.bitwise_xor(self.thread, bit.distance))
        for first in range(0, len(own), count):
            if self.shared:
                b.append(Sync(plan.scope, span=b.span))
            else:
                layout = TileLayout.row_major((count * plan.threads,))
                self.shared = [
                    b.exchange(plan.scope, plan.cta_threads, "exchanged", dtype, layout, is_idle=k > 0)
                    for k, dtype in enumerate(plan.dtypes)
                ]
            part = own[first : first + count]
            for k, value in enumerate(part):
                for at, each in zip(self._places(k, self.thread), value, strict=True):
                    b.append(Store(at, each, span=b.span))
            b.append(Sync(plan.scope, span=b.span))
            others += [
                tuple(b.let("other", Load(at)) for at in self._places(k, partner)) for k in range(len(part))
            ]
        return others

    def _places(self, k: int, thread: Expr) -> list[Vector]:
        at = build.add(thread, k * self.plan.threads)
        return [Vector(buffer, build.add(first, at)) for buffer, first in self.shared]


def _element(buffer: Buffer, register: int) -> Vector:
    return Vector(buffer, build.const(register, buffer.index_dtype))
