"""The report of a launch: instruction counts, memory traffic and findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from ...dataclass import dataclass, field
from ...errors import SimulationError, TilejitError
from ...forks import cached_property
from ...html_tables import text_box
from ..decode.translate import Program
from ..opcodes import fidelity
from .findings import Finding, Location, Place, PtxPlaces, rule_of
from .profile import Traffic

if TYPE_CHECKING:
    from ..orders.answer import Orders


@dataclass(slots=True)
class LineCounts:
    """Counts of one source line: executed instructions, summed over threads, and memory traffic if profiled."""

    line: int
    instructions: int = 0
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def bank_conflicts(self) -> int:
        """Shared-memory wavefronts beyond the minimum."""
        return self.traffic.wavefronts - self.traffic.ideal_wavefronts

    @property
    def excess_sectors(self) -> int:
        """32-byte global sectors beyond the minimum."""
        return self.traffic.sectors - self.traffic.ideal_sectors


@dataclass(frozen=True, slots=True)
class RegionCount:
    """Counts of an operation's executions, and of those in which a region lay at least partly inside its tensor."""

    line: int
    region: str
    #: number of executions, each by one instance of the operation's scope
    instances: int
    #: number of those in which the region was at least partly inside its tensor
    inside: int

    def __str__(self) -> str:
        start = f"line {self.line}: {self.region} lay"
        if not self.inside:
            return f"{start} wholly outside its tensor in {self.instances} of {self.instances} executions"
        return f"{start} at least partly inside its tensor in {self.inside} of {self.instances} executions"


