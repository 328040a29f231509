"""Runs a program: groups of threads at blocks, barriers, and what happens when nobody can go on.

The group at the lowest block runs next, and groups that meet become one: so threads come together again behind a
branch. A loop may wait for what other threads do. A group that goes back in such a loop is parked until no other group
can run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...errors import DeadlockError, DivergenceError, SimulationError, UninitializedReadError
from ..checks.places import PtxPlaces
from ..checks.races import Clock
from ..decode.blocks import EXIT
from ..decode.emitter import DTYPES
from ..decode.translate import Program, TranslatedBlock
from .access import Access
from .barriers import Barriers, Released
from .copies import AsyncCopies
from .lanes import WARP, Index, Lanes, thread_coordinate
from .matrix import Matrices
from .tensor_memory import TensorMemory
from .warp import NotTogether, Warps


class Machine:
    """The threads of one chunk; generated code calls its methods as `S`."""

    def __init__(
        self, program: Program, lanes: Lanes, access: Access, clock: Clock | None, places: PtxPlaces, params: bytes,
        printer: Any,
    ) -> None:
        self.program = program
        self.lanes = lanes
        self.access = access
        self.clock = clock
        self.places = places
        self.printer = printer
        self.alive = np.ones(lanes.total, bool)
        self.warps = Warps(lanes, self.alive, places)
        self.matrices = Matrices(lanes, self.warps, access)
        self.copies = AsyncCopies(access, lanes, places)
        self.tmem = TensorMemory(lanes, self.warps, access, clock, places)
        self.barriers = Barriers(lanes, self.alive, clock, places)
        self.registers: list[Any] = list(program.initial)
        self.fill_special(params)
        self.load = access.load
        self.store = access.store
        self.atomic = access.atomic
        self.n = lanes.total
        self.block_lanes = [0] * len(program.blocks)
        self.ready: dict[int, Index | None] = {0: None}
        self.parked: dict[int, Index | None] = {}
        self.held: dict[int, Index] = {}
        self.exits = 0
        self.current = 0
        self.owned: set[int] = set()
        # A partial group keeps its registers while it runs alone; `unwritten` are those that all threads' lack.
        self.kept_group: Index | None = None
        self.kept: dict[int, Any] = {}
        self.unwritten: set[int] = set()
        self.last_round: tuple[Any, ...] = ()
        self.held_progress = (-1, -1, -1)
        self.met: set[int] = set()

    def fill_special(self, params: bytes) -> None:
        """Set special registers and parameters."""
        lanes = self.lanes
        for name, slot in self.program.given:
            if name.startswith("%param:"):
                _, offset, dtype = name.split(":")
                self.registers[slot] = np.frombuffer(params, DTYPES[dtype], 1, int(offset))[0]
            else:
                self.registers[slot] = special_register(name, lanes, self.program)

    def run(self) -> None:
        """Run all threads to their exit."""
        ready = self.ready
        while True:
            if not ready and not self.wake():
                break
            number = min(ready) if len(ready) > 1 else next(iter(ready))
            self.step(number, ready.pop(number))
        if self.clock is not None:
            self.tmem.allocator.check_all_freed()

    def step(self, number: int, group: Index | None) -> None:
        """Run one block for one group and send its threads on."""
        compiled = self.program.blocks[number]
        self.current = number
        self.lanes.select(group)
        self.n = self.lanes.n
        registers = self.registers
        try:
            if group is None:
                self.write_back()
                result = compiled.run(self, *[registers[s] for s in compiled.inputs])
                self.owned.clear()
                for slot, value in zip(compiled.outputs, result[1:], strict=True):
                    registers[slot] = value
            else:
                kept = self.kept_for(group)
                for s in compiled.inputs:
                    if s not in kept:
                        kept[s] = registers[s][group] if registers[s].ndim else registers[s]
                result = compiled.run(self, *[kept[s] for s in compiled.inputs])
                kept.update(zip(compiled.outputs, result[1:], strict=True))
                self.unwritten.update(compiled.outputs)
        except NotTogether:
            self.hold(number, group)
            return
        self.block_lanes[number] += self.n
        self.leave(compiled, group, result[0])

    def kept_for(self, group: Index) -> dict[int, Any]:
        """The registers that a partial group has at hand: what it computed, if no other group ran since."""
        if self.kept_group is not group:
            if self.kept_group is None or not np.array_equal(self.kept_group, group):
                self.write_back()
            self.kept_group = group
        return self.kept

    def write_back(self) -> None:
        """Put what a partial group has computed into the registers of all threads."""
        if self.kept_group is None:
            return
        for slot in self.unwritten:
            self.scatter(slot, self.kept_group, self.kept[slot])
        self.kept_group = None
        self.kept.clear()
        self.unwritten.clear()

    def scatter(self, slot: int, group: Index, value: Any) -> None:
        """Write a partial group's results into a register of all threads."""
        whole = self.registers[slot]
        if slot not in self.owned:
            # Another register may share the array: `mov` and reinterpretation of a whole group don't copy.
            whole = np.full(self.lanes.total, whole) if not whole.ndim else whole.copy()
            self.registers[slot] = whole
            self.owned.add(slot)
        whole[group] = value

    def leave(self, compiled: TranslatedBlock, group: Index | None, extra: Any) -> None:
        block = compiled.block
        if block.kind == "fall":
            self.send(block.index, block.targets[0], group)
        elif block.kind == "branch":
            self.branch(compiled, group, extra)
        elif block.kind == "switch":
            self.switch(compiled, group, extra)
        elif block.kind == "barrier":
            self.arrive(compiled, group, extra)

    def branch(self, compiled: TranslatedBlock, group: Index | None, taken: Any) -> None:
        block = compiled.block
        yes, no = block.targets
        if block.negated:
            yes, no = no, yes
        if not taken.ndim:
            self.send(block.index, yes if taken else no, group)
            return
        count = np.count_nonzero(taken)
        if count == 0 or count == taken.size:
            self.send(block.index, yes if count else no, group)
            return
        positions = np.flatnonzero(taken), np.flatnonzero(~taken)
        for target, at in zip((yes, no), positions, strict=True):
            self.send(block.index, target, at if group is None else group[at])

    def switch(self, compiled: TranslatedBlock, group: Index | None, index: Any) -> None:
        block = compiled.block
        chosen = np.broadcast_to(index, (self.n,))
        positions = self.lanes.positions()
        if (chosen >= len(block.targets)).any():
            at = int(np.flatnonzero(chosen >= len(block.targets))[0])
            raise SimulationError(
                f"{self.lanes.describe_position(int(positions[at]))} branches to entry {int(chosen[at])} of a table "
                f"of {len(block.targets)}\n  {self.places.describe(block.end_pc)}"
            )
        for i in np.unique(chosen):
            at_i = np.flatnonzero(chosen == i)
            whole = at_i.size == self.lanes.total
            self.send(block.index, block.targets[int(i)], None if whole else positions[at_i])

    def send(self, origin: int, target: int, group: Index | None) -> None:
        """Move a group to a block; a group that goes back in a loop that may wait for others is parked."""
        if target == EXIT:
            self.finish(group)
            return
        waits = target <= origin and self.may_spin(target, origin)
        self.merge(self.parked if waits else self.ready, target, group)

    def merge(self, into: dict[int, Index | None], target: int, group: Index | None) -> None:
        if target not in into:
            into[target] = group
            return
        other = into[target]
        if other is None or group is None:
            into[target] = None
            return
        member = np.zeros(self.lanes.total, bool)
        member[other] = True
        member[group] = True
        both = np.flatnonzero(member)
        into[target] = None if both.size == self.lanes.total else both

    def may_spin(self, first: int, last: int) -> bool:
        spins = self.program.spins
        return spins[last + 1] > spins[first]

    def finish(self, group: Index | None) -> None:
        """Threads exit; barriers that waited only for them complete."""
        self.exits += 1
        if group is None:
            self.alive[:] = False
        else:
            self.alive[group] = False
        if self.barriers.waiting:
            self.release(self.barriers.complete())

    def arrive(self, compiled: TranslatedBlock, group: Index | None, request: tuple[Any, ...]) -> None:
        """Threads reach a CTA barrier."""
        block = compiled.block
        released = self.barriers.arrive(block, compiled.result, group, self.lanes.positions(), request)
        if request[0] == "arrive":
            self.send(block.index, block.targets[0], group)
        self.release(released)

    def release(self, released: Sequence[Released]) -> None:
        """Send threads on from a barrier that has completed."""
        for target, positions, result, value in released:
            group = None if positions is None or positions.size == self.lanes.total else positions
            if result is not None:
                self.write_back()
                self.scatter(result[0], np.arange(self.lanes.total) if group is None else group, value)
            self.exits += 1
            if target == EXIT:
                self.finish(group)
            else:
                self.merge(self.ready, target, group)

    def hold(self, number: int, group: Index | None) -> None:
        """A warp instruction misses lanes: wait until others have run."""
        if group is None:
            raise AssertionError("a full group misses no lanes")
        other = self.held.get(number)
        self.held[number] = group if other is None else np.union1d(other, group)

    def wake(self) -> bool:
        """Nothing is ready: retry held and parked groups. False when all threads have exited."""
        if not (self.held or self.parked or self.barriers.waiting):
            return False
        progress = (self.access.stores, self.exits)
        if self.held and self.parked:
            self.unpark()
        elif self.parked:
            self.check_progress(progress)
            self.unpark()
        elif self.held:
            self.retry_held(progress)
        else:
            self.barriers.report(self.describe_others())
        return True

    def check_progress(self, progress: tuple[int, int]) -> None:
        """Deadlock: a whole round changed neither memory nor a register that the waiting loops still use."""
        if not self.last_round or self.last_round[0] != progress:
            self.last_round = (progress,)
            return
        now = (progress, {b: self.fingerprint(b, g) for b, g in self.parked.items()})
        if now == self.last_round:
            self.report_deadlock()
        self.last_round = now

    def fingerprint(self, number: int, group: Index | None) -> int:
        """A hash of a group's threads and of the registers live into its block."""
        self.write_back()
        live = self.program.live[number]
        values = [r if group is None or not r.ndim else r[group] for i, r in enumerate(self.registers) if live >> i & 1]
        return hash((None if group is None else group.tobytes(), *(v.tobytes() for v in values)))

    def unpark(self) -> None:
        for number, group in self.parked.items():
            self.merge(self.ready, number, group)
        self.parked.clear()
        for number, waiting in self.held.items():
            self.merge(self.ready, number, waiting)
        self.held.clear()

    def retry_held(self, progress: tuple[int, int]) -> None:
        """Let warp barriers at different places meet, else report who is missing."""
        state = (*progress, sum(g.size for g in self.held.values()))
        if state == self.held_progress:
            barriers = {b for b in self.held if self.is_warp_barrier(b)}
            lanes = np.zeros(self.lanes.total, bool)
            for number in barriers:
                lanes[self.held[number]] = True
            warp = self.lanes.full["chunk_warp"]
            touched = np.isin(warp, warp[lanes])
            if not barriers or (touched & self.alive & ~lanes).any():
                self.report_missing()
            self.met = barriers
        self.held_progress = state
        self.unpark()

    def is_warp_barrier(self, number: int) -> bool:
        block = self.program.blocks[number].block
        return self.program.function.body[block.pcs[0]].root in ("bar", "barrier")

    def report_missing(self) -> NoReturn:
        """A warp instruction that some of its lanes never reach."""
        lines = []
        for number, group in self.held.items():
            who = self.lanes.describe_position(int(group[0]))
            more = f" and {group.size - 1} more" if group.size > 1 else ""
            place = self.places.describe(self.program.blocks[number].block.pcs[0])
            lines.append(f"{who}{more} wait at\n  {place}")
        position, missing = self.warps.failed or (0, 0)
        lanes = ", ".join(str(i) for i in range(WARP) if missing >> i & 1)
        warp = int(self.lanes.full["thread"][position]) // WARP
        lines.extend(self.barriers.describe_waiting())
        raise DivergenceError(
            f"a warp instruction needs lanes {lanes} of warp {warp}, which never get there\n" + "\n".join(lines)
        )

    def describe_others(self) -> str:
        gone = int(np.count_nonzero(~self.alive))
        return f"{gone} of {self.lanes.total} threads have exited" if gone else ""

    def report_deadlock(self) -> NoReturn:
        waits = []
        for number, group in self.parked.items():
            positions = np.arange(self.lanes.total) if group is None else group
            block = self.program.blocks[number].block
            pc = block.pcs[0] if block.pcs else block.end_pc
            who = self.lanes.describe_position(int(positions[0]))
            more = f" and {positions.size - 1} more" if positions.size > 1 else ""
            waits.append(f"{who}{more} spin at\n  {self.places.describe(pc)}")
        waits.extend(self.barriers.describe_waiting())
        raise DeadlockError("deadlock: nothing changes any more\n" + "\n".join(waits))

    def shfl(self, mode: str, value: Any, b: Any, c: Any, mask: Any, pc: int) -> tuple[Any, Any]:
        self.members(mask, pc)
        return self.warps.shfl(mode, value, b, c)

    def vote(self, mode: str, predicate: Any, mask: Any, pc: int) -> Any:
        return self.warps.vote(mode, predicate, self.members(mask, pc))

    def match(self, mode: str, value: Any, mask: Any, pc: int) -> tuple[Any, Any]:
        return self.warps.match(mode, value, self.members(mask, pc))

    def redux(self, op: str, value: Any, mask: Any, pc: int, absolute: bool, nan: bool) -> Any:
        return self.warps.redux(op, np.abs(value) if absolute else value, self.members(mask, pc))

    def elect(self, mask: Any, pc: int) -> tuple[Any, Any]:
        return self.warps.elect(self.members(mask, pc))

    def activemask(self) -> Any:
        return self.warps.spread(self.warps.active())

    def warp_sync(self, mask: Any, pc: int) -> None:
        if self.current in self.met:
            # Its lanes stand at several bar.warp.sync; all of them have arrived.
            self.met.discard(self.current)
            if self.clock is not None:
                self.clock.warp_barrier(self.lanes.get("warp"))
            return
        self.members(mask, pc)

    def members(self, mask: Any, pc: int) -> Any:
        """Check a member mask; all warp instructions order the memory accesses of the lanes they join."""
        if mask is None:
            return self.warps.spread(self.warps.active())
        masks = self.warps.require(mask, pc)
        if self.clock is not None:
            self.clock.warp_barrier(self.lanes.get("warp"))
        return masks

    def fence(self) -> None:
        if self.clock is not None:
            self.clock.synchronise(self.lanes, True, True)

    def vprintf(self, form: Any, arguments: Any) -> Any:
        self.printer.vprintf(self, form, arguments)
        return np.uint32(0)

    def assertfail(self, pc: int, *values: Any) -> None:
        texts = [self.printer.string(int(np.ravel(v)[0])) for v in values[:2]]
        who = self.lanes.describe_position(int(self.lanes.positions()[0]))
        raise SimulationError(f"assertion `{texts[0]}` failed for {who}\n  {self.places.describe(pc)}")

    def trap(self, pc: int) -> NoReturn:
        who = self.lanes.describe_position(int(self.lanes.positions()[0]))
        raise SimulationError(f"{who} executed trap\n  {self.places.describe(pc)}")

    def never_written(self, name: str, pc: int) -> NoReturn:
        self.report_register(0, name, pc)

    def check_defined(self, flags: Any, name: str, pc: int) -> None:
        missing = np.flatnonzero(~np.atleast_1d(flags))
        if missing.size:
            self.report_register(int(missing[0]), name, pc)

    def report_register(self, at: int, name: str, pc: int) -> NoReturn:
        who = self.lanes.describe_position(int(self.lanes.positions()[at]))
        raise UninitializedReadError(
            f"{who} uses register {name}, which nothing has written\n  {self.places.describe(pc)}"
        )


