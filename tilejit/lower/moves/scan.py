"""Scans by a function, which is associative but needn't be commutative.

The digits of an element's index along the axis are handled one at a time, fastest first, as in `fold`. Each level
combines the totals of the blocks that its digit counts, and yields the *prefix* of each: the combination of the
preceding blocks of the same larger block. Afterwards, from the slowest level to the fastest, prefixes are combined with
those of the larger blocks, and at last with the elements. A row of 1024 over 128 threads with 2 times 4 elements:

    digit           half 2          warp 4             lane 32                 element 4
    level           4th             3rd                2nd                     1st
    totals          -               3 · 2 combined     5 · 2 combined          3 · 2 combined
    exchange        -               1 barrier          5 · 2 shuffles          -

    registers   a running combination in each thread
    lanes       bit by bit, by ascending weight: two lanes exchange totals, and both combine them
    members     through shared memory: every thread reads all totals and combines them one after the other; if all
                lanes need the same ones, each reads one, and they combine them as the totals of lanes

In a reverse scan, later elements precede earlier ones. Padding follows all elements, so only a reverse scan begins
with it, and skips blocks without elements. Layouts alone determine which values are combined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...dataclass import dataclass, lean
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import FALSE, TRUE, Expr, Region, TileOp
from ...ops.fold import EXCLUSIVE, INITIAL, REVERSE, SCAN
from ...ops.reduce import axes_of
from ...target import WARP as LANES
from ..schedule.placement import need_all_threads, place
from ..schedule.shares import Gathering, ReducedTiles, unfolded
from ..schedule.views import DigitSchedule, need_same_threads
from .fold import Folding, FoldOrder, FoldSteps, Key, plan_fold, steps_of

#: lanes read one total each only if there are more than this: 4 float32 are one vector to read
_MOST_READ = 4

#: the combination of preceding values, and the condition that any exist; None if none ever do
Prefix = tuple[Any, Expr] | None


@lean(frozen=True, slots=False)
class ScanOrder(FoldOrder):
    """The digits along the axis of a scan. Each weight in `weights` is 1 for the axis, else 0."""

    is_reverse: bool = False
    is_exclusive: bool = False

    @staticmethod
    def of_scan(op: TileOp, threads: int, pairs: Sequence[tuple[str, str]]) -> ScanOrder:
        """Return the order, or raise LayoutError if the layouts of the tiles differ or don't fit the scope."""
        regions: dict[str, Region] = {}
        for name in [name for pair in pairs for name in pair]:
            regions[name], (axis,) = unfolded(op.region(name), axes_of(dict(op.attrs), len(op.region(name).shape)))
        placed = {name: place(region, op.scope) for name, region in regions.items()}
        tiles = DigitSchedule.of_same_shape(placed)
        for name, placement in placed.items():
            need_all_threads(placement, op.scope, threads)
            need_same_threads(tiles, "src", name)
            need_same_threads(tiles, name, "src")
        if tiles.folded:
            raise LayoutError("the tiles of the scan split a dimension over registers in incompatible ways")
        weights = tuple([int(d == axis) for d, n in enumerate(regions["src"].shape) if n != 1])
        flags = [bool(op.attr(each.name)) for each in (REVERSE, EXCLUSIVE)]
        initial = tuple([name for name in INITIAL if op.operand(name) is not None])
        steps = steps_of(ReducedTiles(tiles, weights), threads)
        return ScanOrder(tiles, weights, steps, initial, *flags)

    @property
    def operation(self) -> str:
        return SCAN.name

    def applied(self, values: Mapping[Key, Any], steps: FoldSteps) -> Mapping[Key, Any]:
        """Return the result for each slot."""
        levels: list[Mapping[Key, Prefix]] = []
        totals, done = values, 0
        while done < len(self.steps):
            step, end = self.steps[done], done + 1
            while not (step.is_lane or step.digit) and end < len(self.steps) and self._is_shared(end):
                end += 1
            if step.digit is not None:
                before, upto, totals = self._over_registers(totals, steps, done)
                if not done and not self.is_exclusive:
                    # the elements of a run are combined already
                    before, values = dict.fromkeys(before), upto
            elif step.is_lane:
                before, totals = self._over_lanes(totals, steps, done)
            else:
                before, totals = self._over_members(totals, steps, done, end)
            if levels and levels[-1].keys() == before.keys():
                # joining them now takes fewer registers
                levels.append({key: _joined(steps, each, levels[-1][key]) for key, each in before.items()})
                del levels[-2]
            else:
                levels.append(before)
            done = end
        carried: Mapping[Key, Prefix] = {(): (steps.initial(), TRUE) if self.initial else None}
        for level in reversed(levels):
            length = len(next(iter(carried)))
            carried = {key: _joined(steps, carried[key[:length]], each) for key, each in level.items()}
        if self.is_exclusive:
            return {key: prefix[0] for key, prefix in carried.items() if prefix is not None}
        return {key: _after(steps, carried[key], value) for key, value in values.items()}

    def _is_shared(self, done: int) -> bool:
        return self.steps[done].digit is None and not self.steps[done].is_lane

    def _over_registers(
        self, totals: Mapping[Key, Any], steps: FoldSteps, done: int
    ) -> tuple[dict[Key, Prefix], dict[Key, Any], dict[Key, Any]]:
        """Return the prefix of each block, its combination with the block, and the totals of the larger blocks."""
        before: dict[Key, Prefix] = dict.fromkeys(totals)
        upto: dict[Key, Any] = {}
        whole: dict[Key, Any] = {}
        for key in dict.fromkeys([key[:-1] for key in totals]):
            running: Prefix = None
            order = self._in_order(self.steps[done].extent)
            for k in order:
                each = (*key, k)
                before[each] = running
                is_total = k == order[-1] and (done > 0 or self.is_exclusive)
                upto[each] = self._total(steps, running, totals[each], done + 1 if is_total else 0)
                running = upto[each], self._exists(each, done, steps.thread)
                whole[key] = upto[each]
        return before, upto, whole

    def _over_lanes(
        self, totals: Mapping[Key, Any], steps: FoldSteps, done: int
    ) -> tuple[dict[Key, Prefix], dict[Key, Any]]:
        step = self.steps[done]
        assert step.threads is not None
        exist = [self._exists(key, done + 1, steps.thread, step.weight) for key in totals]
        upper = step.threads.of_thread(steps.thread)
        before, whole = self._paired(list(totals.values()), steps, step.threads.threads, upper, exist, done + 1)
        return dict(zip(totals, before, strict=True)), dict(zip(totals, whole, strict=True))

    def _paired(
        self, totals: Sequence[Any], steps: FoldSteps, distance: int, upper: Expr, exist: Sequence[Expr], done: int
    ) -> tuple[list[Prefix], list[Any]]:
        """Return the prefixes and the totals of pairs of lanes. upper: 1 in the higher lane of a pair, 0 in the lower.

        exist: for each total, the condition that the first lane's exists. done: as for `_total`.
        """
        is_second = build.equal(upper, 0 if self.is_reverse else 1)
        pairs = [pair[:: self._step] for pair in steps.across(totals, distance)]
        before = [(pair[0], build.logical_and(is_second, each)) for pair, each in zip(pairs, exist, strict=True)]
        whole = [
            self._total(steps, (first, each), second, done)
            for (first, second), each in zip(pairs, exist, strict=True)
        ]
        return [*before], whole

    def _over_members(
        self, totals: Mapping[Key, Any], steps: FoldSteps, done: int, end: int
    ) -> tuple[dict[Key, Prefix], dict[Key, Any]]:
        gathering = self.gathering(done, end, steps.thread)
        if self._has_lanes(done, gathering.members):
            return self._over_members_by_lanes(totals, steps, gathering, end)
        weight, order = self.steps[done].weight, self._in_order(gathering.members)
        before: dict[Key, Prefix] = {}
        whole: dict[Key, Any] = {}
        is_first = build.equal(gathering.member, order[0])
        for key, members in zip(totals, steps.gathered(list(totals.values()), gathering), strict=True):
            prefix: Any = None
            running = members[order[0]]
            for last, k in zip(order, order[1:], strict=False):
                prefix = running if prefix is None else steps.chosen(build.equal(gathering.member, k), running, prefix)
                exists = self._exists(key, end, steps.thread, last * weight)
                is_last = k == order[-1]
                running = self._total(steps, (running, exists), members[k], end if is_last else 0)
            exists = self._exists(key, done, steps.thread, weight)
            before[key] = prefix, build.logical_and(build.logical_not(is_first), exists)
            whole[key] = running
        return before, whole

    def _has_lanes(self, done: int, members: int) -> bool:
        """True if each lane of a warp can read one of several totals, which all lanes need, and shuffles combine them.

        In a reverse scan with padding, totals may have no elements; conditions on lanes don't express that.
        """
        is_warp = 1 << sum(step.is_lane for step in self.steps[:done]) == LANES
        is_padded = self.is_reverse and any(self.weights[dim] for dim in self.tiles.padded)
        return is_warp and not is_padded and _MOST_READ < members <= LANES and not members & (members - 1)

    def _over_members_by_lanes(
        self, totals: Mapping[Key, Any], steps: FoldSteps, gathering: Gathering, end: int
    ) -> tuple[dict[Key, Prefix], dict[Key, Any]]:
        lane, exist = build.mod(steps.thread, LANES), [TRUE] * len(totals)
        own = [total for (total,) in steps.gathered(list(totals.values()), gathering, lane)]
        prefixes: list[Prefix] = [None] * len(totals)
        for bit in range(gathering.members.bit_length() - 1):
            is_last = 2 << bit == gathering.members
            upper = build.mod(build.floordiv(lane, 1 << bit), 2)
            before, own = self._paired(own, steps, 1 << bit, upper, exist, end if is_last else 0)
            prefixes = [_joined(steps, outer, inner) for outer, inner in zip(before, prefixes, strict=True)]
        values = steps.fetched([prefix[0] for prefix in prefixes if prefix is not None], gathering.member)
        first = gathering.members - 1 if self.is_reverse else 0
        exists = build.not_equal(gathering.member, first)
        made: dict[Key, Prefix] = {key: (value, exists) for key, value in zip(totals, values, strict=True)}
        return made, dict(zip(totals, own, strict=True))

    def _total(self, steps: FoldSteps, first: Prefix, second: Any, done: int) -> Any:
        """Combine two totals; return any value if no step follows the first `done` ones, so none needs the result."""
        return second if done == len(self.steps) else _after(steps, first, second)

    @property
    def _step(self) -> int:
        return -1 if self.is_reverse else 1

    def _in_order(self, extent: int) -> Sequence[int]:
        return range(extent)[:: self._step]

    def _exists(self, key: Key, done: int, thread: Expr, further: int = 0) -> Expr:
        """Return the condition that a block has elements, not only padding; always true if it precedes any element.

        Its first index is that of block `key` of level `done`, with the thread's contribution, plus `further`.
        """
        if not self.is_reverse:
            return TRUE
        at = self.at(key, done)
        return self.counts({dim: start + further for dim, start in at.items()}, done, thread)


