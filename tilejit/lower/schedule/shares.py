"""The registers and threads whose values are combined into each result of a reduction.

A tile of 64 x 256 over 128 threads, reduced along its rows, each digit as extent : stride:

    row 8 : register 16,  8 : thread 1           column 2 : thread 64,  4 : register 4,  8 : thread 8,  4 : register 1

    results  kept digits over registers                              8 results per thread
    values   reduced digits over registers, for each result          combined first, in the thread
    lanes    reduced digits over the lanes of a warp, bit by bit     8 and 16: combined by shuffles
    members  reduced digits over other threads                       32 and 64: combined through shared memory
    groups   kept digits over threads                                threads with separate results
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from operator import lt, mul

import numpy as np

from ...dataclass import lean
from ...dtypes import int32
from ...errors import LayoutError
from ...forks import cached_property
from ...ir.arithmetic import build, facts
from ...ir.nodes import TRUE, Buffer, Expr, Region, TileOp
from ...layout.iters import weights
from ...ops.reduce import axes_of
from ...scopes import WARP
from ...target import WARP as LANES
from .addresses import Thread
from .placement import DigitStep, need_all_threads, place
from .views import Digit, DigitSchedule, Operand, need_same_threads

Array = np.ndarray


@lean(frozen=True, slots=False)
class ReducedTiles:
    """The tiles of a reduction, as a schedule over the sources' shape without unit dimensions."""

    #: "src" is the first source, "dst" its destination
    tiles: DigitSchedule
    #: each dimension's stride in the row-major index of the combined elements; 0 if the dimension is kept
    weights: tuple[int, ...]

    def weight_of(self, digit: Digit) -> int:
        return self.weights[dim_of(digit)]

    @cached_property
    def results(self) -> DigitSchedule:
        return self.tiles.where(lambda d: not self.weight_of(d) and not d.is_spread("src"))

    def each_result(self, operand: str) -> Iterator[int]:
        """Yield each result's register in `operand`, relative to the region's start; in a source, its first one."""
        return _registers(self.results, operand)

    @cached_property
    def group_steps(self) -> tuple[DigitStep, ...]:
        """The steps over threads with separate results, slowest first."""
        return tuple([step_of(d) for d in self.tiles.digits if not self.weight_of(d) and d.is_spread("src")])


@lean(frozen=True, slots=True)
class Gathering:
    """The calling thread's place among the threads whose values are combined through shared memory."""

    #: number of values per result, and the index of the thread's value
    members: int
    member: Expr
    #: number of thread groups with separate results, and the index of the thread's group
    groups: int
    group: Expr
    #: the condition that the thread is the lowest of those that hold the same values
    is_leader: Expr

    @staticmethod
    def of(thread: Expr, members: Sequence[DigitStep], groups: Sequence[DigitStep], is_leader: Expr) -> Gathering:
        """Return the place of `thread`. members, groups: steps over members and over groups, slowest first."""
        count, groups_count = (prod([step.extent for step in steps]) for steps in (members, groups))
        return Gathering(count, _numbered(thread, members), groups_count, _numbered(thread, groups), is_leader)


@lean(frozen=True, slots=True)
class Slot:
    """A register that is combined into a result."""

    #: the register, relative to the result's first register
    register: int
    #: the element's index in each dimension of the sources, without the thread's contribution; 0 for kept dimensions
    at: tuple[int, ...]
    #: the element's row-major index among the combined elements, without the thread's contribution
    index: int


