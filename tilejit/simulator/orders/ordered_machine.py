"""A machine that runs its threads event by event, in an order that a director chooses.

After each event, the warps run what no other warp can observe, until each of them is at its next event. A warp that
would only repeat an iteration of a wait loop isn't offered to the director.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass, field
from ...errors import SimulationError
from ...fast_unique import fast_unique
from ..decode.blocks import synchronizes
from ..decode.names import DTYPES
from ..decode.translate import TranslatedBlock
from ..machine.barriers import Released
from ..machine.lanes import RANK_SHIFT, Index
from ..machine.machine import Machine
from ..machine.mbarrier import MBarrier
from ..machine.operations import Operation
from ..opcodes.memory import Site
from . import wait_loops
from .events import Agent, Event, Race, Use, Waiter, conflicts, is_memory
from .wait_loops import Place

if TYPE_CHECKING:
    from ..machine.clusters import Clusters

#: updates that commute with updates of the same kind
COMMUTING = frozenset({"add", "min", "max", "and", "or", "xor"})
#: (block, threads), or an operation
Option = tuple[int, Index] | Operation


class Director(Protocol):
    """Chooses the next event. ordered: words at which no updates commute. loops: the program's wait loops."""

    loops: wait_loops.WaitLoops
    ordered: set[Place]

    def is_read(self, pc: int) -> bool: ...

    def choose(self, machine: OrderedMachine, options: dict[Agent, Option]) -> Agent: ...

    def happened(self, machine: OrderedMachine, event: Event) -> None: ...


class Reordered(Exception):
    """Updates of a word don't commute, because a wait may end between them: the search must begin again."""


@dataclass(slots=True)
class Phases:
    """The uses of a barrier, by phase."""

    arrivals: dict[int, list[Event]] = field(default_factory=dict)
    stays: dict[int, list[Event]] = field(default_factory=dict)


