"""The cost of shared memory accesses in wavefronts: passes in which each bank serves at most one word.

It decides the order of dimensions and the swizzle of tiles exchanged through shared memory; grids' costs include it.
source: CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks"; Nsight Compute, "Memory Tables".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from ...dataclass import dataclass, replace
from ...fast_unique import fast_unique
from ...ir.nodes import Expr
from ...layout import Swizzle, TileLayout
from ...layout.grid import WIDEST_BYTES
from ...target import WARP
from ..plans import Iterations
from ..weights import ACCESS, BARRIER, WAVEFRONT

Array = np.ndarray

_WORD_BYTES = 4
#: bytes of one word in each bank
_ROW_BYTES = 32 * _WORD_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class SharedAccesses:
    """The distinct pieces of shared memory that warps access: each access or, if it is narrower, the word around it.

    Lanes that access the same piece share it. Accesses of 8 bytes are served per half warp, those of 16 bytes per
    quarter warp.
    """

    #: for each piece, the index of its group of lanes, whose pieces are served together
    group: Array
    #: the first element of each piece, before swizzling
    address: Array
    bytes_each: int
    #: elements of a piece, which a swizzle must keep contiguous
    size: int
    instructions: int
    #: number of iterations whose cost is estimated, and number of those counted here times that of warps
    rounds: int = 1
    counted: int = 1

    @staticmethod
    def of(issue: Array, thread: Array, address: Array, width: int, bytes_each: int) -> SharedAccesses:
        """Collect the pieces of accesses. address: multiples of `width`, which is a power of two."""
        size = max(width, _WORD_BYTES // bytes_each)
        lanes, threads = min(WARP, _ROW_BYTES // (size * bytes_each)), int(thread.max(initial=0)) + 1
        span = int(address.max(initial=0)) + 1
        pieces = fast_unique((issue * threads + thread // lanes) * span + address // size * size)
        group = np.unique(pieces // span, return_inverse=True)[1]
        instructions = len(fast_unique(issue * threads + thread // WARP))
        return SharedAccesses(group, pieces % span, bytes_each, size, instructions)

    @property
    def at_once(self) -> int:
        """The maximum number of pieces per wavefront."""
        return _ROW_BYTES // (self.size * self.bytes_each)

    def wavefronts(self, swizzles: Sequence[Swizzle]) -> Array:
        """Return the number of wavefronts with each swizzle; swizzles must keep words and accesses contiguous."""
        if not len(self.group):
            return np.zeros(len(swizzles), np.int64)
        address = np.stack([swizzle.apply(self.address) for swizzle in swizzles])
        piece = address // self.size
        groups = int(self.group[-1]) + 1
        every = np.arange(len(swizzles))[:, None] * groups + self.group
        banks = len(swizzles) * groups * self.at_once
        count = np.bincount((every * self.at_once + piece % self.at_once).ravel(), minlength=banks)
        return np.asarray(count.reshape(len(swizzles), groups, self.at_once).max(axis=2).sum(axis=1))

    def costs(self, swizzles: Sequence[Swizzle]) -> Array:
        """Return the cost in quarter cycles with each swizzle."""
        return (ACCESS * self.instructions + WAVEFRONT * self.wavefronts(swizzles)) * self.rounds // self.counted

    @property
    def least(self) -> int:
        """The cost without bank conflicts, in quarter cycles."""
        ideal = -(-np.bincount(self.group) // self.at_once)
        return (ACCESS * self.instructions + WAVEFRONT * int(ideal.sum())) * self.rounds // self.counted


class LaneDigit(NamedTuple):
    """Lanes along an axis: their number, how many are active, and their stride in bytes.

    A stride of None is unknown: all lanes are then assumed to hit the same bank.
    """

    lanes: int
    active: int
    stride: int | None


#: the identity swizzle
_AS_THEY_ARE = Swizzle(0, 0, 0)


@lru_cache(maxsize=4096)
def wavefronts(run: int, digits: tuple[LaneDigit, ...]) -> int:
    """Return the number of wavefronts of a warp's access. run: bytes per lane. digits: fastest first."""
    thread = address = np.zeros(1, np.int64)
    step = 1
    for digit in digits:
        at = np.arange(digit.active)[:, None]
        thread = (thread + step * at).ravel()
        stride = _ROW_BYTES if digit.stride is None else digit.stride
        address = (address + stride * at).ravel()
        step *= digit.lanes
    accesses = SharedAccesses.of(np.zeros_like(thread), thread, address, run, 1)
    return int(accesses.wavefronts((_AS_THEY_ARE,))[0])


#: wavefronts are counted for the first threads and iterations only
_COUNTED_THREADS, _COUNTED_ROUNDS = 64, 8


def round_costs(
    rounds: int,
    threads: int,
    is_active: Callable[[Expr, Expr], Expr],
    place: Callable[[Expr, Expr], Expr],
    width: int,
    bytes_each: int,
) -> SharedAccesses:
    """Return the accesses of one side of a copy, from which the average warp's cost of all iterations is estimated.

    is_active, place: given a thread and an iteration, the condition of an access, and its address in elements.
    """
    work = Iterations(min(rounds, _COUNTED_ROUNDS), min(threads, _COUNTED_THREADS))
    rows = work.holding(is_active(*work.variables))
    address = work.values(place(*work.variables))[rows, 0]
    accesses = SharedAccesses.of(work.rounds_of[rows], work.threads_of[rows], address, width, bytes_each)
    return replace(accesses, rounds=rounds, counted=max(work.rounds * -(-work.threads // WARP), 1))


@dataclass(frozen=True, slots=True)
class ExchangeMemory:
    """A layout of shared memory, and the cost of exchanging a tile through it, in quarter cycles per warp."""

    layout: TileLayout
    cost: int


def cheapest(ways: Iterable[tuple[TileLayout, Sequence[SharedAccesses]]]) -> ExchangeMemory:
    """Return the cheapest of several layouts, swizzled or not; ties go to the first, then to fewer swizzle bits."""
    best: ExchangeMemory | None = None
    for layout, sides in ways:
        least = sum(side.least for side in sides) + 2 * BARRIER
        if best is not None and best.cost <= least:
            continue
        swizzles = [_AS_THEY_ARE, *_swizzles(max(side.size for side in sides), layout.footprint())]
        costs = np.sum([side.costs(swizzles) for side in sides], axis=0) + 2 * BARRIER
        number = int(np.argmin(costs))
        if best is None or costs[number] < best.cost:
            best = ExchangeMemory(layout.swizzled(swizzles[number]) if number else layout, int(costs[number]))
        if best.cost == least and all(side.size * side.bytes_each == WIDEST_BYTES for side in sides):
            break
    assert best is not None, "no layout given"
    return best


def dense(shape: tuple[int, ...], fastest: int) -> TileLayout:
    """Return the row-major layout in which dimension `fastest` is moved to the end."""
    order = [*(d for d in range(len(shape)) if d != fastest), fastest]
    strides = {d: prod(shape[later] for later in order[k + 1 :]) for k, d in enumerate(order)}
    return TileLayout.from_iters([(n, strides[d], "m") for d, n in enumerate(shape)] or [(1, 1, "m")])


def _swizzles(chunk: int, size: int) -> Iterator[Swizzle]:
    """Yield swizzles with a period of at most `size` that keep `chunk` elements contiguous, fewest bits first."""
    for bits in range(1, 6):
        for shift in range(bits, 8):
            swizzle = Swizzle(bits, chunk.bit_length() - 1, shift)
            if swizzle.period > size:
                break
            yield swizzle