def _after(steps: FoldSteps, prefix: Prefix, value: Any) -> Any:
    """Return a value combined with its prefix, if there is one. The value exists if the prefix does."""
    if prefix is None or prefix[1] == FALSE:
        return value
    return steps.chosen(prefix[1], steps.combined(prefix[0], value, TRUE), value)


def _joined(steps: FoldSteps, outer: Prefix, inner: Prefix) -> Prefix:
    """Return the combination of two prefixes, either of which may exist."""
    if outer is None or inner is None or inner[1] == FALSE:
        return outer if inner is None or inner[1] == FALSE else inner
    return steps.chosen(inner[1], _after(steps, outer, inner[0]), outer[0]), build.logical_or(outer[1], inner[1])


@dataclass(frozen=True, slots=True)
class Scanning(Folding):
    """The plan of a scan."""

    order: ScanOrder

    def schedule(self) -> np.ndarray:
        """Return one row per element of a thread: (its register in the first destination, in the first source)."""
        reach = [[self.order.register(name, slot) for name in ("dst", "src")] for slot in self.order.slots]
        results = np.column_stack([self.registers(name) for name in ("dst", "src")])
        table: np.ndarray = (np.array(reach)[:, None] + results).reshape(-1, 2)
        return table


#: Plan a scan, or raise LayoutError, e.g. if the layouts of the tiles differ.
plan_scan = partial(plan_fold, made=Scanning, order=ScanOrder.of_scan)
