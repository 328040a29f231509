"""Barriers in shared memory (mbarrier): their phases, who has arrived, what is missing.

A phase is a number here, from 0; threads see its lowest bit. It completes when no arrival and no byte is missing. What
memory holds at a barrier's bytes is nobody's business: its state is kept here.

source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier", "Phase of the mbarrier object",
"Tracking asynchronous operations by the mbarrier object".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...fast_unique import fast_unique
from ..checks.late_waiters import LateWaiters
from ..checks.order import HappensBefore, Message
from ..checks.places import PtxPlaces
from ..decode.translate import Program
from ..opcodes.memory import Site
from ..opcodes.move import WINDOWS
from .access import Access
from .lanes import Index, Lanes
from .mbarrier import BYTES, PENDING_BITS, Arrivals, Arriving, MBarrier, Wide
from .operations import Operation, Operations
from .phase_waits import Waits
from .shared_names import name_of

# source: PTX ISA, "Valid range of ... counts"
MOST = (1 << 20) - 1


class MBarriers:
    """All barriers of a chunk, by their shared address.

    waits: what threads wait for, once one does. laggards: who has passed waits, where that is checked.
    operations: those in flight. finishes: called with a barrier and the CTAs in which a phase of it is complete.
    """

    operations: Operations | None = None
    finishes: Callable[[MBarrier, Index], None] | None = None

    def __init__(
        self, program: Program, lanes: Lanes, access: Access, order: HappensBefore | None, places: PtxPlaces
    ) -> None:
        self.program = program
        self.lanes = lanes
        self.access = access
        self.order = order
        self.places = places
        self.at: dict[int, MBarrier] = {}
        self.waits: Waits | None = None
        self.laggards = None if order is None else LateWaiters(order, lanes, places, access.findings)
        self.checker = access.checker if order is not None else None
        if self.checker is not None:
            self.checker.report.made_by = self.made_by

    # what instructions do, for the executing threads

    def init(self, number: int, address: Any, count: Any) -> None:
        """mbarrier.init: a barrier whose phases take so many arrivals each."""
        site = self.access.sites[number]
        for barrier, threads in self.groups(site, address):
            ctas = self.ctas(threads)
            counts = self.of(count, threads).astype(np.int64)
            wrong = np.flatnonzero((counts < 1) | (counts > MOST))
            if wrong.size:
                count = int(counts[wrong[0]])
                self.misuse(site, barrier, threads[wrong], f"takes 1 to {MOST} arrivals a phase, and gets {count}")
            again = np.flatnonzero(barrier.live[ctas])
            if again.size:
                self.misuse(site, barrier, threads[again], "is initialised again", int(barrier.made_by[ctas[again[0]]]))
            barrier.live[ctas] = True
            barrier.fenced[ctas] = False
            barrier.published[ctas] = 0
            barrier.phase[ctas] = barrier.tx[ctas] = 0
            barrier.expected[ctas] = barrier.pending[ctas] = counts
            barrier.made_by[ctas] = site.pc
            barrier.made_at[ctas] = self.lanes.positions()[threads]
            barrier.forget(ctas)
            if self.checker is not None:
                self.checker.make_barriers(barrier.region, barrier.cells(ctas), threads, site)
            barrier.made[ctas] = self.order.tick(site.pc) if self.order is not None else 0
            self.changed()

    def inval(self, number: int, address: Any) -> None:
        """mbarrier.inval: its bytes are ordinary memory again."""
        site = self.access.sites[number]
        for barrier, threads in self.living(site, address):
            self.check_used(site, barrier, threads)
            barrier.live[self.ctas(threads)] = False
            if self.checker is not None:
                self.checker.free_barriers(barrier.region, barrier.cells(self.ctas(threads)), threads, site)
            self.changed()

    def fence_init(self) -> None:
        """fence.mbarrier_init: what these threads have initialised is visible to everybody who knows of the fence."""
        now = self.order.tick(0) if self.order is not None else 0
        for barrier in self.at.values():
            made = np.isin(barrier.made_at, self.lanes.positions())
            barrier.fenced |= made
            barrier.published[made & (barrier.published == 0)] = now

    def fence_proxy(self) -> None:
        """fence.proxy.async: what these threads have initialised is visible to operations of their CTAs."""
        for barrier in self.at.values():
            barrier.fenced |= np.isin(barrier.made_at, self.lanes.positions())

    def arrive(
        self, number: int, address: Any, count: Any, expected: Any, wanted: bool, drop: bool, incomplete: bool,
        releases: bool,
    ) -> Any:
        """mbarrier.arrive: each thread arrives once, or `count` times, after it expects so many more bytes.

        drop: it takes part in no later phase. incomplete: it must not complete the phase.
        returns: the states before, if `wanted`.
        """
        site = self.access.sites[number]
        states = np.zeros(self.lanes.n, np.uint64)
        release = self.release if releases else None
        for barrier, threads in self.living(site, address):
            each = np.ones(threads.size, np.int64) if count is None else self.of(count, threads).astype(np.int64)
            arriving = Arriving(threads, self.ctas(threads), each, drop, incomplete)
            states[threads] = self.arrive_at(site, barrier, arriving, expected, release)
        return states if wanted else None

    def arrive_at(
        self, site: Site, barrier: MBarrier, arriving: Arriving, expected: Any,
        release: Callable[[MBarrier, Index], None] | None,
    ) -> NDArray[np.uint64]:
        """Arrivals at barriers of one address, whose CTAs ascend. returns: the states before.

        release: releases what executing threads know and have done into the current phases.
        """
        threads, ctas, each = arriving.threads, arriving.ctas, arriving.each
        if expected is not None:
            self.expect(site, barrier, threads, ctas, self.of(expected, threads))
        phases, states = barrier.phase[ctas], barrier.states_before(ctas, each)
        arrived_in = (states >> PENDING_BITS).astype(np.int64)
        barrier.note(Arrivals(site.pc, self.lanes.positions()[threads], ctas, arrived_in))
        if arriving.drop:
            barrier.expected -= np.bincount(ctas, each, barrier.live.size).astype(np.int64)
        # a phase brings nothing of those who arrive once it is complete
        for later in fast_unique(arrived_in - phases).tolist():
            at = np.flatnonzero(arrived_in - phases == later)
            if barrier.turns is not None:
                barrier.turns.arrive(barrier.name, self.lanes.positions()[threads[at]], ctas[at], site.pc)
            if release is not None:
                release(barrier, threads[at])
            self.count(site, barrier, arriving.part(at))
        self.changed()
        return states

    def expect_tx(self, number: int, address: Any, expected: Any) -> None:
        """mbarrier.expect_tx: the current phase takes so many more bytes."""
        site = self.access.sites[number]
        for barrier, threads in self.living(site, address):
            self.check_in_time(site, barrier, threads)
            self.expect(site, barrier, threads, self.ctas(threads), self.of(expected, threads))
            self.finish_phases(barrier, fast_unique(self.ctas(threads)))
            self.changed()

    def check_in_time(self, site: Site, barrier: MBarrier, threads: Index) -> None:
        """Bytes are expected while the phase still lacks something that isn't on its way: else it may be complete."""
        ctas = self.ctas(threads)
        for at in np.flatnonzero((barrier.pending[ctas] == 0) & (barrier.tx[ctas] > 0)):
            cta = int(ctas[at])
            flying = self.operations.naming(barrier.address, cta) if self.operations is not None else []
            signals = (signal for operation in flying for signal in operation.signals)
            coming = sum(s.size_bytes for s in signals if (s.address, s.cta) == (barrier.address, cta))
            if coming >= barrier.tx[cta]:
                self.misuse(
                    site, barrier, threads[[at]],
                    f"is told of more bytes when all else of phase {int(barrier.phase[cta])} has come or is on its "
                    "way: it may be complete before",
                    hint="start the copy in front of the last arrival of its phase",
                )

    def complete_tx(self, number: int, address: Any, completed: Any) -> None:
        """mbarrier.complete_tx: so many bytes of the current phase have come."""
        site = self.access.sites[number]
        for barrier, threads in self.living(site, address):
            self.expect(site, barrier, threads, self.ctas(threads), -self.of(completed, threads).astype(np.int64))
            self.finish_phases(barrier, fast_unique(self.ctas(threads)))
            self.changed()

    def wait(self, number: int, address: Any, phase: Any, kind: str, acquires: str) -> Any:
        """mbarrier.test_wait, .try_wait: whether each thread's phase is complete.

        kind: how `phase` gives it, as "state", "parity" or "number". acquires: at the scope "cta" or "cluster"; "" if
        it doesn't.
        """
        site = self.access.sites[number]
        complete = np.zeros(self.lanes.n, bool)
        for barrier, threads in self.living(site, address):
            now = barrier.phase[self.ctas(threads)]
            asked = self.of(phase, threads).astype(np.int64)
            if kind == "state":
                asked >>= PENDING_BITS
                done = now > asked
                self.check_phase(site, barrier, threads, asked, now, "a state says nothing about that")
            elif kind == "number":
                self.check_phase(site, barrier, threads, asked, now, "its parity says nothing about that")
                done = (now ^ asked) & 1 != 0
                if self.laggards is not None:
                    self.laggards.note(barrier, threads[done], asked[done], site.pc)
            else:
                done = (now ^ asked) & 1 != 0
            complete[threads] = done
            if self.order is not None and acquires and site.pc not in self.program.courses.unheeded:
                self.acquire(self.order, barrier, threads[done], acquires == "cluster")
                if barrier.turns is not None:
                    barrier.turns.passed(self.lanes.positions()[threads[done]], self.ctas(threads[done]))
            self.note_waits(site, barrier, threads, asked, done, kind)
        return complete

    def acquire(self, order: HappensBefore, barrier: MBarrier, threads: Index, wide: bool) -> None:
        """These executing threads know that a phase is complete, and with it all that it brings."""
        for message in (barrier.done, barrier.wide.done if wide else None) if threads.size else ():
            if message is not None:
                order.learn(self.lanes.positions()[threads], message)

    def pending_count(self, state: Any) -> Any:
        """mbarrier.pending_count: the arrivals that were missing, by a state."""
        return (state & np.uint64(MOST)).astype(np.uint32)

    # what asynchronous operations do

    def check_visible(self, site: Site, address: int, position: int, cta: int) -> None:
        """Check that the barrier to which an operation of another CTA will report has been fenced for that.

        Operations of the barrier's own CTA need only what orders their issuer: a barrier of the CTA is enough.
        """
        barrier = self.at.get(address)
        if barrier is None or not barrier.live[cta] or barrier.fenced[cta]:
            return
        made = int(barrier.made_by[cta])
        self.access.findings.add(
            "barrier",
            f"{barrier.name} is given to an asynchronous operation by {self.lanes.describe_position(position)}\n"
            f"  {self.places.describe(site.pc)}\nwith no fence.mbarrier_init by the thread that initialised it\n"
            f"  {self.places.describe(made)}",
            site.pc, made, self.lanes.numbers(np.array([position])),
            hint="put fence.mbarrier_init.release.cluster behind the initialisation, in front of the barrier",
        )

    def delivered(self, operation: Operation) -> None:
        """An operation has been carried out: the bytes that it reports have come."""
        for signal in operation.signals:
            barrier = self.at.get(signal.address)
            if barrier is None or not barrier.live[signal.cta]:
                name = name_of(self.access.memory, signal.address, BYTES)
                self.access.findings.add(
                    "barrier",
                    f"a {operation.what} reports to mbarrier {name}, which nothing has initialised\n"
                    f"  {self.places.describe(operation.pc)}",
                    operation.pc, None, self.lanes.numbers(np.array([operation.issuer])),
                )
                continue
            if operation.news is not None:
                self.bring(barrier, operation.news)
            barrier.tx[signal.cta] -= signal.size_bytes
            self.finish_phases(barrier, np.array([signal.cta]))
        self.changed()

    # inside

    def groups(self, site: Site, address: Any) -> Iterator[tuple[MBarrier, Index]]:
        """(barrier, executing threads) of each address; threads with a wrong one, which is reported, are left out."""
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
        """The barriers at an address, which is checked when it is used first."""
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
        name = f"mbarrier {name_of(self.access.memory, shared, BYTES)}"
        barrier = self.at[shared] = MBarrier(shared, region, self.lanes, name)
        if self.order is not None and not self.order.facts.relaxed:
            barrier.check_turns(self.order, self.access.findings)
        return barrier

    def living(self, site: Site, address: Any) -> Iterator[tuple[MBarrier, Index]]:
        """As `groups`, without the threads whose barrier nobody has initialised, which is reported."""
        for barrier, threads in self.groups(site, address):
            live = barrier.live[self.ctas(threads)]
            if np.count_nonzero(live) < live.size:
                self.misuse(site, barrier, threads[~live], "is used, which nothing has initialised")
                threads = threads[live]
            if threads.size:
                self.check_made(site, barrier, threads)
                if self.order is not None:
                    barrier.used[self.lanes.positions()[threads]] = self.order.tick(site.pc)
                yield barrier, threads

    def check_made(self, site: Site, barrier: MBarrier, threads: Index) -> None:
        """Whoever uses a barrier must be ordered behind its initialisation."""
        if self.order is None:
            return
        ctas = self.ctas(threads)
        fresh = np.flatnonzero(barrier.made[ctas] >= self.order.cta_start[ctas + self.lanes.first])
        if not fresh.size:
            return
        gid = self.lanes.full["gid"].astype(np.int64)
        maker, me = gid[barrier.made_at[ctas[fresh]]], self.lanes.get("gid").astype(np.int64)[threads[fresh]]
        ordered = (maker == me) | self.order.ordered(maker, barrier.made[ctas[fresh]], me)
        wrong = fresh[~ordered]
        if wrong.size:
            pc = int(barrier.made_by[ctas[wrong[0]]])
            self.misuse(site, barrier, threads[wrong], "is used with nothing that orders that", pc, rule="race")

    def check_used(self, site: Site, barrier: MBarrier, threads: Index) -> None:
        """Whoever gives a barrier's bytes back must be ordered behind all that its CTA did with it."""
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
                self.misuse(
                    site, barrier, np.array([thread]), "is given back with nothing that orders that", pc, rule="race"
                )

    def ctas(self, threads: Index) -> Index:
        """The CTAs of executing threads, in the chunk."""
        ctas: Index = self.lanes.get("chunk_cta")[threads]
        return ctas

    def of(self, value: Any, threads: Index) -> NDArray[Any]:
        """The elements of executing threads, of an array or of a scalar that all share."""
        return value[threads] if np.ndim(value) else np.full(threads.size, value)

    def expect(self, site: Site, barrier: MBarrier, threads: Index, ctas: Index, expected: NDArray[Any]) -> None:
        barrier.tx += np.bincount(ctas, expected, barrier.live.size).astype(np.int64)
        wrong = np.flatnonzero(np.abs(barrier.tx[ctas]) > MOST)
        if wrong.size:
            missing = int(barrier.tx[ctas[wrong[0]]])
            self.misuse(site, barrier, threads[wrong], f"misses {missing} bytes; it counts from -{MOST} to {MOST}")

    def count(self, site: Site, barrier: MBarrier, arriving: Arriving) -> None:
        """Count arrivals, phase by phase where one instruction makes more than are missing."""
        threads, ctas = arriving.threads, arriving.ctas
        left = np.bincount(ctas, arriving.each, barrier.live.size).astype(np.int64)
        while True:
            taken = np.minimum(left, barrier.pending)
            barrier.pending -= taken
            left -= taken
            going = fast_unique(ctas)
            if arriving.incomplete and np.count_nonzero(barrier.pending[going] == 0):
                at = threads[barrier.pending[ctas] == 0]
                self.misuse(site, barrier, at, "has all its arrivals by one that must not complete the phase")
            self.finish_phases(barrier, going)
            if not np.count_nonzero(left):
                return
            past = (left > 0) & (barrier.pending == 0)
            if past.any():
                at = threads[past[ctas]]
                self.misuse(
                    site, barrier, at, self.past_the_count(barrier, int(ctas[past[ctas]][0])),
                    hint="make the barrier for as many arrivals as there are in a phase, or let fewer threads arrive",
                )
                left[past] = 0

    def past_the_count(self, barrier: MBarrier, cta: int) -> str:
        missing = int(barrier.tx[cta])
        return (
            f"gets an arrival more than the {int(barrier.expected[cta])} of phase {int(barrier.phase[cta])}, "
            f"which still misses {missing:,} bytes"
        )

    def finish_phases(self, barrier: MBarrier, ctas: Index) -> None:
        """Begin the next phase where nothing is missing of this one."""
        done = ctas[(barrier.pending[ctas] == 0) & (barrier.tx[ctas] == 0)]
        if done.size:
            if self.finishes is not None:
                self.finishes(barrier, done)
            barrier.phase[done] += 1
            barrier.pending[done] = barrier.expected[done]
            if barrier.turns is not None:
                barrier.turns.end(done)
            self.pass_on(barrier, done)

    def release(self, barrier: MBarrier, threads: Index) -> None:
        """What executing threads know and have done comes with the current phase."""
        if self.order is None:
            return
        self.bring(barrier, self.order.release(self.lanes.positions()[threads]))

    def bring(self, to: MBarrier | Wide, message: Message) -> None:
        """What a message says comes with the current phase."""
        assert self.order is not None, "messages are for checks"
        to.coming = message if to.coming is None else self.order.joined([to.coming, message])

    def pass_on(self, barrier: MBarrier, ctas: Index) -> None:
        """What has been released into a phase that is complete now is there for those who wait for it.

        A phase brings what earlier ones did: all arrivals update one location, one after the other.
        """
        if self.order is None or barrier.coming is None:
            return
        if self.laggards is not None:
            self.laggards.check(barrier, barrier.coming, ctas)
        self.bring_to_end(barrier, ctas)
        self.bring_to_end(barrier.wide, ctas)

    def bring_to_end(self, of: MBarrier | Wide, ctas: Index) -> None:
        """What comes with the current phase of these CTAs has come."""
        if of.coming is None or self.order is None:
            return
        fresh = of.coming.part(ctas)
        of.done = fresh if of.done is None else self.order.joined([of.done, fresh])
        of.coming.clear(ctas)

    def check_phase(
        self, site: Site, barrier: MBarrier, threads: Index, asked: Index, now: Index, reason: str
    ) -> None:
        """Who asks for phase n must do so in n or n + 1: a barrier knows no more of phases, and no older states."""
        wrong = np.flatnonzero((now != asked) & (now != asked + 1))
        if wrong.size:
            n, phase = int(asked[wrong[0]]), int(now[wrong[0]])
            self.misuse(
                site, barrier, threads[wrong],
                f"is waited for in phase {n}, but is in phase {phase}: {reason}",
                *(pc for pc, _ in barrier.last_arrivals(int(self.ctas(threads[wrong])[0]))),
                hint="who arrives and who waits count the same steps, from 0, and none is left out on either side",
            )

    def note_waits(
        self, site: Site, barrier: MBarrier, threads: Index, asked: Index, done: NDArray[np.bool_], kind: str
    ) -> None:
        every = np.count_nonzero(done) == done.size
        if every and self.waits is None:
            return
        if self.waits is None:
            self.waits = Waits(self.lanes, self.places)
        positions = self.lanes.positions()[threads]
        self.waits.clear(positions)
        if not every:
            self.waits.set(barrier, positions[~done], asked[~done], kind, site.pc)

    def changed(self) -> None:
        """A barrier is no longer as it was: who waits may look again."""
        if self.access.watched is not None:
            self.access.watched.written_elsewhere()

    def made_by(self, address: int, cta: int) -> int | None:
        """The instruction that made the barrier to which a shared address of a CTA belongs."""
        barrier = self.at.get(address // BYTES * BYTES)
        return int(barrier.made_by[cta]) if barrier is not None and barrier.live[cta] else None

    # in words

    def misuse(
        self, site: Site, barrier: MBarrier, threads: Index, what: str, *others: int, rule: str = "barrier",
        hint: str | None = None,
    ) -> None:
        """Report what executing threads do with a barrier; `others` are other instructions that are to blame."""
        positions = self.lanes.positions()[threads]
        text = f"{barrier.name} {what}, by {self.lanes.party(positions)}\n  {self.places.describe(site.pc)}"
        text += "".join(f"\nafter\n  {self.places.describe(pc)}" for pc in others[:1])
        self.access.findings.add(
            rule, text, site.pc, others[0] if others else None, self.lanes.numbers(positions), positions.size, hint
        )

    def describe_waits(
        self, positions: Index, pcs: frozenset[int], operations: Operations
    ) -> tuple[list[str], Index]:
        """A line or more for each phase that some of these threads wait for at these instructions; and the others."""
        return ([], positions) if self.waits is None else self.waits.describe(positions, pcs, operations)