class Report:
    """Instruction counts, memory traffic and findings of a launch. Counts are computed on demand."""

    def __init__(
        self,
        program: Program,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        checks: bool,
        places: PtxPlaces,
        block_lanes: Sequence[int],
        traffic: Mapping[int, Traffic] | None,
        findings: Sequence[Finding] = (),
        delivery: str = "",
    ) -> None:
        """block_lanes: executions of each basic block, summed over threads. traffic: per instruction, if profiled."""
        self.entry = program.function.name
        self.grid = grid
        self.block = block
        self.checks = checks
        self.findings = tuple(findings)
        self.delivery = delivery
        self.profiled = traffic is not None
        self.locations: dict[int, str] = {}
        #: whether other orders of the synchronizing events are possible, if the launch was asked for it
        self.orders: Orders | None = None
        # set by the compiler's runtime, from the kernel's performance events
        self.regions: tuple[RegionCount, ...] = ()
        self._places = places
        self._program = program
        self._block_lanes = block_lanes
        self._traffic = traffic or {}

    def note(self, error: SimulationError, location: Location | None) -> None:
        """Add an error that the caller has detected, and its source location, to the findings."""
        place = Place(0, "", location)
        self.findings = (*self.findings, Finding(rule_of(error), "error", error.message, place, None, error.threads, 1))

    @cached_property
    def _counts(self) -> list[tuple[int, int]]:
        counts: list[tuple[int, int]] = []
        for compiled, count in zip(self._program.blocks, self._block_lanes, strict=True):
            block = compiled.block
            pcs = block.pcs if block.end_pc < 0 or block.end_pc in block.pcs[-1:] else [*block.pcs, block.end_pc]
            counts.extend((pc, count) for pc in pcs if count)
        return counts

    @cached_property
    def instructions(self) -> dict[str, int]:
        """Opcode with its modifiers → number of executions, summed over threads."""
        result: dict[str, int] = {}
        for pc, count in self._counts:
            opcode = self._places.opcode(pc)
            result[opcode] = result.get(opcode, 0) + count
        return result

    @property
    def verdict(self) -> Literal["clean", "findings", "incomplete"]:
        """"findings" if any finding is an error; else "incomplete" if `not_checked` lists anything; else "clean"."""
        if any(x.level == "error" for x in self.findings):
            return "findings"
        return "incomplete" if self.not_checked else "clean"

    @cached_property
    def not_checked(self) -> tuple[str, ...]:
        """The checks that the launch left out: one phrase per check or opcode."""
        if not self.checks:
            return ("races, uses of unwritten memory and asynchronous copies, because checks are off",)
        body = self._program.function.body
        first = {body[pc].root + body[pc].suffix: body[pc] for pc, _ in reversed(self._counts) if pc < len(body)}
        races = [
            f"races of {opcode}, PTX line {ins.line}"
            for opcode, ins in first.items() if not fidelity(ins.root, ins.suffix).races
        ]
        more = self.orders is not None and self.orders.verdict == "incomplete"
        return (*races, *["other orders of the synchronizing events"] * more)

    @cached_property
    def events(self) -> dict[int, int]:
        """16-bit mask of performance events → number of executions of pmevents with this mask, summed over threads."""
        result: dict[int, int] = {}
        for block, events in self._program.events:
            result[events] = result.get(events, 0) + self._block_lanes[block]
        return result

    @property
    def outside(self) -> tuple[RegionCount, ...]:
        """The accessed regions that were wholly outside their tensors at every access."""
        return tuple(r for r in self.regions if r.instances and not r.inside)

    @cached_property
    def lines(self) -> dict[int, LineCounts]:
        """Executed source line → its counts; memory traffic only with profile=True. Line 0: code without a location."""
        result: dict[int, LineCounts] = {}
        for pc, count in self._counts:
            self._line_of(result, pc).instructions += count
        for pc, traffic in self._traffic.items():
            self._line_of(result, pc).traffic.add(traffic)
        return result

    def _line_of(self, lines: dict[int, LineCounts], pc: int) -> LineCounts:
        number = self._places.source_line(pc)
        if number not in lines:
            lines[number] = LineCounts(number)
            location = self._places.location(pc)
            self.locations[number] = location.text if location else ""
        return lines[number]

    def line(self, number: int) -> LineCounts:
        """Return the counts of a line of the kernel's source; they are zero if none of its code was executed.

        raises: TilejitError for a line without code.
        """
        counts = self.lines.get(number)
        if counts is None and number not in self._with_code:
            lines = ", ".join(map(str, sorted(self._with_code - {0})))
            raise TilejitError(f"line {number} has no code in {self.entry}", hint=f"lines with code: {lines or 'none'}")
        return counts or LineCounts(number)

    @cached_property
    def _with_code(self) -> frozenset[int]:
        return frozenset(self._places.source_line(pc) for pc in range(len(self._program.function.body)))

    @property
    def thread_instructions(self) -> int:
        return sum(self.instructions.values())

    @property
    def bank_conflicts(self) -> int:
        return sum(x.bank_conflicts for x in self.lines.values())

    @property
    def excess_sectors(self) -> int:
        return sum(x.excess_sectors for x in self.lines.values())

    def __repr__(self) -> str:
        findings = "1 finding" if len(self.findings) == 1 else f"{len(self.findings)} findings"
        return f"<report of {self.entry}: grid {self.grid}, {self.thread_instructions} thread instructions, {findings}>"

    def _repr_html_(self) -> str:
        return text_box(str(self))

    def __str__(self) -> str:
        checked = "checked" if self.checks else "unchecked"
        landed = f", deliveries {self.delivery}" if self.delivery else ""
        out = [
            f"{self.entry}: grid {self.grid}, block {self.block}, {checked}{landed}: {self.verdict}",
            f"{self.thread_instructions} thread instructions",
        ]
        out.extend([f"orders: {self.orders}"] if self.orders is not None else [])
        out.extend(f"not checked: {x}" for x in self.not_checked if self.checks)
        out.extend(str(region) for region in self.outside)
        for opcode, count in sorted(self.instructions.items(), key=lambda x: -x[1]):
            out.append(f"  {count:12d}  {opcode}")
        if self.profiled:
            out.append("line   instructions   wavefronts (ideal)   sectors (ideal)")
            for number, x in sorted(self.lines.items()):
                t = x.traffic
                out.append(
                    f"{number:4d}   {x.instructions:12d}   {t.wavefronts:8d} ({t.ideal_wavefronts})"
                    f"   {t.sectors:8d} ({t.ideal_sectors})   {self.locations.get(number, '')}"
                )
        out.extend(str(x) for x in self.findings)
        return "\n".join(out)
