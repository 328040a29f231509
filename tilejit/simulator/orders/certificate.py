"""Check in one run whether a launch has one order of its synchronizing events.

Two strong accesses of different threads to one location conflict if at least one writes, except updates of one kind
whose results are unused, such as `red.add`. If all conflicting accesses are ordered by happens-before, and the checks
of barriers report nothing, then the events have the same order in every run, up to exchanges of independent events.
Otherwise the order of a pair is *open*.

The read of a loop that only waits (`wait_loops.py`) isn't open if the loop would go on with each value that the
location had before a write that isn't known to the reader: then it reads after all of these writes in every order.
Nor is it open with a later write if the loop would end in the same way with the written value.

Not considered: the order of printed lines; the order of a warp's lanes in one instruction, except for accesses to one
location; contention for registers (setmaxnreg) and tensor memory; the rounding of floating-point updates; the memory
model's weaker orders.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass, field, replace
from ..checks.findings import Findings, Place
from ..checks.order import HappensBefore
from ..checks.races import AccessChecker
from ..decode.translate import Program
from ..machine.atomics import update
from ..machine.lanes import Index
from ..machine.machine import Machine
from ..machine.mbarrier import MBarrier
from ..machine.memory import MemoryRegion
from ..opcodes.memory import Site
from .wait_loops import Values, WaitLoop, WaitLoops, chosen, inputs_of, outcomes

#: updates that commute with updates of the same kind
COMMUTING = frozenset({"add", "min", "max", "and", "or", "xor"})
#: special registers whose values depend on the time
CLOCKS = ("%clock", "%globaltimer")
#: the maximum number of accesses to a location that are kept: further ones make the answer incomplete
MOST_KEPT = 1 << 12
#: the number of writes to a location that are kept although later ones are ordered after them
RECENT = 16
WORD_SHIFT = 2


@dataclass(slots=True)
class Write:
    """A strong write of a thread. kind: of an update whose result is unused, else ""."""

    actor: int
    event: int
    pc: int
    kind: str
    start: int
    shift: int
    #: the element before the write and the update's operand; None if unknown
    before: Any
    operand: Any
    #: True if all earlier accesses are ordered before it; hides: also, if earlier writes have been forgotten
    last: bool = False
    hides: bool = False


@dataclass(slots=True)
class Read:
    """A strong read of a thread. loop: the wait loop that it has ended, if any, with the thread's registers."""

    event: int
    start: int
    shift: int
    #: the number of the thread's chunk of CTAs, and its position there
    chunk: int
    position: int
    dtype: np.dtype[Any]
    loop: WaitLoop | None = None
    inputs: Values = field(default_factory=dict)
    outcome: int = 0


@dataclass(slots=True)
class Location:
    """The strong accesses to a word of memory. reads: (thread, instruction) → its last read."""

    writes: list[Write] = field(default_factory=list)
    reads: dict[tuple[int, int], Read] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpenPair:
    """Two synchronizing instructions whose order is open; often both are the same."""

    first: Place
    second: Place

    def __str__(self) -> str:
        one, other = shown(self.first), shown(self.second)
        return f"{one} in two threads" if one == other else f"{one} and {other}"


