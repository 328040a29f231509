"""Warp-level instructions (shuffles, votes, matches, reductions, elections), and checks that lanes act together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DivergenceError
from ...fast_unique import fast_unique
from ..checks.order import HappensBefore
from ..numerics.floats import from_sort_keys, sort_keys
from ..numerics.integer import PerThread
from .access import Access
from .lanes import WARP, WARPGROUP, Index

WarpRows = NDArray[Any]
_BITS = np.uint64(1) << np.arange(WARP, dtype=np.uint64)


def _masks(bits: NDArray[np.uint64]) -> NDArray[np.uint32]:
    result: NDArray[np.uint32] = (bits @ _BITS).astype(np.uint32)
    return result


class NotTogether(Exception):
    """Raised if executing threads must wait for other threads. together: positions of those that need not wait."""

    def __init__(self, together: Index | None = None) -> None:
        super().__init__()
        self.together: Index = np.zeros(0, np.int64) if together is None else together


class Warps:
    """Warp-level instructions of the executing threads, which form a table of warps × 32 lanes.

    alive: a mask of the chunk's threads that have not exited.
    leader: the lane that `elect` prefers in each warp of the chunk.
    failed: the position of a thread, and the mask of the lanes missing from its warp, at the last NotTogether.
    """

    def __init__(self, access: Access, alive: NDArray[np.bool_], seed: int) -> None:
        """seed: the schedule's seed, which determines the preferred lanes; with seed 0, they are all lane 0."""
        self.access = access
        self.lanes = lanes = access.lanes
        self.alive = alive
        self.count = lanes.ctas * lanes.warps_per_cta
        self.exact = lanes.threads % WARP == 0
        self.leader = np.zeros(self.count, np.uint32)
        if seed:
            leaders = np.random.default_rng(seed).integers(WARP, size=lanes.warps_per_cta)
            self.leader = np.tile(leaders, lanes.ctas).astype(np.uint32)
        self.failed: tuple[int, int] | None = None

    def slots(self) -> NDArray[np.int64]:
        result: NDArray[np.int64] = self.lanes.get("chunk_warp") * WARP + self.lanes.get("lane")
        return result

    def table(self, value: PerThread, fill: Any = 0) -> WarpRows:
        """Return a table, warps × lanes, of a value per thread, with `fill` for lanes that aren't executing."""
        if self.lanes.group is None and self.exact and np.ndim(value):
            return np.ascontiguousarray(value).reshape(self.count, WARP)
        dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
        out = np.full(self.count * WARP, fill, dtype)
        out[self.slots()] = value
        return out.reshape(self.count, WARP)

    def flat(self, table: WarpRows) -> PerThread:
        if self.lanes.group is None and self.exact:
            return table.reshape(-1)
        return table.reshape(-1)[self.slots()]

    def spread(self, per_warp: WarpRows) -> PerThread:
        return per_warp[self.lanes.get("chunk_warp")]

    def active(self) -> NDArray[np.uint32]:
        """Return the mask of the executing lanes of each warp of the chunk."""
        if self.lanes.group is None and self.exact:
            return np.full(self.count, 0xFFFFFFFF, np.uint32)
        bits = np.zeros(self.count * WARP, np.uint64)
        bits[self.slots()] = 1
        return _masks(bits.reshape(self.count, WARP))

    def living(self) -> NDArray[np.uint32]:
        """Return, for each warp of the chunk, the mask of the lanes that have not exited."""
        full = self.lanes.full
        bits = np.zeros(self.count * WARP, np.uint64)
        bits[full["chunk_warp"] * WARP + full["lane"]] = self.alive
        return _masks(bits.reshape(self.count, WARP))

    def require(self, mask: PerThread, pc: int) -> PerThread:
        """Return each thread's member mask.

        raises: DivergenceError if a mask excludes its thread; NotTogether if living members aren't executing.
        """
        masks = np.broadcast_to(mask, (self.lanes.n,))
        lane = self.lanes.get("lane")
        outside = np.flatnonzero(((masks >> lane.astype(np.uint32)) & np.uint32(1)) == 0)
        if outside.size:
            what = f"executes a warp instruction with member mask {int(masks[outside[0]]):#010x}, which excludes it"
            raise self.access.error(DivergenceError, self.lanes.positions()[outside], what, pc)
        if self.lanes.group is None:
            return masks
        missing = masks & self.spread(self.living() & ~self.active())
        wrong = np.flatnonzero(missing)
        if wrong.size:
            at = int(wrong[0])
            self.failed = (int(self.lanes.positions()[at]), int(missing[at]))
            raise NotTogether
        return masks

    def whole(self, pc: int) -> None:
        """Raise NotTogether if the first incomplete warp lacks living lanes, DivergenceError if only others."""
        if self.lanes.whole_warps():
            return
        active = self.active()
        warp = int(np.flatnonzero((active != 0) & (active != np.uint32(0xFFFFFFFF)))[0])
        missing = 0xFFFFFFFF & ~int(active[warp])
        late = missing & int(self.living()[warp])
        positions = self.lanes.positions()[self.lanes.get("chunk_warp") == warp]
        if late:
            self.failed = (int(positions[0]), late)
            raise NotTogether
        lanes = ", ".join(str(i) for i in range(WARP) if missing >> i & 1)
        what = "executes an instruction that all 32 lanes of a warp must execute together, although "
        what += f"some have exited or don't exist: {lanes}"
        raise self.access.error(DivergenceError, positions, what, pc)

    def shfl(self, mode: str, value: PerThread, b: PerThread, c: PerThread) -> tuple[PerThread, PerThread]:
        """Return each thread's result, and a mask of the threads whose source lane is in range.

        The result is the source lane's value or, if that lane is out of range, the thread's own.
        source: PTX ISA, "shfl.sync", the pseudocode of the semantics.
        """
        n = self.lanes.n
        lane = self.lanes.get("lane")
        b_lane = (np.broadcast_to(b, (n,)) & np.uint32(31)).astype(np.int64)
        c_wide = np.broadcast_to(c, (n,)).astype(np.int64)
        clamp, segment = c_wide & 31, (c_wide >> 8) & 31
        highest = (lane & segment) | (clamp & ~segment)
        lowest = lane & segment
        if mode == "up":
            source, valid = lane - b_lane, lane - b_lane >= highest
        elif mode == "down":
            source, valid = lane + b_lane, lane + b_lane <= highest
        elif mode == "bfly":
            source, valid = lane ^ b_lane, (lane ^ b_lane) <= highest
        else:
            source = lowest | (b_lane & ~segment)
            valid = source <= highest
        source = np.where(valid, source, lane)
        table = self.table(value).reshape(-1)
        return table[self.lanes.get("chunk_warp") * WARP + source], valid

    def members(self, mask: PerThread | None, pc: int) -> PerThread:
        """Return each thread's member mask, after checking it. Unless checks are strict, order the members' accesses.

        mask: None (no .sync) for the active lanes, which are neither checked nor ordered.
        """
        if mask is None:
            return self.spread(self.active())
        masks = self.require(mask, pc)
        order = self.access.order
        if order is not None and order.collectives_order:
            self.synchronize(order, mask, masks)
        return masks

    def synchronize(self, order: HappensBefore, mask: PerThread, masks: PerThread) -> None:
        positions = self.lanes.positions()
        if not np.ndim(mask) and int(mask) == 0xFFFFFFFF:
            order.warp_barrier(positions)
            return
        living = self.spread(self.living())
        whole = (masks & living) == living
        if np.count_nonzero(whole):
            order.warp_barrier(positions[whole])
        part = np.flatnonzero(~whole)
        if part.size:
            warp = self.lanes.get("chunk_warp")[part]
            order.lane_barrier(positions[part], warp << 32 | masks[part].astype(np.int64))

    def vote(self, mode: str, predicate: PerThread, mask: PerThread | None, pc: int) -> PerThread:
        masks = self.members(mask, pc)
        table = self.table(np.broadcast_to(predicate, (self.lanes.n,)), False)
        ballots = self.spread(_masks(table.astype(np.uint64)))
        members = masks & self.spread(self.active())
        votes = ballots & members
        if mode == "ballot":
            return votes
        if mode == "any":
            return votes != 0
        if mode == "all":
            return votes == members
        return (votes == 0) | (votes == members)

    def match(self, mode: str, value: PerThread, mask: PerThread, pc: int) -> tuple[PerThread, PerThread]:
        masks = self.members(mask, pc)
        table = self.table(np.broadcast_to(value, (self.lanes.n,)))
        same = table[:, :, None] == table[:, None, :]
        ballots = _masks(same.astype(np.uint64))
        members = masks & self.spread(self.active())
        equal = self.flat(ballots) & members
        if mode == "any":
            return equal, equal != 0
        whole = equal == members
        return np.where(whole, members, np.uint32(0)), whole

    def redux(self, op: str, value: PerThread, mask: PerThread, pc: int, nan: bool) -> PerThread:
        """Reduce over the members of each thread's mask; all members must have the same mask. nan: with .NaN."""
        masks = self.members(mask, pc)
        if value.dtype.kind == "f":
            # without .NaN, numbers take precedence over NaN, which then sorts last for min and first for max
            keys = sort_keys(value, nan_is_largest=(op == "min") != nan)
            return from_sort_keys(self.reduced(op, keys, masks))
        return self.reduced(op, value, masks)

    def reduced(self, op: str, value: PerThread, masks: PerThread) -> PerThread:
        value = np.broadcast_to(value, (self.lanes.n,))
        ufunc: Any = {
            "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
            "xor": np.bitwise_xor,
        }[op]
        key = (self.lanes.get("chunk_warp").astype(np.uint64) << np.uint64(32)) | masks
        _, group = np.unique(key, return_inverse=True)
        order = np.argsort(group, kind="stable")
        starts = np.flatnonzero(np.diff(group[order], prepend=-1))
        return ufunc.reduceat(value[order], starts).astype(value.dtype)[group]

    def elect(self, mask: PerThread, pc: int) -> tuple[PerThread, PerThread]:
        """Elect the first member from the warp's preferred lane on, cyclically. Return (its lane, mask of leaders).

        This synchronizes the members, but orders none of their memory accesses.
        """
        members = (self.require(mask, pc) & self.spread(self.active())).astype(np.uint64)
        start = self.spread(self.leader).astype(np.uint64)
        rotated = (members >> start | members << (np.uint64(WARP) - start)) & np.uint64(0xFFFFFFFF)
        lowest = rotated & (~rotated + np.uint64(1))
        leader = ((np.log2(lowest.astype(np.float64)).astype(np.uint64) + start) % np.uint64(WARP)).astype(np.uint32)
        return leader, leader == self.lanes.get("lane").astype(np.uint32)

    def whole_groups(self, pc: int) -> None:
        """Raise NotTogether if executing warpgroups lack living threads, DivergenceError if they lack only others."""
        lanes = self.lanes
        if lanes.group is None and lanes.threads % WARPGROUP == 0:
            return
        groups = -(-lanes.threads // WARPGROUP)
        group = lanes.full["chunk_cta"] * groups + lanes.full["thread"] // WARPGROUP
        here = np.zeros(lanes.total, bool)
        here[lanes.positions()] = True
        touched = np.zeros(lanes.ctas * groups, bool)
        touched[group[here]] = True
        missing = touched[group] & ~here
        late: Index = np.flatnonzero(missing & self.alive)
        if late.size:
            warp = lanes.full["chunk_warp"]
            of_warp = late[warp[late] == warp[late[0]]]
            self.failed = (int(late[0]), int(np.bitwise_or.reduce(1 << lanes.full["lane"][of_warp])))
            touched[group[missing]] = False
            raise NotTogether(np.flatnonzero(here & touched[group]))
        gone = np.flatnonzero(missing)
        short = fast_unique(group[lanes.positions()] % groups * WARPGROUP + WARPGROUP > lanes.threads)
        if gone.size or short.any():
            what = "executes an instruction that all 128 threads of a warpgroup must execute together, but "
            what += f"{lanes.party(gone)} exited" if gone.size else f"the CTA has {lanes.threads} threads"
            raise self.access.error(DivergenceError, lanes.positions(), what, pc)
