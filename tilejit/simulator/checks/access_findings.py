"""Messages for faulty memory accesses: both parties, both source lines, and a hint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...fast_unique import fast_unique
from ..machine.lanes import Index, Lanes
from ..machine.memory import MemoryRegion
from ..machine.operations import Operations
from ..opcodes.memory import Site
from .definedness import UNWRITTEN_HINT, Definedness
from .findings import Findings
from .precedence import Precedence
from .records import ACTOR, LocalShadow, Record, Shadow, in_bytes, place
from .replicas import UNUSED, Replicas

if TYPE_CHECKING:
    from ..machine.copies import Batch

# True if both accesses are strong → hint
_HINTS = {
    False: "put a barrier between the two accesses, or give each thread its own place",
    True: "the scope of one doesn't reach the other's CTA: use .gpu",
}
# (substring of an opcode, its operation, how to wait for it)
_WAITS = (
    ("wgmma", "product", "wgmma.wait_group"), (".mbarrier", "copy", "the phase of its mbarrier"),
    ("", "copy", "cp.async.bulk.wait_group, with .read if only the source is accessed"),
)
_VERBS = {"load": "reads", "store": "writes", "atomic": "updates", "barrier": "initializes an mbarrier in"}
_CTAS_HINT = "CTAs run in any order: give each its own place, or use atomic operations or a grid-wide barrier"
_RING_HINT = "put a barrier between them: one thread arrives after its access, the other waits before its own"


class AccessFindings:
    def __init__(
        self, lanes: Lanes, findings: Findings, precedence: Precedence, definedness: Definedness,
        sites: Sequence[Site], replicas: Replicas,
    ) -> None:
        self.lanes = lanes
        self.places = findings.places
        self.findings = findings
        self.precedence = precedence
        self.definedness = definedness
        self.sites = sites
        self.replicas = replicas
        #: copies by cp.async that have not been waited for
        self.in_flight: list[Batch] = []
        #: (shared address, CTA of the chunk) → the instruction that initialized the mbarrier there, or None
        self.init_pc_of: Callable[[int, int], int | None] = lambda address, cta: None
        #: the bulk copies, TMA operations and wgmma products of the chunk
        self.operations: Operations | None = None

    def place(self, region: MemoryRegion, cell: int, site: Site) -> str:
        shadow: Shadow | LocalShadow = region.shadow
        offset = cell << shadow.cell_shift
        if region.owner:
            offset %= region.stride
        else:
            offset += region.view(f"u{1 << min(shadow.cell_shift, 3)}", shadow.cell_shift)[1]
        return place(region, offset, 1 << site.shift)

    def describe(self, region: MemoryRegion, cells: Index, me: Record, at: int, site: Site, verb: str = "") -> str:
        return (
            f"{self.lanes.describe(int(me[at]))} {verb or _VERBS[site.kind]} {in_bytes(1 << site.shift)} at "
            f"{self.place(region, int(cells[at]), site)} of {region.space} memory\n  {self.places.describe(site.pc)}"
        )

    def threads(self, me: Record) -> list[int]:
        return [int(x) - 1 for x in fast_unique(me)]

    def sources(self, region: MemoryRegion, cells: Index, me: Record, site: Site) -> None:
        """Report a copy in flight that still reads one of `cells`, which are about to be written."""
        hit = touching(self.in_flight, region, cells, targets=False)
        if hit is None:
            return
        batch, copy, at = hit
        self.findings.add(
            "in-flight",
            f"{self.describe(region, cells, me, int(at), site)}\n"
            f"while an asynchronous copy of {self.lanes.describe(int(batch.threads[copy]))} still reads it\n"
            f"  {self.places.describe(batch.pc)}",
            site.pc, batch.pc, [int(me[at]) - 1], hint="wait for the copy before its source changes",
        )

    def target_in_flight(self, region: MemoryRegion, cells: Index, me: Record, at: Index, site: Site) -> None:
        if not at.size:
            return
        first = int(at[0])
        access = self.describe(region, cells, me, first, site)
        hit = touching(self.in_flight, region, cells[first : first + 1], targets=True)
        if hit is None:
            assert self.operations is not None, "a cell in flight belongs to a copy"
            operation = self.operations.writing(region, int(cells[first]))
            self.add_unwaited(access, site.pc, operation.pc, self.threads(me[at]), "wrote", at.size)
            return
        batch, copy, _ = hit
        self.findings.add(
            "in-flight",
            f"{access}\nbefore the asynchronous copy of {self.lanes.describe(int(batch.threads[copy]))} to it was "
            f"waited for\n  {self.places.describe(batch.pc)}",
            site.pc, batch.pc, self.threads(me[at]), at.size,
            hint="wait for the copy (cp.async.commit_group and wait_group), then synchronize with the other threads",
        )

    def of_barrier(self, region: MemoryRegion, cells: Index, me: Record, at: Index, site: Site) -> None:
        if not at.size:
            return
        first = int(at[0])
        cta, offset = divmod(int(cells[first]) << region.shadow.cell_shift, region.stride)
        init_pc = self.init_pc_of(region.base + offset, cta)
        init = f"\ninitialized at\n  {self.places.describe(init_pc)}" if init_pc is not None else ""
        self.findings.add(
            "barrier",
            f"{self.lanes.describe(int(me[first]))} {_VERBS[site.kind]} {in_bytes(1 << site.shift)} at "
            f"{self.place(region, int(cells[first]), site)} of {region.space} memory, part of an mbarrier\n"
            f"  {self.places.describe(site.pc)}{init}",
            site.pc, init_pc, self.threads(me[at]), at.size,
            hint="only mbarrier instructions may access an mbarrier; mbarrier.inval makes it ordinary memory",
        )

    def add_unwaited(
        self, access: str, pc: int, other_pc: int, threads: list[int], did: str, count: int = 1
    ) -> None:
        """Report an access to cells that an asynchronous operation wrote or read (`did`), before a wait for it."""
        opcode = self.places.opcode(other_pc)
        operation, wait = next(x[1:] for x in _WAITS if x[0] in opcode)
        self.findings.add(
            "in-flight",
            f"{access}\nbefore the {operation} that {'writes' if did == 'wrote' else 'reads'} it was waited for\n"
            f"  {self.places.describe(other_pc)}",
            pc, other_pc, threads, count,
            hint=f"wait for it ({wait}), then synchronize with threads that haven't waited",
        )

    def unwritten(self, region: MemoryRegion, cells: Index, me: Record, at: Index, site: Site) -> None:
        """Mark the result of a load of unwritten cells as undefined; report accesses other than loads at once."""
        if not self.definedness.defers(site.pc):
            self.uninitialized(region, cells, me, at, site)
            return
        positions = self.lanes.positions()
        flags = np.zeros(cells.size, bool)
        flags[at] = True
        text = self.unwritten_text(region, int(cells[at[0]]), int(me[at[0]]), site)
        self.definedness.read(site.pc, text, positions, flags.reshape(positions.size, -1))

    def unwritten_text(self, region: MemoryRegion, cell: int, me: int, site: Site) -> str:
        return (
            f"{self.lanes.describe(me)} reads {in_bytes(1 << site.shift)} at {self.place(region, cell, site)}, "
            f"which nothing has written\n  {self.places.describe(site.pc)}"
        )

    def uninitialized(self, region: MemoryRegion, cells: Index, me: Record, at: Index, site: Site) -> None:
        first = int(at[0])
        self.findings.add(
            "undefined",
            self.unwritten_text(region, int(cells[first]), int(me[first]), site),
            site.pc, None, self.threads(me[at]), at.size, hint=UNWRITTEN_HINT,
        )

    def changed(
        self, region: MemoryRegion, cells: Index, me: Record, records: Record, at: Index, site: Site
    ) -> None:
        if not at.size:
            return
        first = int(at[0])
        other = int(self.precedence.pcs(records[first : first + 1])[0])
        verb, did = ("reads", "wrote") if site.constant else (_VERBS[site.kind], "read")
        self.findings.add(
            "read-only",
            f"{self.describe(region, cells, me, first, site, verb)}\n"
            f"and this kernel {did} it; memory that ld.global.nc reads may not change while the kernel runs\n"
            f"  {self.places.describe(other)}",
            site.pc, other, self.threads(me[at]), at.size,
            hint="read it without .nc, or let another kernel write it",
        )

    def race(
        self, region: MemoryRegion, cells: Index, me: Record, records: Record, at: Index, site: Site, did: str
    ) -> bool:
        """Report races with the recorded accesses, which wrote or read (`did`); return True if any is an error."""
        wrong = False
        while at.size:
            shadow: Shadow = region.shadow
            pcs = self.precedence.pcs(records[at])
            same = pcs == pcs[0]
            some = at[same]
            harmless, stores = self.replicas.examine(
                shadow, cells[some], me[some], records[some], site, int(pcs[0]), did
            )
            first = int(some[np.argmin(harmless)])
            record = self.precedence.one_of(shadow, int(records[first]), int(me[first]))
            pc = self.precedence.order.pcs[record >> 32]
            if self.precedence.order.is_agent(record & int(ACTOR)):
                access = self.describe(region, cells, me, first, site)
                self.add_unwaited(access, site.pc, pc, self.threads(me[some]), did, some.size)
                at, wrong = at[~same], True
                continue
            strong = site.strong and bool(self.precedence.strong[pc])
            is_of_one_cta = self.lanes.cta_of(int(me[first])) == self.lanes.cta_of(record & int(ACTOR))
            hint = _HINTS[strong] if strong or is_of_one_cta else _CTAS_HINT
            hint = _RING_HINT if self.precedence.order.facts.clocks and region.space == "shared" else hint
            unused = bool(harmless.all())
            warned = unused or self.before_exchange(site, pc)
            finding = self.findings.add(
                "scope" if strong else "race",
                f"race in {region.space} memory: {self.lanes.describe(int(me[first]))} {_VERBS[site.kind]} "
                f"{in_bytes(1 << site.shift)} at {self.place(region, int(cells[first]), site)}\n"
                f"  {self.places.describe(site.pc)}\n"
                f"and {self.lanes.describe(record & int(ACTOR))} {did} it, with nothing that orders the two\n"
                f"  {self.places.describe(pc)}{UNUSED if unused else ''}",
                site.pc, pc, self.threads(me[some]), some.size, hint=hint, level="warning" if warned else "error",
            )
            if unused:
                readers = records[some] if did == "read" else me[some]
                self.replicas.watch(finding, (site.pc, pc), hint, readers, stores)
            at, wrong = at[~same], wrong or not warned
        return wrong

    def before_exchange(self, site: Site, other_pc: int) -> bool:
        """True if `site` and `other_pc` are a plain load and a compare-and-swap with the same address operand.

        The load gives a compare-and-swap loop its first guess, which the loop verifies.
        """
        pair = [site, *(s for s in self.sites if s.pc == other_pc)]
        loads = [s for s in pair if s.kind == "load" and not s.strong]
        exchanges = [s for s in pair if s.op.startswith("cas")]
        if len(loads) != 1 or len(exchanges) != 1:
            return False
        loaded, exchanged = (self.places.function.body[s.pc].operands[1] for s in (loads[0], exchanges[0]))
        return loaded == exchanged


def touching(batches: list[Batch], region: MemoryRegion, cells: Index, targets: bool) -> tuple[Batch, int, int] | None:
    """Return (batch, copy, index in `cells`) of a copy in flight to (if `targets`) or from one of `cells`; or None."""
    for batch in batches:
        for side in batch.targets if targets else batch.sources:
            if side.region is not region or side.cells is None:
                continue
            hit = np.isin(side.cells, cells) & batch.left[side.at][:, None]
            if np.count_nonzero(hit):
                row, column = (int(x[0]) for x in np.nonzero(hit))
                return batch, int(side.at[row]), int(np.flatnonzero(cells == side.cells[row, column])[0])
    return None
