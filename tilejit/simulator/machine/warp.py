"""Warp-level instructions: shuffles, votes, matches and reductions across the lanes of each warp."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DivergenceError
from ...fast_unique import fast_unique
from ..checks.places import PtxPlaces
from ..numerics.integer import PerThread
from .lanes import WARP, WARPGROUP, Index, Lanes

WarpRows = NDArray[Any]
_BITS = np.uint64(1) << np.arange(WARP, dtype=np.uint64)


def _masks(bits: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """One 32-bit mask per row of 32 zeros and ones."""
    result: NDArray[np.uint32] = (bits @ _BITS).astype(np.uint32)
    return result


class NotTogether(Exception):
    """Lanes that must execute an instruction together haven't all arrived; the machine tries again later.

    together: those executing threads that have all they need.
    """

    def __init__(self, together: Index | None = None) -> None:
        super().__init__()
        self.together: Index = np.zeros(0, np.int64) if together is None else together


class Warps:
    """Lays the executing threads out as a table of warps × 32 lanes.

    alive: of the chunk's threads, which have not exited.
    leader: of each warp of the chunk, the lane that `elect` prefers.
    failed: who missed a warp instruction last: (a thread of the warp, mask of the lanes).
    """

    def __init__(self, lanes: Lanes, alive: NDArray[np.bool_], places: PtxPlaces, seed: int) -> None:
        """seed: of the schedule; which lane of a warp is elected depends on it."""
        self.lanes = lanes
        self.alive = alive
        self.places = places
        self.count = lanes.ctas * lanes.warps_per_cta
        self.exact = lanes.threads % WARP == 0
        self.leader = np.zeros(self.count, np.uint32)
        if seed:
            leaders = np.random.default_rng(seed).integers(WARP, size=lanes.warps_per_cta)
            self.leader = np.tile(leaders, lanes.ctas).astype(np.uint32)
        self.failed: tuple[int, int] | None = None

    def slots(self) -> NDArray[np.int64]:
        """Each executing thread's place in the table."""
        result: NDArray[np.int64] = self.lanes.get("chunk_warp") * WARP + self.lanes.get("lane")
        return result

    def table(self, value: PerThread, fill: Any = 0) -> WarpRows:
        """A value per thread as warps × lanes; lanes that don't execute hold `fill`."""
        if self.lanes.group is None and self.exact and np.ndim(value):
            return np.ascontiguousarray(value).reshape(self.count, WARP)
        dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
        out = np.full(self.count * WARP, fill, dtype)
        out[self.slots()] = value
        return out.reshape(self.count, WARP)

    def flat(self, table: WarpRows) -> PerThread:
        """The executing threads' elements of a table."""
        if self.lanes.group is None and self.exact:
            return table.reshape(-1)
        return table.reshape(-1)[self.slots()]

    def spread(self, per_warp: WarpRows) -> PerThread:
        """One value per warp, given to each executing thread."""
        return per_warp[self.lanes.get("chunk_warp")]

    def active(self) -> NDArray[np.uint32]:
        """The mask of executing lanes, per warp of the chunk."""
        if self.lanes.group is None and self.exact:
            return np.full(self.count, 0xFFFFFFFF, np.uint32)
        bits = np.zeros(self.count * WARP, np.uint64)
        bits[self.slots()] = 1
        return _masks(bits.reshape(self.count, WARP))

    def living(self) -> NDArray[np.uint32]:
        """The mask of lanes that have not exited, per warp of the chunk."""
        full = self.lanes.full
        bits = np.zeros(self.count * WARP, np.uint64)
        bits[full["chunk_warp"] * WARP + full["lane"]] = self.alive
        return _masks(bits.reshape(self.count, WARP))

    def require(self, mask: PerThread, pc: int) -> PerThread:
        """Check that every living lane in `mask` executes this instruction with the caller in its own mask.

        returns: the masks per executing thread.
        """
        masks = np.broadcast_to(mask, (self.lanes.n,))
        lane = self.lanes.get("lane")
        outside = np.flatnonzero(((masks >> lane.astype(np.uint32)) & np.uint32(1)) == 0)
        if outside.size:
            at = self.lanes.positions()[outside[0]]
            raise DivergenceError(
                f"{self.lanes.describe_position(int(at))} executes a warp instruction with member mask "
                f"{int(masks[outside[0]]):#010x}, which leaves it out\n  {self.places.describe(pc)}",
                instructions=(pc,), threads=self.lanes.numbers(self.lanes.positions()[outside]),
            )
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
        """Check that all 32 lanes of every executing warp are here, as an .aligned instruction needs them."""
        if self.lanes.whole_warps():
            return
        active = self.active()
        warp = int(np.flatnonzero((active != 0) & (active != np.uint32(0xFFFFFFFF)))[0])
        missing = 0xFFFFFFFF & ~int(active[warp])
        late = missing & int(self.living()[warp])
        positions = self.lanes.positions()
        at = int(positions[self.lanes.get("chunk_warp") == warp][0])
        if late:
            self.failed = (at, late)
            raise NotTogether
        lanes = ", ".join(str(i) for i in range(WARP) if missing >> i & 1)
        raise DivergenceError(
            f"{self.lanes.describe_position(at)} executes an instruction that all 32 lanes of a warp must execute "
            f"together, but lanes {lanes} have exited or don't exist\n  {self.places.describe(pc)}",
            instructions=(pc,), threads=self.lanes.numbers(positions[self.lanes.get("chunk_warp") == warp]),
        )

    def shfl(self, mode: str, value: PerThread, b: PerThread, c: PerThread) -> tuple[PerThread, PerThread]:
        """shfl: (the source lane's value, whether the source lane was in range).

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

    def vote(self, mode: str, predicate: PerThread, masks: PerThread) -> PerThread:
        table = self.table(np.broadcast_to(predicate, (self.lanes.n,)), False)
        ballots = self.spread((table.astype(np.uint64) @ _BITS).astype(np.uint32))
        living = self.spread(self.active())
        members = masks & living
        votes = ballots & members
        if mode == "ballot":
            return votes
        if mode == "any":
            return votes != 0
        if mode == "all":
            return votes == members
        return (votes == 0) | (votes == members)

    def match(self, mode: str, value: PerThread, masks: PerThread) -> tuple[PerThread, PerThread]:
        table = self.table(np.broadcast_to(value, (self.lanes.n,)))
        same = table[:, :, None] == table[:, None, :]
        ballots = (same.astype(np.uint64) @ _BITS).astype(np.uint32)
        members = masks & self.spread(self.active())
        equal = self.flat(ballots) & members
        if mode == "any":
            return equal, equal != 0
        whole = equal == members
        return np.where(whole, members, np.uint32(0)), whole

    def redux(self, op: str, value: PerThread, masks: PerThread) -> PerThread:
        """Reduce over each thread's member mask; all threads of a mask hold the same one."""
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

    def elect(self, masks: PerThread) -> tuple[PerThread, PerThread]:
        """The first member lane from the warp's preferred one on is the leader, each time."""
        members = (masks & self.spread(self.active())).astype(np.uint64)
        start = self.spread(self.leader).astype(np.uint64)
        turned = (members >> start | members << (np.uint64(WARP) - start)) & np.uint64(0xFFFFFFFF)
        lowest = turned & (~turned + np.uint64(1))
        leader = ((np.log2(lowest.astype(np.float64)).astype(np.uint64) + start) % np.uint64(WARP)).astype(np.uint32)
        return leader, leader == self.lanes.get("lane").astype(np.uint32)

    def whole_groups(self, pc: int) -> None:
        """Check that all 128 threads of every executing warpgroup are here."""
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
            at = int(lanes.positions()[0])
            fate = f"but {lanes.party(gone)} exited" if gone.size else f"but the CTA has {lanes.threads} threads"
            raise DivergenceError(
                f"{lanes.describe_position(at)} executes an instruction that all 128 threads of a warpgroup must "
                f"execute together, {fate}\n  {self.places.describe(pc)}",
                instructions=(pc,), threads=lanes.numbers(lanes.positions()),
            )
