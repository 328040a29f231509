"""mbarrier: barrier objects in shared memory, with phases, arrivals and transaction counts.

Phases are numbered from 0; the parity of a phase is the lowest bit of its number. A phase completes when no arrival and
no byte is pending. The state is kept in Python objects, not in the barrier's bytes in memory.

source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier", "Phase of the mbarrier object",
"Tracking asynchronous operations by the mbarrier object".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...fast_unique import fast_unique
from ..checks.order import HappensBefore
from ..checks.phase_order import PhaseOrder
from ..checks.phase_waits import PhaseWaits
from ..decode.translate import Program
from ..opcodes.memory import Site
from ..opcodes.move import WINDOWS
from .access import Access
from .lanes import Index
from .mbarrier import BYTES, PENDING_BITS, Arrivals, Arriving, MBarrier, Waits
from .operations import Delivery, Operation, Operations, Signal

# maximum of the arrival count and of the transaction count; source: PTX ISA, "Contents of the mbarrier object"
MOST = (1 << 20) - 1


class MBarriers:
    """All mbarriers of a chunk. at: shared address → the barriers at this address.

    waits: the waits for incomplete phases, None until there is one. phase_waits: None without checks.
    finishes: called with an `MBarrier` and the CTAs in which its phase completes.
    passes: called at waits, with the barrier, the threads, a mask of those whose phase is complete, and the phases.
    arrives: called at arrivals, with the barrier, the threads' positions, the target CTAs, and the phases.
    """

    finishes: Callable[[MBarrier, Index], None] | None = None
    passes: Callable[[Site, MBarrier, Index, NDArray[np.bool_], Index], None] | None = None
    arrives: Callable[[Site, MBarrier, Index, Index, Index], None] | None = None

    def __init__(self, program: Program, access: Access, delivery: Delivery) -> None:
        self.program = program
        self.access = access
        self.lanes = access.lanes
        self.order = access.order
        self.places = access.places
        self.operations = Operations(delivery, self.delivered)
        self.at: dict[int, MBarrier] = {}
        self.waits: Waits | None = None
        self.phase_waits = None if self.order is None else PhaseWaits(self.order, access.findings)
        self.checker = access.checker
        if self.checker is not None:
            self.checker.report.init_pc_of = self.init_pc

    def init(self, number: int, address: Any, count: Any) -> None:
        site = self.access.sites[number]
        for barrier, threads in self.groups(site, address):
            ctas = self.ctas(threads)
            counts = self.of(count, threads).astype(np.int64)
            wrong = np.flatnonzero((counts < 1) | (counts > MOST))
            if wrong.size:
                count = int(counts[wrong[0]])
                self.misuse(site, barrier, threads[wrong], f"is initialized with a count of {count}, not 1 to {MOST}")
            again = np.flatnonzero(barrier.live[ctas])
            if again.size:
                self.misuse(site, barrier, threads[again], "is initialized again", int(barrier.init_pc[ctas[again[0]]]))
            barrier.live[ctas] = True
            barrier.fenced[ctas] = False
            barrier.published[ctas] = 0
            barrier.phase[ctas] = barrier.tx[ctas] = 0
            barrier.expected[ctas] = barrier.pending[ctas] = counts
            barrier.init_pc[ctas] = site.pc
            barrier.init_position[ctas] = self.lanes.positions()[threads]
            barrier.forget(ctas)
            if self.phase_waits is not None:
                self.phase_waits.forget(barrier, ctas)
            if self.checker is not None:
                self.checker.make_barriers(barrier.region, barrier.cells(ctas), threads, site)
            barrier.init_event[ctas] = self.order.tick(site.pc) if self.order is not None else 0
            self.access.memory_changed()

    def inval(self, number: int, address: Any) -> None:
        """mbarrier.inval: the bytes become ordinary memory."""
        site = self.access.sites[number]
        for barrier, threads in self.living(site, address):
            self.check_used(site, barrier, threads)
            barrier.live[self.ctas(threads)] = False
            if self.checker is not None:
                self.checker.free_barriers(barrier.region, barrier.cells(self.ctas(threads)), threads, site)
            self.access.memory_changed()

    def fence(self, publishes: bool) -> None:
        """Make the executing threads' initializations visible to asynchronous operations.

        publishes: True for fence.mbarrier_init, which also publishes them to all threads that observe the fence.
        """
        now = self.order.tick(0) if self.order is not None and publishes else 0
        for barrier in self.at.values():
            mine = np.isin(barrier.init_position, self.lanes.positions())
            barrier.fenced |= mine
            barrier.published[mine & (barrier.published == 0)] = now

    def arrive(
        self, number: int, address: Any, count: Any, expected: Any, wanted: bool, drop: bool, incomplete: bool,
        releases: bool,
    ) -> Any:
        """mbarrier.arrive: each thread adds `expected` bytes to the phase, then arrives once, or `count` times.

        drop: later phases expect fewer arrivals. incomplete: the arrivals must not complete the phase.
        Return the states before the arrivals if `wanted`, else None.
        """
        site = self.access.sites[number]
        states = np.zeros(self.lanes.n, np.uint64)
        release = self.release if releases else None
        for barrier, threads in self.living(site, address):
            each = self.of(np.int64(1) if count is None else count, threads).astype(np.int64)
            arriving = Arriving(threads, self.ctas(threads), each, drop, incomplete)
            states[threads] = self.arrive_at(site, barrier, arriving, expected, release)
        return states if wanted else None

    def arrive_at(
        self, site: Site, barrier: MBarrier, arriving: Arriving, expected: Any,
        release: Callable[[MBarrier, Index], None] | None,
    ) -> NDArray[np.uint64]:
        """Arrive at an address's barriers; return the states before the arrivals. `arriving.ctas` must be sorted."""
        threads, ctas, each = arriving.threads, arriving.ctas, arriving.each
        if expected is not None:
            self.expect(site, barrier, threads, ctas, self.of(expected, threads))
        phases, states = barrier.phase[ctas], barrier.states_before(ctas, each)
        arrived_in = (states >> PENDING_BITS).astype(np.int64)
        if self.arrives is not None:
            self.arrives(site, barrier, self.lanes.positions()[threads], ctas, arrived_in)
        # the use of the barrier, or the access to the other CTA, is the event of these arrivals
        event = self.order.event if self.order is not None else 0
        barrier.note(Arrivals(site.pc, self.lanes.positions()[threads], ctas, arrived_in, event))
        if arriving.drop:
            barrier.expected -= np.bincount(ctas, each, barrier.live.size).astype(np.int64)
        # phase by phase: a phase releases no accesses of threads that arrive after its completion
        for later in fast_unique(arrived_in - phases).tolist():
            at = np.flatnonzero(arrived_in - phases == later)
            if barrier.phase_order is not None:
                barrier.phase_order.arrive(barrier.name, self.lanes.positions()[threads[at]], ctas[at], site.pc)
            if release is not None:
                release(barrier, threads[at])
            self.count(site, barrier, arriving.part(at))
        self.access.memory_changed()
        return states

    def expect_tx(self, number: int, address: Any, expected: Any, completes: bool = False) -> None:
        site = self.access.sites[number]
        for barrier, threads in self.living(site, address):
            ctas = self.ctas(threads)
            if not completes and self.phase_waits is not None and not self.phase_waits.relaxed:
                positions = self.lanes.positions()[threads]
                self.phase_waits.note(barrier, positions, barrier.phase[ctas] - 1, site.pc, expects=True)
            self.expect(site, barrier, threads, ctas, self.of(expected, threads))
            self.finish_phases(barrier, fast_unique(ctas))
            self.access.memory_changed()

    def complete_tx(self, number: int, address: Any, completed: Any) -> None:
        self.expect_tx(number, address, -completed.astype(np.int64), completes=True)

    def wait(self, number: int, address: Any, phase: Any, kind: str, acquires: str) -> Any:
        """mbarrier.test_wait, .try_wait: return a mask of the threads whose phase is complete.

        kind: "state", "parity" or "number", the form of `phase`. acquires: the scope, "cta" or "cluster"; "" for none.
        """
        site = self.access.sites[number]
        complete = np.zeros(self.lanes.n, bool)
        for barrier, threads in self.living(site, address):
            now = barrier.phase[self.ctas(threads)]
            awaited = self.of(phase, threads).astype(np.int64)
            done = is_complete(now, awaited, kind)
            if kind == "state":
                awaited >>= PENDING_BITS
            if kind != "parity":
                self.check_phase(site, barrier, threads, awaited, now, kind)
            complete[threads] = done
            phases = now - done if kind == "parity" else awaited
            if self.passes is not None:
                self.passes(site, barrier, threads, done, phases)
            if self.order is not None and np.count_nonzero(done):
                self.passed(self.order, site, barrier, threads[done], phases[done], kind, acquires)
            self.note_waits(site, barrier, threads, awaited, done, kind)
        return complete

    def passed(
        self, order: HappensBefore, site: Site, barrier: MBarrier, threads: Index, phases: Index, kind: str,
        acquires: str,
    ) -> None:
        """Order threads after what completed phases released. Check that no order lets their waits miss `phases`."""
        assert self.phase_waits is not None, "checked launches have this"
        heeded = acquires != "" and site.pc not in self.program.control_flow.unread_waits
        positions = self.lanes.positions()[threads]
        self.phase_waits.wait(barrier, positions, phases, site.pc, kind, heeded)
        if not heeded:
            return
        for message in (barrier.near.done, barrier.wide.done if acquires == "cluster" else None):
            if message is not None:
                order.learn(positions, message)
        if barrier.phase_order is not None:
            barrier.phase_order.passed(positions, self.ctas(threads))

    def pending_count(self, state: Any) -> Any:
        return (state & np.uint64(MOST)).astype(np.uint32)

    def check_visible(self, site: Site, address: int, position: int, cta: int) -> None:
        """Report an operation's signal to another CTA's barrier unless the initializing thread has executed a fence."""
        barrier = self.at.get(address)
        if barrier is None or not barrier.live[cta] or barrier.fenced[cta]:
            return
        self.access.finding(
            "barrier", np.array([position]),
            f"{barrier.name} is passed to an asynchronous operation by {self.lanes.describe_position(position)}",
            site.pc, "put fence.mbarrier_init.release.cluster between the initialization and the cluster barrier",
            ("without a fence.mbarrier_init by the thread that initialized it", int(barrier.init_pc[cta])),
        )

    def phase_of(self, address: int, cta: int) -> int:
        barrier = self.at.get(address)
        return 0 if barrier is None else int(barrier.phase[cta])

    def check_start(self, operation: Operation, signal: Signal) -> None:
        """Check that the bytes of an operation that has just been issued can't count for an earlier phase."""
        barrier = self.at.get(signal.address)
        if self.phase_waits is not None and barrier is not None and barrier.live[signal.cta]:
            self.phase_waits.start_copy(barrier, signal.cta, operation.issuer, operation.pc, signal.phase)

    def delivered(self, operation: Operation) -> None:
        for signal in operation.signals:
            barrier = self.at.get(signal.address)
            if barrier is None or not barrier.live[signal.cta]:
                name = self.access.memory.shared_name(signal.address, BYTES)
                what = f"a {operation.what} reports to mbarrier {name}, which is not initialized"
                self.access.finding("barrier", np.array([operation.issuer]), what, operation.pc)
                continue
            if operation.news is not None and self.order is not None:
                barrier.near.add(self.order, operation.news)
            barrier.tx[signal.cta] -= signal.size_bytes
            phase = int(barrier.phase[signal.cta])
            barrier.got_bytes[phase % 3, signal.cta] = phase
            if self.phase_waits is not None and not self.phase_waits.relaxed and signal.phase < phase:
                self.phase_waits.report_copy(barrier, signal.cta, operation.issuer, operation.pc, phase)
            self.finish_phases(barrier, np.array([signal.cta]))
        self.access.memory_changed()

    def groups(self, site: Site, address: Any) -> Iterator[tuple[MBarrier, Index]]:
        """Yield (barrier, indices of executing threads) per distinct address; report and skip invalid addresses."""
        actual = self.access.actual(site, address)
        first = int(actual[0])
        if actual.size == 1 or not np.count_nonzero(actual != actual[0]):
            barrier = self.barrier(site, first, address)
            if barrier is not None:
                yield barrier, np.arange(self.lanes.n)
            return
        for one in fast_unique(actual).tolist():
            threads = np.flatnonzero(actual == one)
            barrier = self.barrier(site, one, address[threads])
            if barrier is not None:
                yield barrier, threads

    def barrier(self, site: Site, actual: int, address: Any) -> MBarrier | None:
        """Return the barriers at an address; if it is invalid, report it and return None."""
        shared = actual if site.space else actual - WINDOWS["shared"]
        barrier = self.at.get(shared)
        if barrier is not None:
            return barrier
        region = self.access.memory.find("shared", shared) if shared >= 0 else None
        if region is None or shared + BYTES > region.base + region.size:
            self.access.report_outside(site, np.array([actual], np.uint64), np.zeros(1, np.int64))
            return None
        if shared % BYTES and self.access.is_misaligned(site, np.atleast_1d(address)):
            return None
        name = f"mbarrier {self.access.memory.shared_name(shared, BYTES)}"
        barrier = self.at[shared] = MBarrier(shared, region, self.lanes, name)
        if self.order is not None and not self.order.facts.relaxed:
            barrier.phase_order = PhaseOrder(self.order, self.access.findings, any_warp=False)
        return barrier

    def living(self, site: Site, address: Any) -> Iterator[tuple[MBarrier, Index]]:
        """Like `groups`, but report and skip threads whose barrier isn't initialized.

        Check that the others' uses are ordered after the initialization, and record them.
        """
        for barrier, threads in self.groups(site, address):
            live = barrier.live[self.ctas(threads)]
            if np.count_nonzero(live) < live.size:
                self.misuse(site, barrier, threads[~live], "is used but not initialized")
                threads = threads[live]
            if threads.size:
                if self.order is not None:
                    self.use(self.order, site, barrier, threads)
                yield barrier, threads

    def use(self, order: HappensBefore, site: Site, barrier: MBarrier, threads: Index) -> None:
        self.check_ordered(order, site, barrier, threads)
        barrier.used[self.lanes.positions()[threads]] = order.tick(site.pc)

    def check_ordered(self, order: HappensBefore, site: Site, barrier: MBarrier, threads: Index) -> None:
        """Report uses of a barrier that aren't ordered after its initialization."""
        ctas = self.ctas(threads)
        fresh = np.flatnonzero(barrier.init_event[ctas] >= order.cta_start[ctas + self.lanes.first])
        if not fresh.size:
            return
        gid = self.lanes.full["gid"].astype(np.int64)
        maker, me = gid[barrier.init_position[ctas[fresh]]], self.lanes.get("gid").astype(np.int64)[threads[fresh]]
        ordered = (maker == me) | order.ordered(maker, barrier.init_event[ctas[fresh]], me)
        wrong = fresh[~ordered]
        if wrong.size:
            pc = int(barrier.init_pc[ctas[wrong[0]]])
            what = "is used without being ordered after its initialization"
            self.misuse(site, barrier, threads[wrong], what, pc, rule="race")

    def check_used(self, site: Site, barrier: MBarrier, threads: Index) -> None:
        """Report invalidations of a barrier that aren't ordered after its uses by other threads of the CTA."""
        if self.order is None:
            return
        gid, cta_of = self.lanes.full["gid"].astype(np.int64), self.lanes.full["chunk_cta"]
        for thread, cta in zip(threads.tolist(), self.ctas(threads).tolist(), strict=True):
            others = np.flatnonzero((barrier.used > 0) & (cta_of == cta))
            others = others[others != self.lanes.positions()[thread]]
            events = barrier.used[others]
            me = np.full(others.size, self.lanes.get("gid")[thread], np.int64)
            wrong = np.flatnonzero(~self.order.ordered(gid[others], events, me))
            if wrong.size:
                pc = int(self.order.pcs[int(events[wrong[0]])])
                what = "is invalidated without being ordered after its uses"
                self.misuse(site, barrier, np.array([thread]), what, pc, rule="race")

    def ctas(self, threads: Index) -> Index:
        return self.lanes.get("chunk_cta")[threads]

    def of(self, value: Any, threads: Index) -> NDArray[Any]:
        return value[threads] if np.ndim(value) else np.full(threads.size, value)

    def expect(self, site: Site, barrier: MBarrier, threads: Index, ctas: Index, expected: NDArray[Any]) -> None:
        barrier.tx += np.bincount(ctas, expected, barrier.live.size).astype(np.int64)
        wrong = np.flatnonzero(np.abs(barrier.tx[ctas]) > MOST)
        if wrong.size:
            missing = int(barrier.tx[ctas[wrong[0]]])
            what = f"gets a transaction count of {missing}, which is not in the range from -{MOST} to {MOST}"
            self.misuse(site, barrier, threads[wrong], what)

    def count(self, site: Site, barrier: MBarrier, arriving: Arriving) -> None:
        """Count arrivals; those beyond the pending ones belong to the next phases.

        Report arrivals at an incomplete phase that expects no more, and arrivals that must not complete a phase but do.
        """
        threads, ctas = arriving.threads, arriving.ctas
        left = np.bincount(ctas, arriving.each, barrier.live.size).astype(np.int64)
        while True:
            taken = np.minimum(left, barrier.pending)
            barrier.pending -= taken
            left -= taken
            going = fast_unique(ctas)
            if arriving.incomplete and np.count_nonzero(barrier.pending[going] == 0):
                at = threads[barrier.pending[ctas] == 0]
                self.misuse(site, barrier, at, "gets an arrival with .noComplete that completes the phase")
            self.finish_phases(barrier, going)
            if not np.count_nonzero(left):
                return
            past = (left > 0) & (barrier.pending == 0)
            if past.any():
                cta = int(ctas[past[ctas]][0])
                missing, expected = int(barrier.tx[cta]), int(barrier.expected[cta])
                what = f"gets more arrivals than the {expected} of phase {int(barrier.phase[cta])}"
                what += f", which is still missing {missing:,} bytes" if missing > 0 else ""
                hint = "initialize the barrier with the number of arrivals per phase, or let fewer threads arrive"
                self.misuse(site, barrier, threads[past[ctas]], what, hint=hint)
                left[past] = 0

    def finish_phases(self, barrier: MBarrier, ctas: Index) -> None:
        """Start the next phase of the barriers in `ctas` whose current phase is complete.

        Later waits acquire what was released in the completed phases.
        """
        done = ctas[(barrier.pending[ctas] == 0) & (barrier.tx[ctas] == 0)]
        if not done.size:
            return
        if self.finishes is not None:
            self.finishes(barrier, done)
        barrier.phase[done] += 1
        barrier.pending[done] = barrier.expected[done]
        if barrier.phase_order is not None:
            barrier.phase_order.end(done)
        if self.order is not None and self.phase_waits is not None:
            self.phase_waits.end(barrier, barrier.near.coming, done)
            for releases in (barrier.near, barrier.wide):
                releases.complete(self.order, done, keep=True)

    def release(self, barrier: MBarrier, threads: Index) -> None:
        if self.order is not None:
            barrier.near.add(self.order, self.order.release(self.lanes.positions()[threads]))

    def check_phase(
        self, site: Site, barrier: MBarrier, threads: Index, awaited: Index, now: Index, kind: str
    ) -> None:
        """Report waits for phase n when the barrier is in neither phase n nor n + 1; on a GPU, they are ambiguous."""
        wrong = np.flatnonzero((now != awaited) & (now != awaited + 1))
        if wrong.size:
            n, phase = int(awaited[wrong[0]]), int(now[wrong[0]])
            reason = f"a {'state' if kind == 'state' else 'parity'} identifies only the current and the previous phase"
            self.misuse(
                site, barrier, threads[wrong],
                f"is in phase {phase} when its phase {n} is waited for",
                *barrier.last_arrival(int(self.ctas(threads[wrong])[0])),
                hint=f"{reason}: arriving and waiting threads must count the same phases, from 0, without skipping any",
            )

    def note_waits(
        self, site: Site, barrier: MBarrier, threads: Index, awaited: Index, done: NDArray[np.bool_], kind: str
    ) -> None:
        every = np.count_nonzero(done) == done.size
        if every and self.waits is None:
            return
        if self.waits is None:
            self.waits = Waits(self.access, self.operations)
        positions = self.lanes.positions()[threads]
        self.waits.clear(positions)
        if not every:
            self.waits.set(barrier, positions[~done], awaited[~done], kind, site.pc)

    def init_pc(self, address: int, cta: int) -> int | None:
        """Return the instruction that initialized a CTA's barrier at a shared address; None if there is no barrier."""
        barrier = self.at.get(address // BYTES * BYTES)
        return int(barrier.init_pc[cta]) if barrier is not None and barrier.live[cta] else None

    def misuse(
        self, site: Site, barrier: MBarrier, threads: Index, what: str, *others: int, rule: str = "barrier",
        hint: str | None = None,
    ) -> None:
        """Report '<executing threads>: <barrier> <what>'. others[0], if any: an earlier instruction to name."""
        positions = self.lanes.positions()[threads]
        then = ("after", others[0]) if others else None
        message = f"{self.lanes.party(positions)}: {barrier.name} {what}"
        self.access.finding(rule, positions, message, site.pc, hint, then)

    def describe_waits(self, positions: Index, pcs: frozenset[int]) -> tuple[list[str], Index]:
        return ([], positions) if self.waits is None else self.waits.describe(positions, pcs)


def is_complete(now: Index, awaited: Index, kind: str) -> NDArray[np.bool_]:
    """Return a mask of the awaited phases that are complete. now: the current phases. kind: as for `MBarriers.wait`."""
    done: NDArray[np.bool_] = now > awaited >> PENDING_BITS if kind == "state" else (now ^ awaited) & 1 != 0
    return done