class OrderedMachine(Machine):
    def __init__(self, director: Director, *args: Any) -> None:
        super().__init__(*args)
        self.director = director
        self.warp_of: Index = self.lanes.full["chunk_warp"]
        body, blocks = self.program.function.body, self.program.blocks
        self.visible = [bool(x.block.pcs) and synchronizes(body[x.block.pcs[0]]) for x in blocks]
        heads = {head for _, head in self.waiting}
        self.in_loops = {x.block.index for x in blocks if heads & self.program.control_flow.members(x.block.index)}
        self.events: list[Event] = []
        self.races: list[Race] = []
        #: the current event; None while threads run what no other warp can observe
        self.event: Event | None = None
        #: why a clean run doesn't prove anything
        self.reasons: set[str] = set()
        #: per warp: the events that happen before its next one, as a bit set
        self.known = [0] * (self.lanes.ctas * self.lanes.warps_per_cta)
        self.memory_uses: dict[Place, list[tuple[Event, Use]]] = {}
        self.phases: dict[Place, Phases] = {}
        self.bar_phase: dict[Place, int] = {}
        self.inits: dict[Place, int] = {}
        self.released_now: list[tuple[Place, list[int]]] = []
        #: agent → operation, what its issuer knew, and the event that issued it
        self.flying: dict[Agent, tuple[Operation, int, Event | None]] = {}
        self.issued = [0] * len(self.known)
        #: (block, first thread) → (its threads, those that needn't wait, the places that decide this)
        self.guards: dict[tuple[int, int], tuple[bytes, Index, set[Place]]] = {}
        #: per warp, since it changed anything: the states in which it has been at a block, and the places it has read
        self.states: list[dict[int, int]] = [{} for _ in self.known]
        self.reads: list[set[Place]] = [set() for _ in self.known]
        #: (block, first thread) of a warp that is back in an earlier state → the places that may change that
        self.stuck: dict[tuple[int, int], set[Place]] = {}
        self.stalled: dict[int, Index | None] = {}
        self.ending = self.stored = False
        self.observe()

    def observe(self) -> None:
        self.load, self.store, self.atomic = self.observed_load, self.observed_store, self.observed_atomic
        mbarriers, operations = self.mbarriers, self.operations
        mbarriers.arrives, mbarriers.passes = self.arrives, self.passes
        init, expect_tx, delivered, issue = mbarriers.init, mbarriers.expect_tx, mbarriers.delivered, operations.issue
        release = self.barriers.release

        def observed_init(number: int, address: Any, count: Any) -> None:
            for barrier, threads in mbarriers.groups(self.access.sites[number], address):
                for cta in fast_unique(mbarriers.ctas(threads)).tolist():
                    self.inits[barrier.address, cta] = self.inits.get((barrier.address, cta), 0) + 1
            init(number, address, count)

        def observed_expect(number: int, address: Any, expected: Any, completes: bool = False) -> None:
            for barrier, threads in mbarriers.groups(self.access.sites[number], address):
                for cta in fast_unique(mbarriers.ctas(threads)).tolist():
                    self.use(self.mbarrier(barrier, cta), "arrive" if completes else "stay", int(barrier.phase[cta]))
            expect_tx(number, address, expected, completes)

        def observed_delivery(operation: Operation) -> None:
            for signal in operation.signals:
                barrier = mbarriers.at.get(signal.address)
                if barrier is not None:
                    self.use(self.mbarrier(barrier, signal.cta), "arrive", int(barrier.phase[signal.cta]))
            delivered(operation)

        def observed_issue(operation: Operation) -> None:
            warp = int(self.warp_of[operation.issuer])
            if operation.signals:
                self.issued[warp] += 1
                event = self.event if self.event is not None and self.event.agent == str(warp) else None
                self.flying[f"{warp}.{self.issued[warp]}"] = operation, self.known[warp], event
            issue(operation)

        def observed_release(number: int, count: int | None, full: NDArray[np.bool_]) -> list[Released]:
            released = release(number, count, full)
            for cta in np.flatnonzero(full).tolist():
                going = [p[self.lanes.full["chunk_cta"][p] == cta] for _, p, _, _ in released if p is not None]
                warps = fast_unique(self.warp_of[np.concatenate(going)]).tolist() if going else []
                self.released_now.append((("barrier", cta, number), warps))
            if self.event is None:
                self.spread()
            return released

        mbarriers.init, mbarriers.expect_tx = observed_init, observed_expect  # type: ignore[method-assign]
        operations.delivered, operations.issue = observed_delivery, observed_issue  # type: ignore[method-assign]
        self.barriers.release = observed_release  # type: ignore[method-assign]

    # execution

    def run(self) -> None:
        try:
            self.close()
            while options := self.options():
                agent = self.director.choose(self, options)
                self.perform(agent, options[agent])
            self.note_pending()
        except SimulationError:
            self.event = None
            self.run_exits()
            raise
        # what is left are deliveries without signals, and threads that wait forever
        self.ending = True
        for number, group in self.stalled.items():
            self.merge(self.parked, number, group)
        super().run()

    def options(self) -> dict[Agent, Option]:
        """Return what may come next: for each warp, its lowest block that isn't blocked; and signals."""
        result: dict[Agent, Option] = {}
        for number in sorted(self.ready):
            for part in self.by_warp(self.ready[number]):
                agent = str(self.warp_of[part[0]])
                going = part if agent in result else self.going(number, part)
                if agent not in result and going.size:
                    result[agent] = number, going
        ready = self.operations.ready() if self.flying else []
        result.update((agent, x) for agent, (x, _, _) in self.flying.items() if x in ready)
        return result

    def by_warp(self, group: Index | None) -> list[Index]:
        positions = self.lanes.members(group)
        return np.split(positions, np.flatnonzero(np.diff(self.warp_of[positions])) + 1) if positions.size else []

    def going(self, number: int, part: Index) -> Index:
        """Return the threads of a group at an event that needn't wait there."""
        key = number, int(part[0])
        if key in self.stuck:
            return part[:0]
        guard = self.guards.get(key)
        if guard is not None and guard[0] == part.tobytes():
            return guard[1]
        waiter = self.waiter(number, part)
        if waiter is None:
            return part
        imagined = wait_loops.Imagined(self, self.places_of)
        going: Index
        if waiter.loop is not None:
            going = part[wait_loops.outcomes(imagined, waiter.loop, part, waiter.inputs) != waiter.loop.head]
        else:
            compiled = self.program.blocks[number]
            self.select(part)
            passes = compiled.run(imagined, *[self.registers.value(s, part) for s in compiled.inputs])[0]
            going = part[np.broadcast_to(passes, part.shape)]
        self.guards[key] = part.tobytes(), going, imagined.places
        return going

    def waiter(self, number: int, part: Index) -> Waiter | None:
        """Return the wait of a group at an event; None if it doesn't wait, or in an unknown way."""
        pc = self.first_pc(number)
        loops = self.director.loops
        loop = loops.of(pc)
        if loop is None and (not self.is_wait(pc) or not loops.precedes_loop(pc)):
            return None
        self.registers.write_back()
        self.select(part)
        inputs = loop.inputs if loop is not None else ()
        return Waiter(loop, part, {slot: self.registers.value(slot, part) for slot in inputs})

    def is_wait(self, pc: int) -> bool:
        ins = self.program.function.body[pc]
        return ins.root == "mbarrier" and "_wait" in ins.suffix

    def perform(self, agent: Agent, option: Option) -> None:
        event = self.event = Event(len(self.events), agent, -1)
        self.events.append(event)
        warp = int(agent.partition(".")[0])
        try:
            if isinstance(option, Operation):
                _, known, issue = self.flying.pop(agent)
                event.pre = known | (issue.before_later if issue is not None else 0)
                event.pc, event.what = option.pc, f"{option.what} is delivered"
                self.operations.deliver(option)
            else:
                number, part = option
                event.pc, event.pre = self.first_pc(number), self.known[warp]
                event.waiter = self.waiter(number, part)
                self.take(number, part)
                self.run_part(number, part)
        finally:
            self.settle(event)
            self.director.happened(self, event)
        self.event = None
        if not isinstance(option, Operation):
            self.known[warp] |= event.before_later
        self.spread()
        self.close()
        changed = {x.place[:3] for x in event.uses if x.kind not in ("read", "stay", "wait")}
        self.guards = {
            at: x for at, x in self.guards.items() if self.warp_of[at[1]] != warp and changed.isdisjoint(x[2])
        }
        for at in [at for at, places in self.stuck.items() if not changed.isdisjoint(places)]:
            del self.stuck[at]
            self.states[self.warp_of[at[1]]].clear()
        if not isinstance(option, Operation):
            self.note_state(event, warp)

    def take(self, number: int, part: Index) -> None:
        """Remove threads from the group at a block."""
        positions = self.lanes.members(self.ready.pop(number))
        if positions.size > part.size:
            self.ready[number] = np.setdiff1d(positions, part, assume_unique=True)

    def close(self) -> None:
        """Run what no other warp can observe, at the lowest block first."""
        retried = -1
        while True:
            local = [number for number in self.ready if not self.visible[number]]
            if local:
                self.run_part(min(local), self.lanes.members(self.ready.pop(min(local))))
            elif (self.held or self.parked) and self.advanced != retried:
                retried = self.advanced
                self.unpark()
            else:
                return

    def send(self, origin: int, target: int, group: Index | None) -> None:
        if self.ending or not 0 <= target <= origin:
            super().send(origin, target, group)
        elif (origin, target) in self.waiting or not self.loops.repeats(
            target, group, target in self.program.control_flow.endless, self.deciding_values
        ):
            self.merge(self.ready, target, group)
        else:
            self.merge(self.stalled, target, group)

    def note_state(self, event: Event, warp: int) -> None:
        """Detect that a warp has returned to an earlier state without having changed anything."""
        if event.changed or self.stored:
            for states in self.states if self.stored else [self.states[warp]]:
                states.clear()
            self.reads[warp].clear()
            self.stored = False
        self.reads[warp].update(x.place[:3] for x in event.uses)
        for number in sorted(self.in_loops & self.ready.keys()):
            for part in self.by_warp(self.ready[number]):
                if self.warp_of[part[0]] != warp:
                    continue
                values = [(slot, np.asarray(x).tobytes()) for slot, x in self.deciding_values(number, part)]
                state = hash((part.tobytes(), *values))
                if self.states[warp].get(number) == state:
                    self.stuck[number, int(part[0])] = set(self.reads[warp])
                self.states[warp][number] = state
                return

    # observation

    def use(self, place: Place, kind: str, phase: int = 0, **access: Any) -> None:
        if self.event is not None:
            self.event.uses.append(Use(place, kind, phase, **access))
        elif kind not in ("read", "stay", "wait"):
            self.reasons.add("events at the end, or of operations that were waited for")

    def mbarrier(self, barrier: MBarrier, cta: int) -> Place:
        return "mbarrier", barrier.address, cta, self.inits.get((barrier.address, cta), 0)

    def places_of(self, number: int, address: Any) -> list[Place]:
        return [place for places, _, _ in self.elements(number, address) for place in places]

    def elements(self, number: int, address: Any) -> Iterator[tuple[list[Place], Index, NDArray[Any]]]:
        """For each element that an access uses: the words, the executing threads, and its memory as an array of one."""
        site = self.access.sites[number]
        each = self.lanes.each(address)
        bound, index = self.access.resolve(number, each)
        if bound is None:
            for part in self.access.parts(number, each):
                yield from self.elements(number, each[part])
            return
        region = bound.region
        if region.space in ("local", "param", "const"):
            return
        base = region.base & ((1 << RANK_SHIFT) - 1) if region.space == "shared" else region.base
        for one in fast_unique(index).tolist():
            start = bound.lead + (one << site.shift)
            words = range(start >> 2, (start + (1 << site.shift) - 1 >> 2) + 1)
            places: list[Place] = [(region.space, base, word) for word in words]
            yield places, np.flatnonzero(index == one), bound.view[one : one + 1]

    def observed_load(self, number: int, address: Any) -> Any:
        if self.access.sites[number].strong:
            self.note_reads(number, address)
        return self.access.load(number, address)

    def note_reads(self, number: int, address: Any) -> None:
        start = self.access.sites[number].shift
        for places, threads, view in self.elements(number, address):
            for place in places:
                at = (places[0][2], start)
                self.use(place, "read", start=at, before=view[0], after=view[0], thread=int(threads[0]))

    def observed_store(self, number: int, address: Any, value: Any) -> None:
        if not self.access.sites[number].strong:
            self.stored = True
            self.access.store(number, address, value)
            return
        self.note_writes(number, address, "", lambda: self.access.store(number, address, value))

    def observed_atomic(self, number: int, address: Any, wanted: bool, *operands: Any) -> Any:
        site = self.access.sites[number]
        commutes = site.op.partition(".")[0] in COMMUTING and not (wanted and self.director.is_read(site.pc))
        return self.note_writes(
            number, address, site.op if commutes else "atomic",
            lambda: self.access.atomic(number, address, wanted, *operands))

    def note_writes(self, number: int, address: Any, kind: str, write: Any) -> Any:
        """Call `write`, and record the words that it writes; an atomic that changes nothing is a read.

        kind: "" for a store, "atomic", or an update that commutes with its kind.
        """
        found = [(*x, x[2].copy()) for x in self.elements(number, address)]
        result = write()
        for places, threads, view, before in found:
            start = places[0][2], self.access.sites[number].shift
            step = view[0] - before[0] if kind.startswith("add.") and view.dtype.kind in "iu" else None
            for place in places:
                use = "write" if kind in ("", "atomic") or place in self.director.ordered else kind
                if kind == "atomic" and before.tobytes() == view.tobytes():
                    use = "read"
                self.use(place, use, start=start, before=before[0], after=view[0], step=step, thread=int(threads[0]))
        return result

    def arrives(self, site: Site, barrier: MBarrier, positions: Index, ctas: Index, phases: Index) -> None:
        for cta, phase in sorted(set(zip(ctas.tolist(), phases.tolist(), strict=True))):
            self.use(self.mbarrier(barrier, cta), "arrive", phase)

    def passes(
        self, site: Site, barrier: MBarrier, threads: Index, done: NDArray[np.bool_], phases: Index
    ) -> None:
        is_wait = self.event is not None and self.event.waiter is not None
        for cta in fast_unique(self.mbarriers.ctas(threads)).tolist():
            self.use(self.mbarrier(barrier, cta), "wait" if is_wait else "stay", int(barrier.phase[cta]))

    def arrive(self, compiled: TranslatedBlock, group: Index | None, request: tuple[Any, ...]) -> None:
        positions = self.lanes.positions()
        numbers = np.broadcast_to(request[1], positions.shape).tolist()
        for cta, number in sorted(set(zip(self.lanes.full["chunk_cta"][positions].tolist(), numbers, strict=True))):
            place = "barrier", cta, number
            self.use(place, "arrive", self.bar_phase.get(place, 0))
        super().arrive(compiled, group, request)

    @cached_property
    def clusters(self) -> Clusters:  # type: ignore[override]
        clusters = super().clusters
        arrive, wait = clusters.arrive, clusters.wait

        def homes() -> list[int]:
            found: list[int] = fast_unique(clusters.home[self.lanes.positions()]).tolist()
            return found

        def observed_arrive(*args: Any) -> None:
            for home in homes():
                self.use(("cluster", home), "arrive", int(clusters.phase[home]))
            arrive(*args)

        def observed_wait(*args: Any) -> None:
            wait(*args)
            for home in homes():
                arrivals = self.phases_of(("cluster", home)).arrivals.get(int(clusters.phase[home]) - 1, [])
                for warp in fast_unique(self.warp_of[self.lanes.positions()]).tolist():
                    self.known[warp] |= union(arrivals)

        clusters.arrive, clusters.wait = observed_arrive, observed_wait  # type: ignore[method-assign, assignment]
        return clusters

    def spread(self) -> None:
        """Let the warps that a barrier has released know of all arrivals."""
        for place, warps in self.released_now:
            phase = self.bar_phase.get(place, 0)
            self.bar_phase[place] = phase + 1
            past = union(self.phases_of(place).arrivals.get(phase, []))
            for warp in warps:
                self.known[warp] |= past
        self.released_now.clear()

    def phases_of(self, place: Place) -> Phases:
        return self.phases.setdefault(place, Phases())

    def phase_now(self, place: Place) -> int:
        if place[0] == "mbarrier":
            return int(self.mbarriers.at[place[1]].phase[place[2]])
        if place[0] == "cluster":
            return int(self.clusters.phase[place[1]])
        return self.bar_phase.get(place, 0) + any(x == place for x, _ in self.released_now)

    # races

    def settle(self, event: Event) -> None:
        """Order an event after the earlier ones that it conflicts with; find its races."""
        joined, open_ = 0, set[int]()
        for use in event.uses:
            if is_memory(use.place):
                log = self.memory_uses.setdefault(use.place, [])
                if event.waiter is not None:
                    open_.update(self.outrun(event, use, log))
                    joined |= union(f for f, x in log if conflicts(x, use))
                else:
                    open_.update(f.index for f, x in log if conflicts(x, use))
                log.append((event, use))
            else:
                phases, k = self.phases_of(use.place), use.phase
                earlier = [f.index for f in phases.arrivals.get(k - 1, ()) if f is not event]
                if use.kind == "wait":
                    joined |= union(phases.arrivals.get(k - 1, []))
                    earlier = [f.index for i, each in phases.arrivals.items() if i < k - 1 for f in each]
                open_.update(earlier)
                (phases.arrivals if use.kind == "arrive" else phases.stays).setdefault(k, []).append(event)
        event.past = event.pre
        for f in sorted(open_ - {event.index}, reverse=True):
            if not event.past >> f & 1:
                self.races.append(Race(f, event.index, event.agent, event.past, event.waiter is not None))
                if event.waiter is None:
                    event.past |= self.events[f].before_later
        for f in open_ - {event.index}:
            event.past |= self.events[f].before_later
        event.past |= joined & ~(1 << event.index)
        for use in event.uses:
            if use.kind == "arrive" and self.phase_now(use.place) > use.phase:
                use.completes = True
                self.check_stays(event, use)

    def check_stays(self, event: Event, use: Use) -> None:
        """Find the events that had to happen before the end of this phase, but need not have."""
        phases = self.phases_of(use.place)
        known = union(phases.arrivals[use.phase])
        for stay in sorted(phases.stays.get(use.phase, []), key=lambda x: -x.index):
            if not (known | event.past) >> stay.index & 1:
                self.races.append(Race(stay.index, event.index, event.agent, event.past, False))
                event.past |= stay.before_later

    def outrun(self, event: Event, use: Use, log: Sequence[tuple[Event, Use]]) -> list[int]:
        """Return the conflicting events unknown to an event that ends a wait loop, before which the loop could end.

        raises: Reordered if updates that are taken as commuting matter to it.
        """
        writes = [(f, x) for f, x in log if conflicts(x, use)]
        unknown = [(f, x) for f, x in writes if not event.pre >> f.index & 1]
        if not unknown:
            return []
        since = writes[writes.index(unknown[0]) :]
        updates = [x for _, x in since if x.kind not in ("read", "write")]
        if not updates or len({f.agent for f, x in since if x.kind not in ("read", "write")}) == 1 == len(updates):
            return [f.index for f, x in unknown if x.kind == "read" or self.may_end(event, use, x)]
        same = len(updates) == len(since) and all(
            x.step is not None and (x.kind, x.step) == (updates[0].kind, updates[0].step) for x in updates)
        # updates with one operand leave the same values in any order, so the known ones may come first
        if same and not any(self.may_end(event, use, x) for x in updates[-len(unknown) :]):
            return []
        self.director.ordered.add(use.place)
        raise Reordered

    def may_end(self, event: Event, use: Use, earlier: Use) -> bool:
        """True if the loop that an event ends could end before an earlier write."""
        waiter = event.waiter
        assert waiter is not None and waiter.loop is not None, "loads are in wait loops"
        if use.start != earlier.start or earlier.before is None:
            return True
        imagined = wait_loops.Imagined(self, lambda *_: ())
        imagined.site = waiter.loop.site
        dtype = DTYPES[self.access.sites[imagined.site].dtype]
        imagined.value = np.array([earlier.before]).view(dtype)[0]
        at = np.array([use.thread])
        ends = wait_loops.outcomes(imagined, waiter.loop, waiter.positions[at], wait_loops.chosen(waiter.inputs, at))
        return bool(ends[0] != waiter.loop.head)

    def note_pending(self) -> None:
        """Find the races of those that wait: they might have gone on earlier."""
        for number in sorted(self.ready):
            for part in self.by_warp(self.ready[number]):
                warp = int(self.warp_of[part[0]])
                event = Event(len(self.events), str(warp), self.first_pc(number), pre=self.known[warp])
                event.waiter = self.waiter(number, part)
                if event.waiter is None or self.going(number, part).size:
                    continue
                self.select(part)
                self.event = event
                self.pretend(number, part)
                self.event = None
                self.settle(event)

    def pretend(self, number: int, part: Index) -> None:
        """Record the uses of an event that doesn't happen."""
        imagined = wait_loops.Imagined(self, self.noted)
        compiled = self.program.blocks[number]
        compiled.run(imagined, *[self.registers.value(slot, part) for slot in compiled.inputs])
        for place in imagined.places if self.is_wait(self.first_pc(number)) else ():
            _, address, cta = place
            barrier = self.mbarriers.at[address]
            self.use(self.mbarrier(barrier, cta), "wait", int(barrier.phase[cta]) + 1)

    def noted(self, number: int, address: Any) -> Iterable[Place]:
        if self.access.sites[number].strong:
            self.note_reads(number, address)
        return ()


def union(events: Iterable[Event]) -> int:
    result = 0
    for event in events:
        result |= event.before_later
    return result