def special_register(name: str, lanes: Lanes, program: Program) -> Any:
    """The value of a special register for all threads of a chunk, None for other names."""
    kind, _, axis = name.partition(".")
    number = "xyz".find(axis) if axis else 0
    if kind in ("%ntid", "%nctaid"):
        return np.uint32((lanes.block if kind == "%ntid" else lanes.grid)[number])
    if kind == "%tid":
        return thread_coordinate(lanes.block, lanes.ctas, number)
    if kind == "%ctaid":
        return lanes.cta_coordinate(number)
    if kind == "%laneid":
        return _narrow(lanes.full["lane"])
    if kind == "%warpid":
        return _narrow(lanes.full["thread"] // WARP)
    if kind.startswith("%lanemask_"):
        return _lane_mask(kind[-2:], lanes.full["lane"].astype(np.uint64))
    fixed = {
        "%nwarpid": lanes.warps_per_cta, "%nsmid": 1, "%smid": 0, "%gridid": 0, "%clock": 0, "%clock_hi": 0,
        "%dynamic_smem_size": 0, "%total_smem_size": program.shared_bytes, "%globaltimer_lo": 0,
    }
    if kind in fixed:
        return np.uint32(fixed[kind])
    return np.uint64(0) if kind in ("%clock64", "%globaltimer") else None


def _narrow(values: NDArray[Any]) -> NDArray[np.uint32]:
    return values.astype(np.uint32)


def _lane_mask(relation: str, lane: NDArray[np.uint64]) -> NDArray[np.uint32]:
    one = np.uint64(1)
    equal = one << lane
    below = equal - one
    masks = {"eq": equal, "lt": below, "le": below | equal, "gt": ~(below | equal), "ge": ~below}
    return _narrow(masks[relation] & np.uint64(0xFFFFFFFF))
