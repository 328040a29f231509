"""Frontiers: up to which event the accesses of other threads, warps and CTAs have happened, as one thread knows it.

A frontier is a number; what it says never changes. Joining two makes a third, which is worked out when it is asked.

    key     0 | thread        one thread, by its number in the grid, from 1
            WARP_KEY | warp   all threads of a warp
            CTA_KEY | cta     all threads of a CTA

Each key has an event: the accesses of its threads up to that event, this included, have happened.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..machine.lanes import Index

WARP_KEY = 1 << 40
CTA_KEY = 1 << 41
#: the frontier that says nothing
NOTHING = 0


class Frontiers:
    """All frontiers of a launch.

    parts: what each one joins, until it is worked out; flat: its keys, ascending, and their events.
    """

    def __init__(self) -> None:
        empty = np.zeros(0, np.int64)
        self.parts: list[tuple[int, ...]] = [()]
        self.flat: list[tuple[Index, Index] | None] = [(empty, empty)]
        self.joins: dict[tuple[int, int], int] = {}

    def leaf(self, keys: Iterable[int], events: Iterable[int]) -> int:
        """A frontier of these keys, which differ."""
        key, event = np.fromiter(keys, np.int64), np.fromiter(events, np.int64)
        order = np.argsort(key)
        self.parts.append(())
        self.flat.append((key[order], event[order]))
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
        return result

    def reach(self, numbers: Index, keys: tuple[Index, ...], events: Index) -> NDArray[np.bool_]:
        """Whether each frontier of `numbers` includes its event of one of its keys."""
        result = np.zeros(numbers.size, bool)
        for number in np.unique(numbers):
            at = np.flatnonzero(numbers == number)
            have, until = self.flatten(int(number))
            if not have.size:
                continue
            for key in keys:
                place = np.minimum(np.searchsorted(have, key[at]), have.size - 1)
                result[at] |= (have[place] == key[at]) & (events[at] <= until[place])
        return result
