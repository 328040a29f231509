"""Which shared memory serves best for tiles that are stored to it and loaded from it: its order and its swizzle."""

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

__all__ = ["ExchangeMemory", "RoundCosts", "cheapest", "dense"]

Array = np.ndarray

#: for so many threads and rounds wavefronts are counted
_COUNTED_THREADS, _COUNTED_ROUNDS = 64, 8


@dataclass(frozen=True, slots=True, eq=False)
class RoundCosts:
    """What the first warps access in the first of `rounds` rounds of a copy: further ones repeat it.

    chunk: elements that stay together in memory, of an access or a word. counted, warps: as many rounds and warps.
    """

    accesses: SharedAccesses
    chunk: int
    rounds: int
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
        """is_active, place: of a thread in a round. width: elements of an access. bytes_each: of an element."""
        work = Iterations(min(rounds, _COUNTED_ROUNDS), min(threads, _COUNTED_THREADS))
        rows = work.holding(is_active(*work.variables))
        address = work.values(place(*work.variables))[rows, 0]
        accesses = SharedAccesses.of(work.rounds_of[rows], work.threads_of[rows], address, width, bytes_each)
        chunk = max(width, WORD_BYTES // bytes_each)
        return RoundCosts(accesses, chunk, rounds, work.rounds, -(-work.threads // WARP))

    def costs(self, swizzles: Sequence[Swizzle]) -> Array:
        """Of all rounds of a warp, with each of some swizzles."""
        return self.accesses.costs(swizzles) * self.rounds // max(self.counted * self.warps, 1)

    @property
    def least(self) -> int:
        """What they cost where no two lanes meet in a bank."""
        return self.accesses.least * self.rounds // max(self.counted * self.warps, 1)

    @property
    def is_widest(self) -> bool:
        """Whether nothing moves more at a time."""
        return self.chunk * self.accesses.bytes_each == WIDEST_BYTES


@dataclass(frozen=True, slots=True)
class ExchangeMemory:
    """A layout, and what storing and loading a tile costs a warp, in quarter cycles."""

    layout: TileLayout
    cost: int


def cheapest(ways: Iterable[tuple[TileLayout, Sequence[RoundCosts]]]) -> ExchangeMemory:
    """The cheapest of dense layouts, with a swizzle; of several the first, with the fewest bits.

    ways: each with the accesses to it.
    """
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
    assert best is not None, "memory has some order"
    return best


def dense(shape: tuple[int, ...], fastest: int) -> TileLayout:
    """Row-major, but for the dimension that is fastest."""
    order = [*(d for d in range(len(shape)) if d != fastest), fastest]
    strides = {d: prod(shape[later] for later in order[k + 1 :]) for k, d in enumerate(order)}
    return TileLayout.from_iters([(n, strides[d], "m") for d, n in enumerate(shape)] or [(1, 1, "m")])


def _swizzles(chunk: int, size: int) -> Iterator[Swizzle]:
    """Those within `size` elements that keep `chunk` of them together, the fewest bits first."""
    for bits in range(1, 6):
        for shift in range(bits, 8):
            swizzle = Swizzle(bits, chunk.bit_length() - 1, shift)
            if swizzle.period > size:
                break
            yield swizzle
