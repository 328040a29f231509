"""The sixteen barriers of a CTA: arrivals, and the release of the waiting threads.

A barrier without a thread count doesn't wait for exited threads (PTX ISA, "exit"). All threads of a warp must execute
an aligned barrier instruction together: it is an error if the barrier completes without some of them, even exited ones.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ...errors import DeadlockError, DivergenceError, SimulationError
from ...fast_unique import fast_unique
from ..checks.order import HappensBefore, Message
from ..checks.phase_order import HINT, PhaseOrder
from ..decode.blocks import BasicBlock
from .access import Access
from .lanes import WARP, Index

# (next block, positions or None for all threads, slot of the result's register or None, result)
Released = tuple[int, Index | None, int | None, Any]


@dataclass(slots=True)
class Arrival:
    """Threads that arrived at one barrier instruction. waits: False for bar.arrive. value: their votes in bar.red."""

    block: BasicBlock
    positions: Index
    waits: bool
    aligned: bool
    count: int | None
    result: int | None
    value: NDArray[np.bool_] | None
    op: str
    message: Message | None = None


class Barriers:
    """The barriers of a chunk's CTAs. waiting: number → pending arrivals. phase_orders: number → `PhaseOrder`."""

    def __init__(self, access: Access, alive: NDArray[np.bool_]) -> None:
        self.access = access
        self.lanes = access.lanes
        self.alive = alive
        self.order = access.order
        self.places = access.places
        self.waiting: dict[int, list[Arrival]] = {}
        self.phase_orders: dict[int, PhaseOrder] = {}

    def arrive(
        self, block: BasicBlock, result: int | None, group: Index | None, positions: Index, request: tuple[Any, ...]
    ) -> list[Released]:
        """Record arrivals; return the released threads.

        raises: SimulationError for bad operands; DivergenceError if an aligned barrier completes while living threads
            of an arriving warp are elsewhere.
        """
        how, numbers, counts, aligned, value, op = request
        if group is None and how == "sync" and counts is None and not self.waiting and not np.ndim(numbers):
            if self.order is not None:
                self.order.cta_barrier(np.arange(self.lanes.first, self.lanes.first + self.lanes.ctas), True)
            return [(block.targets[0], None, None, None)]
        each = np.broadcast_to(numbers, positions.shape)
        for number in fast_unique(each):
            if number > 15:
                what = f"barrier {number} does not exist: a CTA has barriers 0 to 15"
                raise self.access.failure(SimulationError, positions[each == number], what, block.end_pc)
            at = np.flatnonzero(each == number)
            count = None if counts is None else int(np.broadcast_to(counts, positions.shape)[at[0]])
            if count is not None and (count % WARP or not count):
                what = f"a barrier's thread count must be a positive multiple of 32, got {count}"
                raise self.access.failure(SimulationError, positions[at], what, block.end_pc)
            values = None if value is None else np.broadcast_to(value, positions.shape)[at]
            arrival = Arrival(block, positions[at], how != "arrive", aligned, count, result, values, op)
            if self.order is not None and self.order.clocks is not None:
                self.check_order(self.order, int(number), arrival)
                arrival.message = self.order.release(positions[at])
            self.wait(int(number), arrival)
        return self.complete()

    def wait(self, number: int, arrival: Arrival) -> None:
        """Record an arrival.

        Lanes may arrive separately, so it is merged with an earlier arrival of other threads at the same instruction.
        """
        arrivals = self.waiting.setdefault(number, [])
        same = (a for a in arrivals if a.waits == arrival.waits and a.block is arrival.block)
        same = (a for a in same if a.count == arrival.count)
        # as bar.arrive doesn't wait, a thread may repeat it
        earlier = next((a for a in same if not np.isin(a.positions, arrival.positions, assume_unique=True).any()), None)
        if earlier is None:
            arrivals.append(arrival)
            return
        positions = np.concatenate([earlier.positions, arrival.positions])
        order = np.argsort(positions)
        earlier.positions = positions[order]
        if earlier.message is not None and arrival.message is not None and self.order is not None:
            earlier.message = self.order.joined([earlier.message, arrival.message])
        if earlier.value is not None and arrival.value is not None:
            earlier.value = np.concatenate([earlier.value, arrival.value])[order]

    def complete(self) -> list[Released]:
        """Complete each CTA's barriers at which all expected threads have arrived; return the released threads."""
        released: list[Released] = []
        for number in list(self.waiting):
            # CTAs may use the barrier with different thread counts; within a CTA, counts must be equal
            for count in dict.fromkeys(a.count for a in self.waiting[number]):
                released.extend(self.complete_one(number, count))
        return released

    def complete_one(self, number: int, count: int | None) -> list[Released]:
        arrivals = [a for a in self.waiting[number] if a.count == count]
        lanes = self.lanes
        here = np.zeros(lanes.total, bool)
        for a in arrivals:
            here[a.positions] = True
        cta = lanes.full["chunk_cta"]
        if count is None:
            need = np.bincount(cta[self.alive], minlength=lanes.ctas)
            have = np.bincount(cta[here & self.alive], minlength=lanes.ctas)
            full = (have >= need) & (have > 0)
        else:
            warps = fast_unique(lanes.full["chunk_warp"][here & self.warp_complete(here)])
            have = np.bincount(warps // lanes.warps_per_cta, minlength=lanes.ctas) * WARP
            full = have >= count
            if self.order is not None and np.count_nonzero(have > count):
                self.report_excess(number, count, arrivals[-1], have > count)
        if not full.any():
            return []
        for a in arrivals:
            if a.aligned:
                self.check_aligned(a, full)
        self.synchronize(arrivals, full, count)
        if number in self.phase_orders and count is None:
            # a barrier of all threads orders all later arrivals after all earlier ones
            self.phase_orders[number].forget(np.flatnonzero(full))
        elif number in self.phase_orders:
            self.phase_orders[number].end(np.flatnonzero(full))
            for a in (x for x in arrivals if x.waits):
                going = a.positions[full[cta[a.positions]]]
                self.phase_orders[number].passed(going, cta[going])
        return self.release(number, count, full)

    def check_order(self, order: HappensBefore, number: int, arrival: Arrival) -> None:
        """Record an arrival; report threads that arrive twice in a phase, or not ordered after the previous phase."""
        if number not in self.phase_orders:
            self.phase_orders[number] = PhaseOrder(order, self.access.findings, any_warp=True)
        positions, pc = arrival.positions, arrival.block.end_pc
        for earlier in self.waiting.get(number, ()):
            again = positions[np.isin(positions, earlier.positions, assume_unique=True)]
            if again.size:
                what = f"arrived at barrier {number} twice in one phase"
                self.access.report_arrival(again, what, pc, earlier.block.end_pc, HINT)
        self.phase_orders[number].arrive(f"barrier {number}", positions, self.lanes.full["chunk_cta"][positions], pc)

    def report_excess(self, number: int, count: int, arrival: Arrival, excess: NDArray[np.bool_]) -> None:
        """Report that more threads have arrived than the phase expects; which arrivals complete it is undefined."""
        positions = arrival.positions[excess[self.lanes.full["chunk_cta"][arrival.positions]]]
        what = f"arrived at barrier {number}, at which more threads have arrived than the {count} "
        what += "that its phase expects"
        self.access.report_arrival(positions, what, arrival.block.end_pc, hint=HINT)

    def warp_complete(self, here: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a mask of the threads of the warps whose living threads are all in `here`."""
        warp = self.lanes.full["chunk_warp"]
        missing = np.bincount(warp[self.alive & ~here], minlength=self.lanes.ctas * self.lanes.warps_per_cta)
        result: NDArray[np.bool_] = missing[warp] == 0
        return result

    def release(self, number: int, count: int | None, full: NDArray[np.bool_]) -> list[Released]:
        cta = self.lanes.full["chunk_cta"]
        arrivals = self.waiting[number]
        total, yes = self.votes([a for a in arrivals if a.count == count], full.size)
        released: list[Released] = []
        staying: list[Arrival] = []
        for a in arrivals:
            goes = full[cta[a.positions]] & (a.count == count)
            going = a.positions[goes]
            if a.waits and going.size:
                value = None if a.result is None else combined(a.op, total, yes)[cta[going]]
                released.append((a.block.targets[0], going, a.result, value))
            if not goes.all():
                a.positions = a.positions[~goes]
                a.value = None if a.value is None else a.value[~goes]
                staying.append(a)
        if staying:
            self.waiting[number] = staying
        else:
            del self.waiting[number]
        return released

    def votes(self, arrivals: list[Arrival], ctas: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of votes that each CTA has cast in bar.red, and the number of those that are true."""
        cta = self.lanes.full["chunk_cta"]
        total = np.zeros(ctas, np.int64)
        yes = np.zeros(ctas, np.int64)
        for a in arrivals:
            if a.value is not None:
                total += np.bincount(cta[a.positions], minlength=ctas)
                yes += np.bincount(cta[a.positions][a.value], minlength=ctas)
        return total, yes

    def synchronize(self, arrivals: list[Arrival], full: NDArray[np.bool_], count: int | None) -> None:
        """In the CTAs in `full`, order the arriving threads' earlier events before the waiting threads' later ones."""
        if self.order is None:
            return
        ctas = np.flatnonzero(full)
        all_threads = count is None or count >= self.lanes.threads
        if all_threads and all(a.waits for a in arrivals):
            self.order.cta_barrier(ctas + self.lanes.first, ctas.size == self.lanes.ctas)
            return
        home = self.lanes.full["chunk_cta"]
        messages = [a.message for a in arrivals if a.message is not None]
        together = self.order.joined(messages).part(ctas)
        for a in arrivals:
            going = a.positions[full[home[a.positions]]]
            if a.waits and going.size:
                self.order.learn(going, together)
        for message in messages:
            message.clear(ctas)

    def check_aligned(self, arrival: Arrival, full: NDArray[np.bool_]) -> None:
        """Raise DivergenceError if an arrival in the CTAs in `full` lacks living threads of its warps.

        If it lacks only exited threads, add a finding instead: a run that collects findings continues, as a GPU does.
        """
        lanes = self.lanes
        here = np.zeros(lanes.total, bool)
        here[arrival.positions] = True
        warp = lanes.full["chunk_warp"]
        members = np.zeros(lanes.ctas * lanes.warps_per_cta, bool)
        members[warp[arrival.positions[full[lanes.full["chunk_cta"][arrival.positions]]]]] = True
        elsewhere = np.flatnonzero(members[warp] & ~here)
        if not elsewhere.size:
            return
        living = elsewhere[self.alive[elsewhere]]
        at = int(living[0] if living.size else elsewhere[0])
        waiter = int(arrival.positions[warp[arrival.positions] == warp[at]][0])
        fate = "has exited without reaching it"
        if self.alive[at]:
            elsewhere_too = any(at in a.positions for each in self.waiting.values() for a in each)
            fate = "has arrived at another barrier instruction" if elsewhere_too else "has not arrived"
        others = self.describe_waiting() if self.alive[at] else []
        message = "a barrier that all threads of a warp must execute together was reached by only part of the warp: "
        message += f"{lanes.describe_position(waiter)} arrived at"
        then = "\n".join([f"but {lanes.describe_position(at)} {fate}", *others])
        hint = "move the barrier out of the branch, so that all threads reach it"
        pc, threads = arrival.block.end_pc, lanes.numbers(np.array([waiter, at]))
        if living.size:
            text = self.places.located(message, pc, then)
            raise DivergenceError(text, hint=hint, instructions=(pc,), threads=threads)
        self.access.findings.add("divergence", message, pc, threads=threads, hint=hint, then=then)

    def arrived(self) -> list[tuple[int, Index | None]]:
        return [(a.block.targets[0], a.positions) for arrivals in self.waiting.values() for a in arrivals]

    def describe_waiting(self) -> list[str]:
        lines = []
        for number, arrivals in self.waiting.items():
            for a in arrivals:
                if a.waits:
                    place = self.places.describe(a.block.end_pc)
                    verb = "waits" if a.positions.size == 1 else "wait"
                    lines.append(f"{self.lanes.describe_some(a.positions)} {verb} at barrier {number}\n  {place}")
        return lines

    def report(self, others: str) -> NoReturn:
        """Raise DeadlockError or DivergenceError about the waiting threads. others: a last line, "" for none."""
        lines = self.describe_waiting()
        if others:
            lines.append(others)
        text = "\n".join(lines)
        arrivals = [a for each in self.waiting.values() for a in each if a.waits]
        pcs = [a.block.end_pc for a in arrivals]
        threads = [x for a in arrivals for x in self.lanes.numbers(a.positions)]
        if any(a.count is not None for each in self.waiting.values() for a in each):
            message = f"deadlock: some threads never arrive at a barrier\n{text}"
            raise DeadlockError(message, instructions=pcs, threads=threads)
        message = f"a barrier is not reached by all threads of its CTA\n{text}"
        raise DivergenceError(message, instructions=pcs, threads=threads)


def combined(op: str, total: NDArray[np.int64], yes: NDArray[np.int64]) -> NDArray[Any]:
    """Return the result of bar.red in each CTA. total: its number of votes. yes: its number of true votes."""
    if op == "popc":
        return yes.astype(np.uint32)
    return yes == total if op == "and" else yes > 0
