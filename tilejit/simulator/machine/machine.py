"""The scheduler: runs groups of threads one basic block at a time, with barriers, parking and deadlock detection.

Groups that reach the same block merge. A group that blocks, returns to an earlier state, or takes the back edge of a
loop that may wait for other threads is parked until no other group can run; random schedules may retry it earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ...errors import DeadlockError, DivergenceError, SimulationError
from ...fast_unique import fast_unique
from ..decode import names, translate
from ..decode.blocks import EXIT, BasicBlock, can_block, is_warp_barrier
from .access import Access
from .barriers import Barriers, Released
from .lanes import WARP, Index
from .operations import Delivery
from .printf import Printer
from .register_pool import Blocked
from .registers import Registers
from .schedule import Loops, Schedule, Standstill
from .units import Units
from .warp import NotTogether

#: nanoseconds that pass when no group can run for the first time; each further step doubles the time
FIRST_STEP = np.uint64(1000)
#: the time after which threads that still wait are deadlocked
END_OF_TIME = np.uint64(1 << 62)


class Machine(Units):
    """The threads of one chunk; generated code refers to the machine as `S`."""

    def __init__(
        self, program: translate.Program, access: Access, params: bytes, printer: Printer, schedule: int,
        delivery: Delivery, limit: int,
    ) -> None:
        """schedule: the seed of the thread order. limit: the launch's maximum number of thread instructions."""
        super().__init__(program, access, printer, schedule, delivery)
        lanes = access.lanes
        self.barriers = Barriers(access, self.alive)
        self.registers = Registers(program, lanes, params, access.memory.workspace)
        self.block_lanes = [0] * len(program.blocks)
        self.ready: dict[int, Index | None] = {0: None}
        self.parked: dict[int, Index | None] = {}
        self.held: dict[int, Index | None] = {}
        self.current = 0
        self.schedule = Schedule(schedule, lanes, program.of_warpgroups)
        self.waiting = program.control_flow.waiting_loops
        self.loops = Loops()
        # one check of the registers and memory that determine loops' control flow, one of all live registers and memory
        self.stuck_checks = (Standstill(), Standstill())
        # the number of living threads at the last check for a deadlock
        self.living = -1
        self.left = limit
        self.limit = limit
        # the number of blocks run by groups so far, and as of the last retry of held groups
        self.advanced = 0
        self.advanced_at_retry = -1
        self.matched: set[int] = set()
        # the number of CTAs that may run at once, and of those that have started
        self.concurrent = self.started = lanes.ctas
        # nanoseconds; passes only while no group can run (`passes_time`), so that results don't depend on speed
        self.time = np.uint64(0)

    def run(self) -> None:
        ready = self.ready
        schedule = self.schedule
        group = None
        try:
            while ready or self.wake():
                number, group = schedule.take(ready)
                self.step(number, group)
                if self.parked and schedule.wakes():
                    self.unpark()
                if self.operations.pending:
                    self.operations.after_block()
            while self.operations.deliver_one():
                pass
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted\n" + "\n".join(self.describe_groups(self.current, group))) from None
        except SimulationError:
            self.run_exits()
            raise
        if self.order is not None and "tmem" in vars(self):
            self.tmem.allocator.check_all_freed()

    def run_at_once(self, ctas: int) -> None:
        """Run at most this number of CTAs at once, which includes a whole cluster. Call it before `run`."""
        self.concurrent, self.started = ctas, 0
        self.ready.clear()
        self.start_ctas()

    def start_ctas(self) -> None:
        """Start the next clusters while fewer CTAs run than may run at once."""
        ranks, threads = self.lanes.ranks, self.lanes.threads * self.lanes.ranks
        running = int(self.alive[: self.started * self.lanes.threads].reshape(-1, threads).any(axis=1).sum()) * ranks
        first = self.started
        while self.started < self.lanes.ctas and running + ranks <= self.concurrent:
            self.started, running = self.started + ranks, running + ranks
        if self.started > first:
            new = np.arange(first * self.lanes.threads, self.started * self.lanes.threads)
            self.merge(self.ready, 0, self.lanes.group_of(new))

    def run_all(self, number: int) -> None:
        """Run all threads until they diverge, wait, take a back edge or exit; in a random schedule, for one block."""
        self.select(None)
        registers = self.registers.of_all()
        is_fixed = self.schedule.random is None
        while True:
            self.current = number
            compiled = self.program.blocks[number]
            try:
                result = compiled.run(self, *[registers[s] for s in compiled.inputs])
            except Blocked as blocked:
                self.park(number, None, blocked.positions)
                return
            for slot, value in zip(compiled.outputs, result[1:], strict=True):
                registers[slot] = value
            self.count(compiled, None)
            target = self.common_target(compiled, result[0])
            if target is None:
                self.diverge(compiled, None, result[0])
                return
            if target <= number or not is_fixed:
                self.send(number, target, None)
                return
            number = target

    def run_exits(self) -> None:
        """After an error, run the threads in blocks that lead straight to the exit: their output may explain the error.

        Compiler-inserted checks print and exit in such blocks, which often come last in the program.
        """
        while numbers := self.program.control_flow.exit_only & self.ready.keys():
            number = min(numbers)
            try:
                self.step(number, self.ready.pop(number))
            except SimulationError:
                # only the first error is reported
                continue

    def step(self, number: int, group: Index | None) -> None:
        if group is None:
            self.run_all(number)
        else:
            self.run_part(number, group)

    def run_part(self, number: int, group: Index) -> None:
        compiled = self.program.blocks[number]
        self.current = number
        self.select(group)
        try:
            result = compiled.run(self, *self.registers.of(group, compiled.inputs))
        except NotTogether as missing:
            self.merge(self.held, number, np.setdiff1d(group, missing.together, assume_unique=True))
            if missing.together.size:
                self.run_part(number, missing.together)
            return
        except Blocked as blocked:
            self.park(number, group, blocked.positions)
            return
        self.registers.keep(compiled.outputs, result[1:])
        self.count(compiled, group)
        target = self.common_target(compiled, result[0])
        if target is None:
            self.diverge(compiled, group, result[0])
        else:
            self.send(number, target, group)

    def select(self, group: Index | None) -> None:
        self.lanes.select(group)
        self.n = self.lanes.n

    def count(self, compiled: translate.TranslatedBlock, group: Index | None) -> None:
        """Count a block that the executing threads have run. raises: SimulationError above the instruction limit."""
        number = compiled.block.index
        self.block_lanes[number] += self.n
        self.advanced += 1
        self.left -= self.n * compiled.steps
        if self.left < 0:
            self.report_limit(number, group)
        if self.definedness is not None and self.definedness.active:
            self.definedness.finish(compiled.block, self.lanes.positions())

    def common_target(self, compiled: translate.TranslatedBlock, taken: Any) -> int | None:
        """Return the executing threads' next block, or EXIT; None if they diverge, or at a switch, barrier or trap."""
        block = compiled.block
        if block.kind == "fall":
            return block.targets[0]
        if block.kind != "branch":
            return None
        if taken.ndim:
            count = np.count_nonzero(taken)
            if 0 < count < taken.size:
                return None
            taken = count
        return block.targets[0 if bool(taken) != block.negated else 1]

    def diverge(self, compiled: translate.TranslatedBlock, group: Index | None, extra: Any) -> None:
        block = compiled.block
        if block.kind == "branch":
            self.split(block, group, extra)
        elif block.kind == "switch":
            self.switch(block, extra)
        elif block.kind == "barrier":
            self.arrive(compiled, group, extra)

    def split(self, block: BasicBlock, group: Index | None, taken: Any) -> None:
        yes, no = reversed(block.targets) if block.negated else block.targets
        positions = np.flatnonzero(taken), np.flatnonzero(~taken)
        for target, at in zip((yes, no), positions, strict=True):
            self.send(block.index, target, at if group is None else group[at])

    def switch(self, block: BasicBlock, index: Any) -> None:
        chosen = np.broadcast_to(index, (self.n,))
        positions = self.lanes.positions()
        if (chosen >= len(block.targets)).any():
            at = int(np.flatnonzero(chosen >= len(block.targets))[0])
            what = f"branches to entry {int(chosen[at])} of a table of {len(block.targets)}"
            raise self.access.error(SimulationError, positions[at : at + 1], what, block.end_pc)
        for i in fast_unique(chosen):
            at_i = np.flatnonzero(chosen == i)
            self.send(block.index, block.targets[int(i)], self.lanes.group_of(positions[at_i]))

    def send(self, origin: int, target: int, group: Index | None) -> None:
        """Let a group exit, or move it to a block; after a back edge, park it if its loop may wait or seems stuck."""
        if target == EXIT:
            self.finish(group)
            return
        waits = target <= origin and (
            (origin, target) in self.waiting
            or self.loops.repeats(target, group, target in self.program.control_flow.endless, self.deciding_values)
        )
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
        into[target] = self.lanes.group_of(np.flatnonzero(member))

    def finish(self, group: Index | None) -> None:
        """Mark threads as exited (None: all), report unsafe exits, and complete barriers that waited only for them."""
        if group is None:
            self.alive[:] = False
        else:
            self.alive[group] = False
        positions = self.lanes.members(group)
        if "bulk" in vars(self):
            self.bulk.check_exit(positions, self.alive)
        if "far" in vars(self):
            self.far.check_exit(positions)
        if "clusters" in vars(self):
            self.clusters.complete()
        if self.barriers.waiting:
            self.release(self.barriers.complete())
        if self.started < self.lanes.ctas:
            self.start_ctas()

    def arrive(self, compiled: translate.TranslatedBlock, group: Index | None, request: tuple[Any, ...]) -> None:
        block = compiled.block
        released = self.barriers.arrive(block, compiled.result, group, self.lanes.positions(), request)
        if request[0] == "arrive":
            self.send(block.index, block.targets[0], group)
        self.release(released)

    def release(self, released: Sequence[Released]) -> None:
        for target, positions, result, value in released:
            group = None if positions is None else self.lanes.group_of(positions)
            if result is not None:
                self.registers.write_back()
                self.registers.scatter(result, self.lanes.members(group), value)
            if target == EXIT:
                self.finish(group)
            else:
                self.merge(self.ready, target, group)

    def park(self, number: int, group: Index | None, blocked: Index) -> None:
        """Park the threads of a group that are blocked at a block's first instruction; the others retry the block."""
        positions = self.lanes.members(group)
        going = positions[~np.isin(positions, blocked)]
        if going.size:
            self.merge(self.ready, number, going)
        self.merge(self.parked, number, self.lanes.group_of(blocked))

    def wake(self) -> bool:
        """Deliver an operation, if there is one, and retry parked or held groups.

        Return False if all threads have exited; raise an error if the remaining threads are stuck.
        """
        if not (self.held or self.parked or self.barriers.waiting):
            return False
        delivered = self.operations.deliver_one()
        if self.parked:
            if self.program.control_flow.endless.issuperset(self.parked):
                self.report_endless()
            if not delivered and self.is_stuck() and not self.passes_time():
                self.report_deadlock()
            self.unpark()
        elif self.held:
            self.retry_held()
        elif not delivered:
            self.barriers.report(self.describe_others())
        return True

    def passes_time(self) -> bool:
        """Advance the time, and return True, if the program reads it and less than `END_OF_TIME` has passed."""
        body = self.program.function.body
        if self.time > END_OF_TIME or not any(operand in names.TIMERS for x in body for operand in x.operands):
            return False
        self.time = max(self.time * np.uint64(2), FIRST_STEP)
        return True

    def is_stuck(self) -> bool:
        """Return True if retries change nothing that determines the groups' control flow, or nothing at all."""
        living = int(np.count_nonzero(self.alive))
        if living != self.living:
            # this is the first check, or threads have exited since the last one: memory needn't be watched yet
            self.living = living
            return False
        watched = self.access.watch(self.program.control_flow.loads)
        groups = [*self.parked.items(), *self.held.items(), *self.barriers.arrived()]
        control_flow = self.program.control_flow
        deciding, whole = self.stuck_checks
        return deciding.reached(watched.events, lambda: self.state(groups, control_flow.deciding)) or whole.reached(
            watched.changes, lambda: self.state(groups, control_flow.live_slots)
        )

    def state(
        self, groups: Sequence[tuple[int, Index | None]], slots_of: Callable[[int], Sequence[int] | None]
    ) -> Any:
        """Return (block, hash of threads and registers) for each group; None if `slots_of` returns None for a block."""
        result = []
        for number, group in groups:
            slots = () if number == EXIT else slots_of(number)
            if slots is None:
                return None
            values = (np.asarray(value).tobytes() for _, value in self.registers.values(slots, group))
            result.append((number, hash((None if group is None else group.tobytes(), *values))))
        return sorted(result)

    def deciding_values(self, number: int, group: Index | None) -> list[tuple[int, Any]]:
        """Return [(slot, value)] of the registers `ControlFlow.deciding(number)`, or of all live ones if it is None."""
        control_flow = self.program.control_flow
        slots = control_flow.deciding(number)
        return self.registers.values(control_flow.live_slots(number) if slots is None else slots, group)

    def unpark(self) -> None:
        for groups in (self.parked, self.held):
            for number, group in groups.items():
                self.merge(self.ready, number, group)
            groups.clear()

    def retry_held(self) -> None:
        """Retry held groups.

        If no block has run since the last retry, let different bar.warp.sync instructions match, or raise an error.
        """
        if self.advanced == self.advanced_at_retry:
            barriers = {b for b in self.held if is_warp_barrier(self.program.function.body[self.first_pc(b)])}
            lanes = np.zeros(self.lanes.total, bool)
            for number in barriers:
                lanes[self.lanes.members(self.held[number])] = True
            warp = self.lanes.full["chunk_warp"]
            touched = np.isin(warp, warp[lanes])
            if not barriers or (touched & self.alive & ~lanes).any():
                self.report_missing()
            self.matched = barriers
        self.advanced_at_retry = self.advanced
        self.unpark()

    def report_missing(self) -> NoReturn:
        lines = [self.describe_group(number, group, "wait") for number, group in self.held.items()]
        position, missing = self.warps.failed or (0, 0)
        lanes = ", ".join(str(i) for i in range(WARP) if missing >> i & 1)
        noun = "lanes" if "," in lanes else "lane"
        warp = int(self.lanes.full["thread"][position]) // WARP
        text = "\n".join([*lines, *self.barriers.describe_waiting()])
        raise DivergenceError(
            f"an instruction waits forever for {noun} {lanes} of warp {warp}\n{text}",
            **self.parties(self.held),
        )

    def describe_others(self) -> str:
        gone = int(np.count_nonzero(~self.alive))
        return f"{gone} of {self.lanes.total} threads have exited" if gone else ""

    def report_deadlock(self) -> NoReturn:
        waits: list[str] = []
        for number, group in self.parked.items():
            pcs = self.program.control_flow.pcs_around(number)
            positions = self.lanes.members(group)
            lines, others = self.mbarriers.describe_waits(positions, pcs)
            waits.extend(lines)
            # the pool of registers and the clusters describe their own waiters
            first = self.program.blocks[number].block.pcs[:1]
            if others.size and not any(can_block(self.program.function.body[pc]) for pc in first):
                waits.append(self.describe_group(number, others, "spin"))
        if "pool" in vars(self):
            waits.extend(self.pool.describe_waits())
        if "clusters" in vars(self):
            waits.extend(self.clusters.describe_waits())
        waits.extend(self.describe_group(b, g, "wait") for b, g in self.held.items())
        waits.extend(self.barriers.describe_waiting())
        hint = "the thread that should store the awaited value, or arrive, must do so before it waits"
        if self.mbarriers.waits is not None:
            waits.extend([gone] if (gone := self.describe_others()) else [])
            hint = "a phase needs all arrivals and bytes: producers must commit, and consumers release, once per step"
        if self.started < self.lanes.ctas:
            left = self.lanes.ctas - self.started
            waits.append(
                f"{left} of {self.lanes.ctas} CTAs have not started: at most {self.concurrent} run at once, and the "
                "next one starts when one ends"
            )
            hint = "let a CTA wait only for CTAs with lower indices, or launch no more CTAs than run at once"
        if self.operations.issued:
            waits.append(f"delivery: {self.operations.delivery.text}")
        message = "deadlock: no thread can make progress\n" + "\n".join(waits)
        raise DeadlockError(message, hint=hint, **self.parties({**self.parked, **self.held}))

    def report_endless(self) -> NoReturn:
        message = "endless loop: it has no exit\n" + "\n".join(
            self.describe_group(b, g, "run") for b, g in self.parked.items()
        )
        raise DeadlockError(message, hint="leave the loop with break or return", **self.parties(self.parked))

    def report_limit(self, number: int, group: Index | None) -> NoReturn:
        lines = "\n".join(self.describe_groups(number, group))
        raise SimulationError(
            f"the launch has executed more than {self.limit} thread instructions\n{lines}",
            hint="raise TILEJIT_SIM_LIMIT if this isn't an endless loop", **self.parties({number: group}),
        )

    def describe_groups(self, number: int, group: Index | None) -> list[str]:
        return [self.describe_group(number, group, "run"), *self.describe_elsewhere(number)]

    def describe_elsewhere(self, number: int) -> list[str]:
        """Describe the threads that aren't at block `number`."""
        lines: list[str] = []
        others = {b: g for b, g in self.ready.items() if b != number}
        for verb, groups in (("continue", others), ("spin", self.parked), ("wait", self.held)):
            lines.extend(self.describe_group(b, g, verb) for b, g in groups.items())
        return lines + self.barriers.describe_waiting()

    def breakpoint(self, text: Any, values: Any) -> None:
        self.printer.breakpoint(text, values, self.lanes, lambda: self.describe_elsewhere(self.current))

    def parties(self, groups: Mapping[int, Index | None]) -> dict[str, Any]:
        """Return keyword arguments of an error about groups: their instructions, and threads as indices in the grid."""
        pcs = [self.first_pc(number) for number in groups]
        threads = [x for g in groups.values() for x in self.lanes.numbers(self.lanes.members(g))]
        return {"instructions": pcs, "threads": threads}

    def first_pc(self, number: int) -> int:
        block = self.program.blocks[number].block
        return block.pcs[0] if block.pcs else block.end_pc

    def describe_group(self, number: int, group: Index | None, verb: str) -> str:
        positions = self.lanes.members(group)
        name = self.lanes.describe_some(positions) + f" {verb}" + "s" * (positions.size == 1)
        return f"{name} at\n  {self.places.describe(self.first_pc(number))}"

    def warp_sync(self, mask: Any, pc: int) -> None:
        if self.current in self.matched:
            # the warp's living lanes are at different bar.warp.sync instructions, and all have arrived
            self.matched.discard(self.current)
            if self.order is not None:
                self.order.warp_barrier(self.lanes.positions())
            return
        masks = self.warps.require(mask, pc)
        if self.order is not None:
            self.warps.synchronize(self.order, mask, masks)
