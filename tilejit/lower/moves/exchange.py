"""Choice of dimension order and swizzle for a tile that is stored to shared memory and loaded from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod

import numpy as np

from ...dataclass import dataclass
from ...ir.nodes import Expr
from ...layout import Swizzle, TileLayout
from ...layout.grid import WIDEST_BYTES
from ...target import WARP
from ..schedule.iterations import Iterations
from ..weights import BARRIER
from .wavefronts import WORD_BYTES, SharedAccesses

Array = np.ndarray

#: wavefronts are counted for the first threads and iterations only
_COUNTED_THREADS, _COUNTED_ROUNDS = 64, 8


@dataclass(frozen=True, slots=True, eq=False)
class RoundCosts:
    """The shared memory cost of one side of a copy, estimated from the first warps and iterations."""

    accesses: SharedAccesses
    #: elements that a swizzle must keep contiguous: an access or a word, whichever is larger
    chunk: int
    rounds: int
    #: iterations and warps that `accesses` covers
    counted: int
    warps: int

    @staticmethod
    def of(
        rounds: int,
        threads: int,
        is_active: Callable[[Expr, Expr], Expr],
        place: Callable[[Expr, Expr], Expr],
        width: int,
        bytes_each: int,
    ) -> RoundCosts:
        """Count the accesses of a copy.

        is_active, place: map a thread and an iteration to whether there is an access, and to its address in elements.
        """
        work = Iterations(min(rounds, _COUNTED_ROUNDS), min(threads, _COUNTED_THREADS))
        rows = work.holding(is_active(*work.variables))
        address = work.values(place(*work.variables))[rows, 0]
        accesses = SharedAccesses.of(work.rounds_of[rows], work.threads_of[rows], address, width, bytes_each)
        chunk = max(width, WORD_BYTES // bytes_each)
        return RoundCosts(accesses, chunk, rounds, work.rounds, -(-work.threads // WARP))

    def costs(self, swizzles: Sequence[Swizzle]) -> Array:
        """Return the cost of all iterations of a warp for each swizzle."""
        return self.accesses.costs(swizzles) * self.rounds // max(self.counted * self.warps, 1)

    @property
    def least(self) -> int:
        """The cost without bank conflicts."""
        return self.accesses.least * self.rounds // max(self.counted * self.warps, 1)

    @property
    def is_widest(self) -> bool:
        return self.chunk * self.accesses.bytes_each == WIDEST_BYTES


@dataclass(frozen=True, slots=True)
class ExchangeMemory:
    """A layout of shared memory and the cost of storing and loading a tile, in quarter cycles per warp."""

    layout: TileLayout
    cost: int


def cheapest(ways: Iterable[tuple[TileLayout, Sequence[RoundCosts]]]) -> ExchangeMemory:
    """Return the cheapest of several layouts, swizzled or not; ties go to the first layout and fewest swizzle bits."""
    best: ExchangeMemory | None = None
    for layout, sides in ways:
        least = sum(side.least for side in sides) + 2 * BARRIER
        if best is not None and best.cost <= least:
            continue
        swizzles = [Swizzle(0, 0, 0), *_swizzles(max(side.chunk for side in sides), layout.footprint())]
        costs = np.sum([side.costs(swizzles) for side in sides], axis=0) + 2 * BARRIER
        number = int(np.argmin(costs))
        if best is None or costs[number] < best.cost:
            best = ExchangeMemory(layout.swizzled(swizzles[number]) if number else layout, int(costs[number]))
        if best.cost == least and all(side.is_widest for side in sides):
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