def shown(place: Place) -> str:
    return place.location.text if place.location else f"PTX line {place.ptx_line} ({place.text})"


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders of a launch's synchronizing events, as far as one run shows them.

    verdict: "clean" if there is one order and it has no finding; "finding"; "incomplete" if there may be other orders.
    races: the pairs whose order is open. reasons: why the run can't tell, apart from them.
    """

    verdict: Literal["clean", "finding", "incomplete"]
    explored: int
    grid: tuple[int, int, int]
    races: tuple[OpenPair, ...]
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.verdict == "clean":
            return f"one order of grid {self.grid}: no two synchronizing events race"
        if self.verdict == "finding":
            return f"a finding in the first order of grid {self.grid}"
        lines = [*map(str, self.races), *self.reasons]
        return f"no finding in 1 order of grid {self.grid}: incomplete; open:\n" + "\n".join(f"  {x}" for x in lines)


class Certificate:
    """Records a run's strong accesses and waits, and the pairs whose order is open."""

    def __init__(self, program: Program, findings: Findings) -> None:
        self.program = program
        self.findings = findings
        self.loops = WaitLoops(program)
        self.pairs: set[tuple[int, int]] = set()
        self.reasons: set[str] = set()
        #: (region, word) → its accesses; the regions are kept so that their ids stay theirs
        self.locations: dict[tuple[int, int], Location] = {}
        self.regions: dict[int, MemoryRegion] = {}
        self.unread: dict[int, bool] = {}
        self.chunk = 0
        #: of the current atomic: True if its result is used, and its operands
        self.update: tuple[bool, tuple[Any, ...]] = True, ()
        body = program.function.body
        if program.ordering.relaxed:
            self.reasons.add("arrivals or waits at mbarriers with .relaxed")
        if any(x.root == "cp" and ".mbarrier.arrive" in x.suffix for x in body):
            self.reasons.add("the arrivals of copies at mbarriers")
        if any(x.root == "mbarrier" and x.suffix.startswith(".pending_count") for x in body):
            self.reasons.add("the number of pending arrivals of an mbarrier")
        if any(operand.startswith(CLOCKS) for x in body for operand in x.operands):
            self.reasons.add("the time")

    @property
    def checker_class(self) -> type[AccessChecker]:
        return ObservedChecker

    def attach(self, machine: Machine, checker: AccessChecker) -> None:
        """Observe a chunk's machine. checker: a `checker_class`."""
        assert isinstance(checker, ObservedChecker), "the checker shows accesses to the certificate"
        checker.certificate = self
        self.machine = machine
        self.chunk += 1
        # each chunk has its own shared memory
        self.locations = {at: x for at, x in self.locations.items() if not self.regions[at[0]].owner}
        self.regions = {number: x for number, x in self.regions.items() if not x.owner}
        self.order: HappensBefore = checker.order
        atomic = machine.atomic

        def observed(number: int, address: Any, wanted: bool, *operands: Any) -> Any:
            self.update = wanted and not self.is_unread(machine.access.sites[number].pc), operands
            return atomic(number, address, wanted, *operands)

        machine.atomic = observed
        machine.mbarriers.passes, machine.mbarriers.arrives = self.wait, self.arrive

    def is_unread(self, pc: int) -> bool:
        if pc not in self.unread:
            flow = self.program.control_flow
            self.unread[pc] = not any(
                flow.is_read(block, block.pcs.index(pc)) for block in flow.blocks if pc in block.pcs
            )
        return self.unread[pc]

    def answer(self, grid: tuple[int, int, int]) -> Orders:
        pairs: dict[tuple[object, object], OpenPair] = {}
        for first, second in sorted(self.pairs):
            one, other = self.findings.place(first), self.findings.place(second)
            assert one is not None and other is not None, "a place is None only for None"
            pairs.setdefault((self.findings.line(one), self.findings.line(other)), OpenPair(one, other))
        if any(x.rule == "replicas" for x in self.findings.collected.values()):
            self.reasons.add("which of several different values is stored last")
        reasons = tuple(sorted(self.reasons))
        if any(x.level == "error" for x in self.findings.collected.values()):
            return Orders("finding", 1, grid, tuple(pairs.values()), reasons)
        return Orders("incomplete" if pairs or reasons else "clean", 1, grid, tuple(pairs.values()), reasons)

    # accesses

    def read(self, region: MemoryRegion, index: Index, site: Site) -> None:
        machine = self.machine
        positions, actors = machine.lanes.positions(), machine.lanes.get("gid").tolist()
        view, lead = region.view(site.dtype, site.shift)
        loop, starts = self.loops.of(site.pc), (lead + (index << site.shift)).tolist()
        ends: Any = None
        inputs: Values = {}
        if loop is not None:
            inputs = inputs_of(machine, loop)
            ends = outcomes(machine, loop, positions, inputs, view[index])
        event = self.order.tick(site.pc)
        for i, (actor, start) in enumerate(zip(actors, starts, strict=True)):
            read = Read(event, start, site.shift, self.chunk, int(positions[i]), view.dtype)
            if loop is not None:
                if ends[i] == loop.head:
                    # an iteration that changes nothing
                    continue
                read.loop, read.inputs, read.outcome = loop, chosen(inputs, np.array([i])), int(ends[i])
            for location in self.at(region, start, site.shift):
                unknown = self.unordered(location.writes, actor)
                if unknown and not self.waits_for(location, unknown, read):
                    self.open(site.pc, unknown)
                location.reads[actor, site.pc] = read
                self.limit(location)

    def write(self, region: MemoryRegion, index: Index, site: Site, values: Any, kind: str, operand: Any) -> None:
        """Record writes. values: the elements before each thread's write, and after it, or None if unknown."""
        actors = self.machine.lanes.get("gid").tolist()
        _, lead = region.view(site.dtype, site.shift)
        starts = (lead + (index << site.shift)).tolist()
        event = self.order.tick(site.pc)
        for i, (actor, start) in enumerate(zip(actors, starts, strict=True)):
            before, after = (None, None) if values is None else (values[0][i], values[1][i])
            one = None if operand is None else operand[i]
            write = Write(actor, event, site.pc, kind, start, site.shift, before, one)
            for location in self.at(region, start, site.shift):
                self.write_one(location, write, after)

    def write_one(self, location: Location, write: Write, after: Any) -> None:
        unknown = self.unordered((x for x in location.writes if not write.kind or x.kind != write.kind), write.actor)
        self.open(write.pc, unknown)
        reads = [(pc, x) for (actor, pc), x in location.reads.items() if actor != write.actor]
        if reads:
            actors = [actor for actor, _ in location.reads if actor != write.actor]
            known = self.known(actors, [x.event for _, x in reads], write.actor)
            reads = [reads[k] for k in np.flatnonzero(~known).tolist()]
        for pc, read in reads:
            if not self.has_same_end(location, read, write, after):
                self.pairs.add((min(pc, write.pc), max(pc, write.pc)))
        if not write.kind and not unknown and not reads:
            # whatever is ordered after this write is ordered after all earlier accesses
            write.last = True
            location.reads.clear()
            self.forget(location.writes)
        location.writes.append(write)
        self.limit(location)

    def forget(self, writes: list[Write]) -> None:
        """If there are many writes, drop the oldest, up to one that is ordered after all of them."""
        if len(writes) > 4 * RECENT:
            first = next((k for k in range(len(writes) - RECENT, 0, -1) if writes[k].last), 0)
            if first:
                del writes[:first]
                writes[0].hides = True

    def at(self, region: MemoryRegion, start: int, shift: int) -> list[Location]:
        self.regions[id(region)] = region
        words = range(start >> WORD_SHIFT, (start + (1 << shift) - 1 >> WORD_SHIFT) + 1)
        return [self.locations.setdefault((id(region), word), Location()) for word in words]

    def known(self, actors: list[int], events: list[int], by: int) -> NDArray[np.bool_]:
        """Return a mask of the events that happen before the next one of thread `by`."""
        return self.order.ordered(np.array(actors), np.array(events), np.full(len(actors), by))

    def unordered(self, writes: Iterable[Write], actor: int) -> list[Write]:
        others = [x for x in writes if x.actor != actor]
        if not others:
            return others
        known = self.known([x.actor for x in others], [x.event for x in others], actor)
        return [others[k] for k in np.flatnonzero(~known).tolist()]

    def open(self, pc: int, others: Iterable[Write]) -> None:
        self.pairs.update((min(pc, x.pc), max(pc, x.pc)) for x in others)

    def limit(self, location: Location) -> None:
        if len(location.writes) + len(location.reads) > MOST_KEPT:
            self.reasons.add(f"more than {MOST_KEPT:,} accesses to one location")
            location.writes.clear()
            location.reads.clear()

    def waits_for(self, location: Location, unknown: list[Write], read: Read) -> bool:
        """True if the loop that a read has ended would have gone on without some of the `unknown` writes."""
        first = next(k for k, x in enumerate(location.writes) if x is unknown[0])
        since, loop = location.writes[first:], read.loop
        if loop is None or any(x.before is None or x.hides for x in since):
            return False
        updates = [x for x in since if x.kind]
        same_kind = all((x.kind, x.operand) == (updates[0].kind, updates[0].operand) for x in updates)
        # updates with one operand leave the same values in any order, so the known ones may come first
        if not same_kind or (len(since) > len(unknown) and len(updates) < len(since)):
            return False
        if any((x.start, x.shift) != (read.start, read.shift) for x in since):
            return False
        values = {x.before.tobytes(): x.before for x in since[-len(unknown) :]}
        return all(self.turn(read, value) == loop.head for value in values.values())

    def has_same_end(self, location: Location, read: Read, write: Write, after: Any) -> bool:
        """True if the loop that a read has ended would have ended in the same way after a write."""
        loop = read.loop
        if loop is None or not loop.silent or after is None or read.chunk != self.chunk:
            return False
        later = [x for x in location.writes if x.event > read.event] if write.kind else []
        if any(x.before is None or x.kind != write.kind or x.operand != write.operand for x in later):
            return False
        if any(self.turn(read, x.before) != read.outcome for x in later):
            # another order of these updates leads to the same values
            return False
        return (write.start, write.shift) == (read.start, read.shift) and self.turn(read, after) == read.outcome

    def turn(self, read: Read, value: Any) -> int:
        assert read.loop is not None, "only loops have turns"
        loaded = np.array([value]).view(read.dtype)
        return int(outcomes(self.machine, read.loop, np.array([read.position]), read.inputs, loaded)[0])

    # waits

    def wait(self, site: Site, barrier: MBarrier, threads: Index, done: NDArray[np.bool_], phases: Index) -> None:
        """Record waits at an mbarrier. threads: indices into the executing threads. phases: the awaited ones."""
        flow, machine = self.program.control_flow, self.machine
        checks = machine.mbarriers.phase_waits
        if site.pc in flow.unread_waits or checks is None or checks.relaxed:
            return
        loop, positions = self.loops.of(site.pc), machine.lanes.positions()[threads]
        if loop is not None:
            inputs = chosen(inputs_of(machine, loop), threads)
            if (outcomes(machine, loop, positions, inputs, None) == loop.head).all():
                return
        elif self.loops.precedes_loop(site.pc):
            return
        for cta, phase in set(zip(machine.lanes.get("chunk_cta")[threads].tolist(), phases.tolist(), strict=True)):
            here = positions[(machine.lanes.get("chunk_cta")[threads] == cta) & (phases == phase) & done]
            if here.size and checks.knows(barrier, cta, phase, here).all():
                continue
            other = [*barrier.last_arrival(cta), int(barrier.init_pc[cta])][0]
            self.pairs.add((min(site.pc, other), max(site.pc, other)))

    def arrive(self, site: Site, barrier: MBarrier, positions: Index, ctas: Index, phases: Index) -> None:
        """Record arrivals in `phases` at the barriers of `ctas`: each must come after the end of the phase before."""
        checks = self.machine.mbarriers.phase_waits
        if checks is None or checks.relaxed:
            return
        for cta, phase in set(zip(ctas.tolist(), phases.tolist(), strict=True)):
            here = positions[(ctas == cta) & (phases == phase)]
            if phase and not checks.knows(barrier, cta, phase - 1, here).all():
                other = [*barrier.last_arrival(cta), site.pc][0]
                self.pairs.add((min(site.pc, other), max(site.pc, other)))


