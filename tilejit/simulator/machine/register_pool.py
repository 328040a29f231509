"""setmaxnreg: registers that the warpgroups of a CTA release and acquire.

source: PTX ISA, "Miscellaneous Instructions: setmaxnreg".
"""

from __future__ import annotations

import numpy as np

from ...fast_unique import fast_unique
from ..decode.ptx import LaunchBounds
from .access import Access
from .lanes import WARPGROUP, Index

#: registers per SM, the maximum per thread, and the granularity of their allocation
ALL_REGISTERS = 65536
MOST_REGISTERS = 255
STEP = 8


class Blocked(Exception):
    """Raised by an instruction that must wait: threads at `positions` retry it later, the others immediately."""

    def __init__(self, positions: Index) -> None:
        super().__init__()
        self.positions = positions


def entry_registers(bounds: LaunchBounds) -> int:
    """Return each thread's initial registers: an equal share of the SM's, at most .maxnreg and 255, a multiple of 8."""
    fair = ALL_REGISTERS // (bounds.threads * max(bounds.ctas, 1))
    most = min(fair, bounds.registers or MOST_REGISTERS, MOST_REGISTERS)
    return most // STEP * STEP


class RegisterPool:
    """The registers of each CTA of a chunk: those of its warpgroups, and the free ones."""

    def __init__(self, access: Access, bounds: LaunchBounds) -> None:
        self.lanes = lanes = access.lanes
        self.places = access.places
        self.findings = access.findings
        self.entry = entry_registers(bounds) if bounds.threads else 0
        self.groups = -(-lanes.threads // WARPGROUP)
        self.free = np.full(lanes.ctas, self.entry * (bounds.threads - lanes.threads))
        #: registers per thread of each warpgroup, and the instruction that set them, -1 if none
        self.each = np.full((lanes.ctas, self.groups), self.entry)
        self.set_by = np.full((lanes.ctas, self.groups), -1)
        #: registers per thread that a warpgroup waits for, 0 if none, and the instruction that waits
        self.wanted, self.wanted_by = np.zeros((2, lanes.ctas, self.groups), np.int64)

    def set(self, how: str, count: int, pc: int) -> None:
        """Release (dec) or acquire (inc) registers; raise Blocked if too few are free.

        If the kernel has neither .maxntid nor .reqntid, only add a warning, since ptxas ignores the instruction.
        """
        if not self.entry:
            self.findings.add(
                "registers", "ptxas ignores setmaxnreg in a kernel without .maxntid or .reqntid", pc, level="warning",
            )
            return
        members = fast_unique(self.lanes.get("chunk_cta") * self.groups + self.lanes.get("thread") // WARPGROUP)
        pairs = [divmod(x, self.groups) for x in members.tolist()]
        free = self.free.copy()
        blocked = []
        for cta, group in pairs:
            if not self.wanted[cta, group]:
                self.check(how, count, pc, cta, group)
            more = (count - int(self.each[cta, group])) * self.members(cta, group).size
            if more > free[cta]:
                self.wanted[cta, group], self.wanted_by[cta, group] = count, pc
                blocked.append(self.members(cta, group))
            else:
                free[cta] -= more
        if blocked:
            raise Blocked(np.concatenate(blocked))
        self.free = free
        for cta, group in pairs:
            self.each[cta, group], self.set_by[cta, group], self.wanted[cta, group] = count, pc, 0

    def check(self, how: str, count: int, pc: int, cta: int, group: int) -> None:
        """Report a warpgroup that sets its registers a second time, adds some with dec, or releases some with inc."""
        before, other = int(self.each[cta, group]), int(self.set_by[cta, group])
        party = f"warpgroup {group} of CTA {self.lanes.cta_coordinates(self.lanes.first + cta)}"
        threads = self.lanes.numbers(self.members(cta, group))
        if other >= 0:
            self.findings.add(
                "registers", f"{party} sets its registers a second time", pc, other, threads, then="after",
            )
        if (count < before) if how == "inc" else (count > before):
            what = f"{party} changes its registers from {before} to {count} with setmaxnreg.{how}"
            self.findings.add("registers", what, pc, None, threads)

    def members(self, cta: int, group: int) -> Index:
        first = cta * self.lanes.threads + group * WARPGROUP
        return np.arange(first, min(first + WARPGROUP, (cta + 1) * self.lanes.threads))

    def describe_waits(self) -> list[str]:
        ctas, groups = np.nonzero(self.wanted)
        lines = []
        for c, g in zip(ctas.tolist(), groups.tolist(), strict=True):
            if c != ctas[0]:
                continue
            count, before = int(self.wanted[c, g]), int(self.each[c, g])
            others = " + ".join(str(int(self.wanted[c, i] or x)) for i, x in enumerate(self.each[c]))
            lines.append(
                f"warpgroup {g} of CTA {self.lanes.cta_coordinates(self.lanes.first + c)} waits for {count} registers "
                f"per thread, which takes {(count - before) * WARPGROUP:,} more; {int(self.free[c]):,} are free\n"
                f"  {self.places.describe(int(self.wanted_by[c, g]))}\n"
                f"  the warpgroups request {others} registers per thread; a CTA of {self.lanes.threads} threads starts "
                f"with {self.groups} x {self.entry}"
            )
        return lines

