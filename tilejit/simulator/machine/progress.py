"""Loops that can't end: groups that come back to a state in which they have been, and nobody else can change it.

Of a group's state counts what decides how its loop goes on (`decode/courses.py`). Most loops count something that does,
so one register tells a turn from all turns before. A group's registers are kept at turns 1024, 2048, 4096, …, and each
turn is compared with what was kept last: a cycle of any length is seen at last, for the price of one comparison a turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...dataclass import dataclass
from .lanes import Index

FIRST_LOOK = 1024
COMPARED_ROUNDS = 64

# (register's slot, its value for a group's threads), for the registers that decide how the loop at a block goes on
Deciding = Callable[[int, Index | None], list[tuple[int, Any]]]


@dataclass(slots=True)
class Kept:
    """A group's registers at the head of a loop. differs: the register that told the last turn from this one."""

    turn: int
    group: Index | None
    values: list[tuple[int, Any]]
    differs: int = 0


class Loops:
    """The turns of all loops of a chunk, by the block at their head."""

    def __init__(self) -> None:
        self.turns: dict[int, int] = {}
        self.kept: dict[tuple[int, int, int], Kept] = {}

    def repeats(self, head: int, group: Index | None, endless: bool, deciding: Deciding) -> bool:
        """Whether a group that goes back to `head` has been there with the same registers, or often in an endless loop.

        deciding: tells the registers. It is asked here and not kept, as its owner keeps these loops.
        """
        turn = self.turns.get(head, 0) + 1
        self.turns[head] = turn
        if turn < FIRST_LOOK:
            return False
        if endless:
            return True
        key = (head, -1, 0) if group is None else (head, int(group[0]), group.size)
        kept = self.kept.get(key)
        if kept is not None and turn < 2 * kept.turn:
            return self.same(kept, group, deciding(head, group))
        self.kept[key] = Kept(turn, group, [(slot, np.copy(value)) for slot, value in deciding(head, group)])
        return False

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


class Standstill:
    """Whether groups that wait for others come back to a state in which they have been."""

    def __init__(self) -> None:
        self.changes = -1
        self.round = 0
        self.state: Any = None

    def reached(self, changes: int, state: Callable[[], Any]) -> bool:
        """Whether the state is one of an earlier round and nothing has changed since.

        It is kept at rounds 1, 2, 4, …, and compared at the few that follow: a loop that polls for long costs no more.
        changes: a number that grows when something changes. state: tells what the groups hold, if it must be asked;
        None for what can't be compared.
        """
        if changes != self.changes:
            self.changes, self.round = changes, 0
            return False
        self.round += 1
        kept_at = 1 << (self.round.bit_length() - 1)
        if self.round == kept_at:
            self.state = state()
            return False
        return self.round <= kept_at + COMPARED_ROUNDS and self.state is not None and bool(state() == self.state)