class ObservedChecker(AccessChecker):
    """Shows strong accesses to a certificate before they are checked."""

    certificate: Certificate

    def load(self, region: MemoryRegion, index: Any, site: Site) -> None:
        if site.strong:
            self.certificate.read(region, index, site)
        super().load(region, index, site)

    def store(self, region: MemoryRegion, index: Any, value: Any, view: NDArray[Any], site: Site) -> None:
        if site.strong:
            after = np.broadcast_to(value, index.shape)
            self.certificate.write(region, index, site, (view[index], after), "", None)
        super().store(region, index, value, view, site)

    def atomic(self, region: MemoryRegion, index: Any, site: Site) -> None:
        wanted, operands = self.certificate.update
        name = site.op.partition(".")[0]
        kind = site.op if not wanted and name in COMMUTING else ""
        values = operand = None
        fails = np.zeros(index.size, bool)
        if all(np.ndim(x) == 0 or x.size == index.size for x in operands):
            each = tuple(np.broadcast_to(x, index.shape) for x in operands)
            values, operand = imagined_update(region.view(site.dtype, site.shift)[0], index, site.op, each), each[0]
            if name == "cas":
                fails = values[0] != operand.astype(values[0].dtype)
        group = self.lanes.group
        # a compare-and-swap that fails writes nothing, and so releases nothing
        for some, reads in ((np.flatnonzero(fails), True), (np.flatnonzero(~fails), False)):
            if not some.size:
                continue
            self.lanes.select(self.lanes.members(group)[some] if some.size < index.size else group)
            if reads:
                self.load(region, index[some], replace(site, kind="load", release=False))
                continue
            both = None if values is None else (values[0][some], values[1][some])
            one = None if operand is None else operand[some]
            self.certificate.write(region, index[some], site, both, kind, one)
            super().atomic(region, index[some], site)
        self.lanes.select(group)


def imagined_update(
    view: NDArray[Any], index: Index, op: str, operands: tuple[NDArray[Any], ...]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the elements before and after each thread's update, without changing memory."""
    places, which = np.unique(index, return_inverse=True)
    scratch = view[places]
    before, after = np.empty((2, index.size), view.dtype)
    for i in range(index.size):
        at = which[i : i + 1]
        before[i] = scratch[at[0]]
        update(op, scratch, at, tuple(x[i : i + 1] for x in operands), True)
        after[i] = scratch[at[0]]
    return before, after
