"""The registers and threads that are combined into each result of a reduction.

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
from ...ir.arithmetic import build, facts
from ...ir.nodes import TRUE, Buffer, Expr, Region, TileOp
from ...ops.reduce import axes_of
from ...remember import remembered
from ...scopes import WARP
from ...target import WARP as LANES
from .digits import Digit
from .owners import need_all_threads, need_same_threads
from .placement import DigitStep, Placement, place
from .strides import Thread
from .views import DigitSchedule

Array = np.ndarray


@lean(frozen=True, slots=True)
class Slot:
    """A register that is combined into a result."""

    #: the register, relative to the result's first register
    register: int
    #: the element's index in each dimension of the source, without the thread's contribution
    at: tuple[int, ...]
    #: its row-major index among the combined elements, without the thread's contribution
    index: int


@lean(frozen=True, slots=True)
class ResultShares:
    """The distribution of the combined elements; the module's docstring defines the terms."""

    #: "src" and "dst" over the source's shape
    tiles: DigitSchedule
    #: each dimension's stride in the row-major index of the combined elements; 0 if the dimension is kept
    weights: tuple[int, ...]
    #: distances between lanes that shuffles combine, ascending
    lanes: tuple[int, ...]
    #: the other steps over threads that share a result, slowest first
    members: tuple[DigitStep, ...]

    @staticmethod
    def of(op: TileOp, threads: int) -> ResultShares:
        """Return the shares of a reduction of local tiles, or raise LayoutError as `reduced_tiles` does."""
        tiles, weights = reduced_tiles(op, threads, (("dst", "src"),))
        spread = [_step(d) for d in tiles.digits if d.is_spread("src") and _weight(d, weights)]
        lanes, members = _lanes_and_members(spread, threads)
        return ResultShares(tiles, weights, lanes, members)

    @property
    def results(self) -> DigitSchedule:
        return _results(self)

    @property
    def values(self) -> DigitSchedule:
        """The digits over the registers that are combined into a result, slowest first."""
        return _values(self)

    @property
    def _shared(self) -> tuple[Digit, ...]:
        return tuple([d for d in self.tiles.digits if _weight(d, self.weights) and d.is_spread("src")])

    @property
    def _groups(self) -> tuple[DigitStep, ...]:
        return tuple([_step(d) for d in self.tiles.digits if not _weight(d, self.weights) and d.is_spread("src")])

    @property
    def groups(self) -> int:
        return prod(step.extent for step in self._groups)

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

    def each_result(self, operand: str) -> Iterator[int]:
        """Yield a thread's result registers relative to `operand`'s start; in the source, each result's first slot."""
        return _registers(self.results, operand)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The registers combined into a result that hold an element in at least one thread, by ascending index."""
        return _slots(self)

    def counts(self, thread: Expr) -> list[Expr]:
        """Return for each slot the condition that it isn't padding along a reduced axis in `thread`."""
        counts: list[Expr] = [TRUE] * len(self.slots)
        for dim in self.tiles.space.padded:
            if not self.weights[dim]:
                continue
            index, extent = self._of_thread(thread, dim), self.tiles.space.dims[dim]
            # a limit rounded up to a multiple of the index's divisor gives the same result, and slots often share it
            step = facts.multiple_of(index) or 1
            limits = [-(-(extent - slot.at[dim]) // step) * step for slot in self.slots]
            below = {limit: build.less(index, limit) for limit in dict.fromkeys(limits)}
            counts = [build.logical_and(cond, below[limit]) for cond, limit in zip(counts, limits, strict=True)]
        return counts

    def _of_thread(self, thread: Expr, dim: int) -> Expr:
        terms = [(_step(d).of_thread(thread), d.weight) for d in self._shared if d.dim == dim]
        return build.weighted_sum(terms, int32)

    def index_of(self, thread: Expr) -> Expr:
        """Return a thread's contribution to the index among the combined elements."""
        terms = [(self._of_thread(thread, dim), weight) for dim, weight in enumerate(self.weights) if weight]
        return build.weighted_sum(terms, int32)

    def group_of(self, thread: Expr) -> Expr:
        return numbered(thread, self._groups)

    def member_of(self, thread: Expr) -> Expr:
        """Return the index of a thread's partial result among those that are combined into a result."""
        return numbered(thread, self.members)

    def is_leader(self, thread: Expr) -> Expr:
        """Return the condition that a thread is the lowest of those that the shuffles leave with the same values."""
        lowest = self.tiles["src"].placement.is_mover(thread, loads=False)
        return build.logical_and(lowest, build.equal(build.bitwise_and(thread, sum(self.lanes)), 0))

    def partners(self, threads: Array) -> Array:
        """Return for each thread the threads that contribute to its results, of shape (threads, partners)."""
        partners = threads[:, None]
        for step in (*self.members, *(DigitStep(2, Thread(distance)) for distance in self.lanes)):
            own = partners // step.threads % step.extent
            moved = [partners + (value - own) * step.threads for value in range(step.extent)]
            partners = np.stack(moved, axis=-1).reshape(len(threads), -1)
        return partners


@remembered
def _results(shares: ResultShares) -> DigitSchedule:
    return shares.tiles.where(lambda d: not _weight(d, shares.weights) and not d.is_spread("src"))


@remembered
def _values(shares: ResultShares) -> DigitSchedule:
    return shares.tiles.where(lambda d: bool(_weight(d, shares.weights)) and not d.is_spread("src"))


@remembered
def _slots(shares: ResultShares) -> tuple[Slot, ...]:
    counted, extents, weights = shares.values, shares.tiles.space.dims, shares.weights
    steps = [(_dim(digit), digit.weight) for digit in counted.digits]
    slots: list[Slot] = []
    for values, register in zip(_counted(counted), _registers(counted, "src"), strict=True):
        at = [0] * len(weights)
        for (dim, step), value in zip(steps, values, strict=True):
            at[dim] += value * step
        if all(map(lt, at, extents)):
            slots.append(Slot(register, tuple(at), sum(map(mul, at, weights))))
    return tuple(slots)


def _dim(digit: Digit) -> int:
    assert digit.dim is not None, "a joined digit has no dimension"
    return digit.dim


def _weight(digit: Digit, weights: Sequence[int]) -> int:
    return weights[_dim(digit)]


def _step(digit: Digit) -> DigitStep:
    return DigitStep(digit.extent, digit["src"])


def _counted(digits: DigitSchedule) -> Iterator[tuple[int, ...]]:
    return product(*(range(digit.extent) for digit in digits.digits))


def _registers(digits: DigitSchedule, operand: str) -> Iterator[int]:
    strides = [digit.elements(operand) for digit in digits.digits]
    return (sum(map(mul, strides, values)) for values in _counted(digits))


def numbered(thread: Expr, steps: Sequence[DigitStep]) -> Expr:
    """Return the row-major index of `thread` over `steps`, slowest first."""
    below = [prod(step.extent for step in steps[k + 1 :]) for k in range(len(steps))]
    return build.weighted_sum([(s.of_thread(thread), weight) for s, weight in zip(steps, below, strict=True)], int32)


def reduced_tiles(op: TileOp, threads: int, pairs: Sequence[tuple[str, str]]) -> tuple[DigitSchedule, tuple[int, ...]]:
    """Return the schedule of a reduction's tiles, without unit dimensions, and `ResultShares.weights`.

    pairs: names of each destination and its source.
    raises: LayoutError, e.g. if layouts don't match each other or the scope.
    """
    regions: dict[str, Region] = {}
    for to, of in pairs:
        regions[of], axes = _unfolded(op.region(of), axes_of(dict(op.attrs), len(op.region(of).shape)))
        regions[to] = op.region(to)
    placed = {name: place(region, op.scope) for name, region in regions.items()}
    for placement in placed.values():
        need_all_threads(placement, op.scope, threads)
    shape = regions[pairs[0][1]].shape
    dims = [d for d, n in enumerate(shape) if n != 1]
    reduced = [d for d in dims if d in axes]
    weights = tuple([prod(shape[e] for e in reduced if e > d) if d in reduced else 0 for d in dims])
    kept = iter(range(len(dims)))
    along = [None if weight else next(kept) for weight in weights]
    views: dict[str, tuple[Placement, Sequence[int | None]]] = {}
    for to, of in pairs:
        if regions[of].shape != shape:
            first, other = regions[pairs[0][1]].buffer.name, regions[of].buffer.name
            raise LayoutError(
                f"only one of {first} and {other} is laid out as one dimension",
                hint="copy one to a tile with the other's layout first",
            )
        views |= {of: (placed[of], range(len(dims))), to: (placed[to], along)}
    tiles = DigitSchedule.of(placed[pairs[0][1]].shape, views)
    for to, of in pairs:
        _need_projected(tiles, weights, to, of)
        need_same_threads(tiles, pairs[0][1], of)
    return tiles, weights


def _unfolded(src: Region, axes: tuple[int, ...]) -> tuple[Region, tuple[int, ...]]:
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


def _need_projected(tiles: DigitSchedule, weights: tuple[int, ...], to: str, of: str) -> None:
    """Raise LayoutError if a dimension has no common digits, or the tiles spread kept axes over different threads."""
    src, dst = tiles[of], tiles[to]
    for digit in tiles.digits:
        if digit.is_folded:
            raise LayoutError(
                f"the layouts of {src.buffer.name} and {dst.buffer.name} split a dimension over registers in "
                "incompatible ways: their extents have no common refinement"
            )
        if _weight(digit, weights) or digit[of] == digit[to]:
            continue
        if digit.is_spread(of) or digit.is_spread(to):
            raise LayoutError(
                f"{src.buffer.name} and {dst.buffer.name} give dimension {src.dims[_dim(digit)]} to different threads",
                hint="give the destination the source's layout, with the reduced thread axes as replicas",
            )


def _lanes_and_members(spread: Sequence[DigitStep], threads: int) -> tuple[tuple[int, ...], tuple[DigitStep, ...]]:
    """Return the distances between lanes for shuffles, () if a warp is partial, and the other steps over threads."""
    if WARP.left_over(threads):
        return (), _slowest_first(spread)
    lanes: list[int] = []
    members: list[DigitStep] = []
    for step in spread:
        inner, outer = at_warp(step)
        if is_binary(inner.extent) and is_binary(inner.threads) and inner.threads < LANES:
            lanes += [inner.threads << k for k in range(inner.extent.bit_length() - 1)]
        else:
            members.append(inner)
        if outer is not None:
            members.append(outer)
    return tuple(sorted(lanes)), _slowest_first(members)


def at_warp(step: DigitStep) -> tuple[DigitStep, DigitStep | None]:
    """Split `step` into (part within a warp, part over warps); (step, None) if it doesn't cross warps evenly."""
    within = LANES // step.threads if LANES % step.threads == 0 else 0
    if within == 0 or step.extent <= within or step.extent % within:
        return step, None
    return DigitStep(within, step.stride), DigitStep(step.extent // within, Thread(LANES))


def is_binary(number: int) -> bool:
    return number & (number - 1) == 0


def _slowest_first(steps: Sequence[DigitStep]) -> tuple[DigitStep, ...]:
    return tuple(sorted(steps, key=lambda step: -step.threads))
