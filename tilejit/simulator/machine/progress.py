"""Loops that can't end: groups that come back to a state in which they have been, and nobody else can change it.

Most loops count something, so one register tells a turn from all turns before. A group's registers are kept at turns
1024, 2048, 4096, …, and each turn is compared with what was kept last: a cycle of any length is seen at last, for the
price of one comparison a turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .access import Access
from .lanes import Index

FIRST_LOOK = 1024

# (register's slot, its value for a group's threads), for all registers live into a block
Live = Callable[[int, Index | None], list[tuple[int, Any]]]


@dataclass(slots=True)
class Kept:
    """A group's registers at the head of a loop. differs: the register that told the last turn from this one."""

    turn: int
    group: Index | None
    values: list[tuple[int, Any]]
    changes: int
    differs: int = 0


class Loops:
    """The turns of all loops of a chunk, by the block at their head."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.turns: dict[int, int] = {}
        self.kept: dict[tuple[int, int, int], Kept] = {}

    def repeats(self, head: int, group: Index | None, live: Live) -> bool:
        """Whether a group that goes back to `head` has been there with the same registers and the same memory.

        live: tells the registers. It is asked here and not kept, as its owner keeps these loops.
        """
        turn = self.turns.get(head, 0) + 1
        self.turns[head] = turn
        if turn < FIRST_LOOK:
            return False
        key = (head, -1, 0) if group is None else (head, int(group[0]), group.size)
        kept = self.kept.get(key)
        if kept is None or turn >= 2 * kept.turn:
            self.keep(key, turn, group, live)
            return False
        if not self.same(kept, group, live(head, group)):
            return False
        if self.access.exact and kept.changes == self.access.changes:
            return True
        # The registers are the same; from now on count only stores that change something.
        self.access.exact = True
        self.keep(key, turn, group, live)
        return False

    def keep(self, key: tuple[int, int, int], turn: int, group: Index | None, live: Live) -> None:
        values = [(slot, np.copy(value)) for slot, value in live(key[0], group)]
        self.kept[key] = Kept(turn, group, values, self.access.changes)

    def same(self, kept: Kept, group: Index | None, now: list[tuple[int, Any]]) -> bool:
        if group is not kept.group and (group is None or kept.group is None or not np.array_equal(group, kept.group)):
            return False
        if len(now) != len(kept.values):
            return False
        order = [kept.differs, *range(len(now))] if kept.differs < len(now) else range(len(now))
        for i in order:
            if not same_bits(kept.values[i][1], now[i][1]):
                kept.differs = i
                return False
        return True


def same_bits(a: Any, b: Any) -> bool:
    if a is b or np.array_equal(a, b):
        return True
    # one value for all threads may stand as an array of equal ones; NaN equals itself
    return bool(a.dtype.kind == "f") and np.broadcast_to(b, np.shape(a)).tobytes() == a.tobytes()


class Rounds:
    """Whether the groups that wait for others have got anywhere since they were last tried."""

    def __init__(self) -> None:
        self.last: tuple[Any, ...] = ()

    def stuck(self, progress: tuple[int, ...], state: Callable[[], Any]) -> bool:
        """Whether a whole round changed neither memory nor a register that the waiting loops still use.

        progress: numbers that grow when something happens; state: what the waiting groups hold, if it must be asked.
        """
        if not self.last or self.last[0] != progress:
            self.last = (progress,)
            return False
        now = (progress, state())
        if now == self.last:
            return True
        self.last = now
        return False
