"""The order in which groups of threads run, and the detection of groups that make no progress.

A loop can't end if a group returns to an earlier state that no other group can change. A group's state consists of the
registers that determine its loop's control flow (`decode/control_flow.py`). Most states include a counter, so comparing
one register usually shows that the state has changed. From iteration 1024 on, the registers are compared with the last
saved ones, and saved whenever the number of iterations has doubled. This finds cycles of any length, at the cost of one
comparison per iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

import numpy as np

from ...dataclass import dataclass
from ...fast_unique import fast_unique
from .lanes import WARPGROUP, Index, Lanes

Groups = dict[int, Index | None]
FIRST_LOOK = 1024
COMPARED_RETRIES = 64

# (loop header, group) → [(slot, value for the group's threads)] of the registers that determine the loop's control flow
Deciding = Callable[[int, Index | None], list[tuple[int, Any]]]


class Schedule:
    """Chooses the next ready group.

    seed: 0 runs the whole group at the lowest block, so that threads reconverge after a branch. Other seeds run a
    random group, and often only some of its warps: each seed selects a legal order.
    together: blocks at which warpgroups aren't split.
    """

    def __init__(self, seed: int, lanes: Lanes, together: Set[int]) -> None:
        self.together = together
        self.random = np.random.default_rng(seed) if seed else None
        self.lanes = lanes

    def take(self, ready: Groups) -> tuple[int, Index | None]:
        if self.random is None:
            number = min(ready) if len(ready) > 1 else next(iter(ready))
            return number, ready.pop(number)
        number = int(self.random.choice(sorted(ready)))
        group = ready.pop(number)
        positions = self.lanes.members(group)
        warp = self.lanes.full["chunk_warp"][positions]
        if number in self.together:
            per_cta = -(-self.lanes.threads // WARPGROUP)
            inside = self.lanes.full["thread"][positions] // WARPGROUP
            warp = self.lanes.full["chunk_cta"][positions] * per_cta + inside
        warps = fast_unique(warp)
        if warps.size == 1 or self.random.random() < 0.5:
            return number, group
        chosen = np.isin(warp, warps[self.random.random(warps.size) < 0.5])
        if chosen.all() or not chosen.any():
            return number, group
        ready[number] = positions[~chosen]
        return number, positions[chosen]

    def wakes(self) -> bool:
        """Return True if parked and held groups should retry while others are ready: at random, never for seed 0."""
        return self.random is not None and bool(self.random.random() < 0.1)


@dataclass(slots=True)
class Kept:
    """Saved registers of a group at a loop header. differs: the index in `values` of the latest difference."""

    iteration: int
    group: Index | None
    values: list[tuple[int, Any]]
    differs: int = 0


class Loops:
    """The numbers of iterations of a chunk's loops, and the registers saved in these loops."""

    def __init__(self) -> None:
        self.iterations: dict[int, int] = {}
        self.kept: dict[tuple[int, int, int], Kept] = {}

    def repeats(self, head: int, group: Index | None, endless: bool, deciding: Deciding) -> bool:
        """Return True if a group returns to `head` with the saved registers or, if `endless`, from iteration 1024 on.

        deciding: a parameter, because an attribute would create a reference cycle with the machine.
        """
        iteration = self.iterations.get(head, 0) + 1
        self.iterations[head] = iteration
        if iteration < FIRST_LOOK:
            return False
        if endless:
            return True
        key = (head, -1, 0) if group is None else (head, int(group[0]), group.size)
        kept = self.kept.get(key)
        if kept is not None and iteration < 2 * kept.iteration:
            return self.same(kept, group, deciding(head, group))
        self.kept[key] = Kept(iteration, group, [(slot, np.copy(value)) for slot, value in deciding(head, group)])
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
    # a NaN counts as equal to itself, and a float scalar `b` as equal to an array of that value
    return bool(a.dtype.kind == "f") and np.broadcast_to(b, np.shape(a)).tobytes() == a.tobytes()


class Standstill:
    """Detects that waiting groups return to an earlier state."""

    def __init__(self) -> None:
        self.changes = -1
        self.retries = 0
        self.state: Any = None

    def reached(self, changes: int, state: Callable[[], Any]) -> bool:
        """Return True if the state equals that of an earlier retry and `changes` has not increased since.

        The state is saved at retries 1, 2, 4, …, and compared at up to 64 retries after each, so long polling is cheap.
        changes: a counter of changes. state: returns the groups' state, or None if it can't be compared.
        """
        if changes != self.changes:
            self.changes, self.retries = changes, 0
            return False
        self.retries += 1
        kept_at = 1 << (self.retries.bit_length() - 1)
        if self.retries == kept_at:
            self.state = state()
            return False
        return self.retries <= kept_at + COMPARED_RETRIES and self.state is not None and bool(state() == self.state)