@lean(frozen=True, slots=False)
class ResultShares(ReducedTiles):
    """The distribution of the combined elements; the module's docstring defines the terms."""

    #: distances between lanes that shuffles combine, ascending
    lanes: tuple[int, ...]
    #: the other steps over threads that share a result, slowest first
    members: tuple[DigitStep, ...]

    @staticmethod
    def of(op: TileOp, threads: int) -> ResultShares:
        """Return the distribution in a reduction of local tiles, or raise LayoutError as `reduced_tiles` does."""
        reduced = reduced_tiles(op, threads, (("dst", "src"),))
        lanes: list[int] = []
        members: list[DigitStep] = []
        for digit in reduced.tiles.digits:
            if reduced.weight_of(digit) and digit.is_spread("src"):
                between, others = lanes_and_others(step_of(digit), threads)
                lanes += [step.threads for step in between]
                members += others
        members.sort(key=lambda step: -step.threads)
        return ResultShares(reduced.tiles, reduced.weights, tuple(sorted(lanes)), tuple(members))

    @cached_property
    def values(self) -> DigitSchedule:
        """The digits over the registers that are combined into a result, slowest first."""
        return self.tiles.where(lambda d: bool(self.weight_of(d)) and not d.is_spread("src"))

    @property
    def groups(self) -> int:
        return prod(step.extent for step in self.group_steps)

    @property
    def partials(self) -> int:
        """The number of partial results that are combined through shared memory into each result; 1 if none are."""
        return prod(step.extent for step in self.members)

    @property
    def sharers(self) -> int:
        return self.partials << len(self.lanes)

    @property
    def apart(self) -> str:
        """A description, for messages, of the threads that exchange partial results through shared memory."""
        return ", ".join(f"{step.extent} threads {step.threads} apart" for step in self.members)

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The registers combined into a result that hold an element in at least one thread, in order of `index`."""
        steps = [(dim_of(digit), digit.weight) for digit in self.values.digits]
        slots: list[Slot] = []
        for values, register in zip(_counted(self.values), _registers(self.values, "src"), strict=True):
            at = [0] * len(self.weights)
            for (dim, step), value in zip(steps, values, strict=True):
                at[dim] += value * step
            if all(map(lt, at, self.tiles.extents)):
                slots.append(Slot(register, tuple(at), sum(map(mul, at, self.weights))))
        return tuple(slots)

    def counts(self, thread: Expr) -> list[Expr]:
        """Return, for each slot, the condition that it isn't padding along a reduced axis in `thread`."""
        counts: list[Expr] = [TRUE] * len(self.slots)
        for dim in self.tiles.padded:
            if not self.weights[dim]:
                continue
            index, extent = self._of_thread(thread, dim), self.tiles.extents[dim]
            # rounding a limit up to a multiple of the index's divisor keeps the result, and lets slots share tests
            step = facts.multiple_of(index) or 1
            limits = [-(-(extent - slot.at[dim]) // step) * step for slot in self.slots]
            below = {limit: build.less(index, limit) for limit in dict.fromkeys(limits)}
            counts = [build.logical_and(cond, below[limit]) for cond, limit in zip(counts, limits, strict=True)]
        return counts

    def _of_thread(self, thread: Expr, dim: int) -> Expr:
        shared = [d for d in self.tiles.digits if self.weight_of(d) and d.is_spread("src") and d.dim == dim]
        return build.weighted_sum([(step_of(d).of_thread(thread), d.weight) for d in shared], int32)

    def index_of(self, thread: Expr) -> Expr:
        """Return a thread's contribution to the index among the combined elements."""
        terms = [(self._of_thread(thread, dim), weight) for dim, weight in enumerate(self.weights) if weight]
        return build.weighted_sum(terms, int32)

    def gathering(self, thread: Expr) -> Gathering:
        """Return a thread's place in the exchange of partial results.

        A leader is the lowest of the threads that hold the same partial result after the shuffles.
        """
        lowest = self.tiles["src"].placement.is_mover(thread, loads=False)
        lowest = build.logical_and(lowest, build.equal(build.bitwise_and(thread, sum(self.lanes)), 0))
        return Gathering.of(thread, self.members, self.group_steps, lowest)


def dim_of(digit: Digit) -> int:
    assert digit.dim is not None, "a joined digit has no dimension"
    return digit.dim


def step_of(digit: Digit) -> DigitStep:
    return DigitStep(digit.extent, digit.strides["src"])


def _counted(digits: DigitSchedule) -> Iterator[tuple[int, ...]]:
    return product(*(range(digit.extent) for digit in digits.digits))


def _registers(digits: DigitSchedule, operand: str) -> Iterator[int]:
    strides = [digit.elements(operand) for digit in digits.digits]
    return (sum(map(mul, strides, values)) for values in _counted(digits))


def _numbered(thread: Expr, steps: Sequence[DigitStep]) -> Expr:
    """Return the row-major index of `thread` over `steps`, which are ordered slowest first."""
    every = zip(steps, weights([step.extent for step in steps]), strict=True)
    return build.weighted_sum([(step.of_thread(thread), weight) for step, weight in every], int32)


def reduced_tiles(op: TileOp, threads: int, pairs: Sequence[tuple[str, str]]) -> ReducedTiles:
    """Return the tiles of a reduction.

    pairs: (name of a destination, name of its source).
    raises: LayoutError, e.g. if the layouts don't match each other or the scope.
    """
    regions: dict[str, Region] = {}
    for to, of in pairs:
        regions[of], axes = unfolded(op.region(of), axes_of(dict(op.attrs), len(op.region(of).shape)))
        regions[to] = op.region(to)
    placed = {name: place(region, op.scope) for name, region in regions.items()}
    for placement in placed.values():
        need_all_threads(placement, op.scope, threads)
    shape = regions[pairs[0][1]].shape
    dims = [d for d, n in enumerate(shape) if n != 1]
    reduced = [d for d in dims if d in axes]
    strides = tuple([prod(shape[e] for e in reduced if e > d) if d in reduced else 0 for d in dims])
    kept = iter(range(len(dims)))
    along = [None if stride else next(kept) for stride in strides]
    views: dict[str, Operand] = {}
    for to, of in pairs:
        if regions[of].shape != shape:
            first, other = regions[pairs[0][1]].buffer.name, regions[of].buffer.name
            raise LayoutError(
                f"only one of {first} and {other} is laid out as one dimension",
                hint="copy one to a tile with the other's layout first",
            )
        views |= {of: (placed[of], range(len(dims))), to: (placed[to], along)}
    tiles = ReducedTiles(DigitSchedule.of(placed[pairs[0][1]].shape, views), strides)
    for to, of in pairs:
        _need_projected(tiles, to, of)
        need_same_threads(tiles.tiles, pairs[0][1], of)
    return tiles


def unfolded(src: Region, axes: tuple[int, ...]) -> tuple[Region, tuple[int, ...]]:
    """Return `src` and `axes`, flattened if the buffer of `src` is laid out as one dimension.

    raises: LayoutError if such a buffer isn't reduced as a whole.
    """
    buffer = src.buffer
    if not len(buffer.slots) == 1 < len(buffer.shape):
        return src, axes
    size = prod(buffer.fixed_shape)
    if prod(src.shape) != size or any(n != 1 for d, n in enumerate(src.shape) if d not in axes):
        raise LayoutError(
            f"{buffer.name} is laid out as one dimension, so it can only be reduced as a whole, along all axes",
            hint="copy it to a tile whose layout keeps the axes apart",
        )
    flat = Buffer(buffer.name, "local", buffer.dtype, (size,), buffer.layout, buffer.align, slots=buffer.slots)
    return Region(flat, (build.const(0, int32),), (size,)), (0,)


def _need_projected(reduced: ReducedTiles, to: str, of: str) -> None:
    """Raise LayoutError if a dimension has no common digits, or the tiles spread kept axes over different threads."""
    src, dst = reduced.tiles[of], reduced.tiles[to]
    for digit in reduced.tiles.digits:
        if digit.dim in reduced.tiles.folded:
            raise LayoutError(
                f"{src.buffer.name} and {dst.buffer.name} split a dimension over registers in incompatible ways"
            )
        if reduced.weight_of(digit) or digit.strides[of] == digit.strides[to]:
            continue
        if digit.is_spread(of) or digit.is_spread(to):
            dim = src.dims[dim_of(digit)]
            raise LayoutError(
                f"{src.buffer.name} and {dst.buffer.name} distribute dimension {dim} over threads differently",
                hint="give the destination the source's layout, with the reduced thread axes as replicas",
            )


def lanes_and_others(step: DigitStep, threads: int) -> tuple[list[DigitStep], list[DigitStep]]:
    """Split a step over threads into steps between two lanes, nearest first, for shuffles, and the other steps."""
    if WARP.left_over(threads):
        # shuffles need whole warps
        return [], [step]
    inner, over_warps = step, list[DigitStep]()
    within = LANES // step.threads if LANES % step.threads == 0 else 0
    if 0 < within < step.extent and step.extent % within == 0:
        inner, over_warps = DigitStep(within, step.stride), [DigitStep(step.extent // within, Thread(LANES))]
    if inner.threads >= LANES or not (_is_binary(inner.extent) and _is_binary(inner.threads)):
        return [], [inner, *over_warps]
    return [DigitStep(2, Thread(inner.threads << k)) for k in range(inner.extent.bit_length() - 1)], over_warps


def _is_binary(number: int) -> bool:
    return number & (number - 1) == 0
