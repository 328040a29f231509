"""Frontiers: up to which event the accesses of other threads, warps and CTAs have happened, as one thread knows it.

A frontier is a number; what it says never changes. Joining two makes a third, which is worked out when it is asked.

    key     0 | thread        one thread, by its number in the grid, from 1
            WARP_KEY | warp   all threads of a warp
            CTA_KEY | cta     all threads of a CTA

Each key has an event: the accesses of its threads up to that event, this included, have happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..machine.lanes import Index

WARP_KEY = 1 << 40
CTA_KEY = 1 << 41
#: the frontier that says nothing
NOTHING = 0
# A frontier that joins so many others is worked out at once, so that no history is walked again and again.
_MOST_PARTS = 32
# Above the bits of a key: which of several frontiers it belongs to.
_WHICH_SHIFT = 44


class Frontiers:
    """All frontiers of a launch.

    parts: what each one joins, until it is worked out; flat: its keys, ascending, and their events.
    weight: how many others must be looked at to work it out.
    """

    def __init__(self) -> None:
        empty = np.zeros(0, np.int64)
        self.parts: list[tuple[int, ...]] = [()]
        self.flat: list[tuple[Index, Index] | None] = [(empty, empty)]
        self.weight = [1]
        self.joins: dict[tuple[int, int], int] = {}

    def leaf(self, keys: Sequence[int] | Index, events: Sequence[int] | Index) -> int:
        """A frontier of these keys, which ascend."""
        self.parts.append(())
        self.flat.append((np.array(keys, np.int64), np.array(events, np.int64)))
        self.weight.append(1)
        return len(self.flat) - 1

    def join(self, a: int, b: int) -> int:
        """What `a` and `b` say together."""
        if a == b or b == NOTHING:
            return a
        if a == NOTHING:
            return b
        pair = (a, b) if a < b else (b, a)
        joined = self.joins.get(pair)
        if joined is None:
            self.parts.append(pair)
            self.flat.append(None)
            joined = self.joins[pair] = len(self.flat) - 1
            self.weight.append(self.weight[a] + self.weight[b])
            if self.weight[joined] > _MOST_PARTS:
                self.flatten(joined)
            # a loop that looks at one flag joins the same release again and again
            self.joins[min(pair[0], joined), max(pair[0], joined)] = joined
            self.joins[min(pair[1], joined), max(pair[1], joined)] = joined
        return joined

    def join_all(self, numbers: Iterable[int]) -> int:
        result = NOTHING
        for number in numbers:
            result = self.join(result, int(number))
        return result

    def flatten(self, number: int) -> tuple[Index, Index]:
        """A frontier's keys, ascending, and events."""
        done = self.flat[number]
        if done is not None:
            return done
        seen = {number}
        pending = [number]
        pieces: list[tuple[Index, Index]] = []
        while pending:
            for part in self.parts[pending.pop()]:
                if part in seen:
                    continue
                seen.add(part)
                piece = self.flat[part]
                if piece is None:
                    pending.append(part)
                else:
                    pieces.append(piece)
        keys = np.concatenate([p[0] for p in pieces])
        events = np.concatenate([p[1] for p in pieces])
        order = np.lexsort((events, keys))
        keys, events = keys[order], events[order]
        newest = np.append(keys[1:] != keys[:-1], True)
        result = keys[newest], events[newest]
        self.flat[number] = result
        self.parts[number] = ()
        self.weight[number] = 1
        return result

    def reach(self, numbers: Index, keys: tuple[Index, ...], events: Index) -> NDArray[np.bool_]:
        """Whether each frontier of `numbers` includes its event of one of its keys."""
        each, which = np.unique(numbers, return_inverse=True)
        flats = [self.flatten(int(number)) for number in each]
        have = np.concatenate([keys + (i << _WHICH_SHIFT) for i, (keys, _) in enumerate(flats)])
        until = np.concatenate([upto for _, upto in flats])
        result = np.zeros(numbers.size, bool)
        for key in keys if have.size else ():
            wanted = key + (which << _WHICH_SHIFT)
            place = np.minimum(np.searchsorted(have, wanted), have.size - 1)
            result |= (have[place] == wanted) & (events <= until[place])
        return result
