"""What a simulation tells afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilejit.simulator.profile import Traffic


@dataclass(slots=True)
class Line:
    """One source line: instructions executed by its threads, and memory traffic if profiled."""

    line: int
    instructions: int = 0
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def bank_conflicts(self) -> int:
        """Shared-memory wavefronts beyond the least possible."""
        return self.traffic.wavefronts - self.traffic.ideal_wavefronts

    @property
    def shared_wavefronts(self) -> int:
        return self.traffic.wavefronts

    @property
    def ideal_wavefronts(self) -> int:
        return self.traffic.ideal_wavefronts

    @property
    def global_sectors(self) -> int:
        return self.traffic.sectors

    @property
    def ideal_sectors(self) -> int:
        return self.traffic.ideal_sectors

    @property
    def excess_sectors(self) -> int:
        """32-byte global sectors beyond the least possible."""
        return self.traffic.sectors - self.traffic.ideal_sectors


@dataclass(slots=True)
class Report:
    """What ran, how often, and at which cost.

    instructions: opcode → how many threads executed it.
    lines: source line → its share; memory traffic only with profile=True.
    """

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    checks: bool
    profiled: bool
    instructions: dict[str, int] = field(default_factory=dict)
    lines: dict[int, Line] = field(default_factory=dict)
    locations: dict[int, str] = field(default_factory=dict)

    def line(self, number: int) -> Line:
        """The share of a line of the kernel's source; zeros where nothing was executed."""
        return self.lines.get(number) or Line(number)

    @property
    def thread_instructions(self) -> int:
        return sum(self.instructions.values())

    @property
    def bank_conflicts(self) -> int:
        return sum(x.bank_conflicts for x in self.lines.values())

    @property
    def excess_sectors(self) -> int:
        return sum(x.excess_sectors for x in self.lines.values())

    def __str__(self) -> str:
        checked = "checked" if self.checks else "unchecked"
        out = [
            f"{self.entry}: grid {self.grid}, block {self.block}, {checked}",
            f"{self.thread_instructions} thread instructions",
        ]
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
        return "\n".join(out)
