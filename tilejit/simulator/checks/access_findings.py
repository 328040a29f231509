"""Findings about faulty memory accesses: one or two parties, the locations of their instructions, and a hint."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...fast_unique import fast_unique
from ..decode.roles import LOAD_ROOTS
from ..decode.translate import Program
from ..machine.lanes import RANK_SHIFT, Index, Lanes
from ..machine.memory import in_bytes
from ..machine.operations import Operations
from . import definedness
from .findings import Findings
from .precedence import Precedence
from .records import ACTOR, BARRIER, IN_FLIGHT, UNWRITTEN, CellAccess, Record, place
from .replicas import UNUSED, Replicas

if TYPE_CHECKING:
    from ..machine.copies import Batch

# True if both accesses are strong → hint
_HINTS = {
    False: "put a barrier between the two accesses, or give each thread its own place",
    True: "use .gpu: the scope of one access doesn't include the other's CTA",
}
# (substring of an opcode, name of the asynchronous operation, the wait for it); the first match counts
_WAITS = (
    ("wgmma", "product", "wgmma.wait_group"),
    ("cp.async.c", "copy", "the phase of the mbarrier at which it arrives"),
    (".mbarrier", "copy", "the phase of its mbarrier"),
    ("", "copy", "cp.async.bulk.wait_group, with .read if only the source is accessed"),
)
#: kind of a `Site` → verb in messages
VERBS = {"load": "reads", "store": "writes", "atomic": "updates", "barrier": "initializes an mbarrier in"}
_CTAS_HINT = "CTAs run in any order: give each its own place, or use atomic operations or a grid-wide barrier"
_RING_HINT = "put a barrier between them: one thread arrives after its access, the other waits before its own"


class AccessFindings:
    def __init__(self, program: Program, findings: Findings, precedence: Precedence, replicas_differ: bool) -> None:
        self.places = findings.places
        self.findings = findings
        self.precedence = precedence
        self.definedness = definedness.Definedness(program, findings)
        self.sites = program.sites
        self.replicas = Replicas(program.control_flow, precedence, findings, replicas_differ)
        #: (shared address, CTA of the chunk) → the instruction that initialized the mbarrier there, or None
        self.init_pc_of: Callable[[int, int], int | None] = lambda address, cta: None
        #: the chunk's bulk copies and TMA operations in flight; None before the first bulk or wgmma instruction
        self.operations: Operations | None = None

    def begin(self, lanes: Lanes) -> None:
        self.lanes = lanes
        #: batches of cp.async copies, of which some have not been waited for
        self.in_flight: list[Batch] = []
        self.definedness.select(lanes)
        self.replicas.select(lanes)

    def place(self, x: CellAccess, at: int) -> str:
        region, shift = x.region, x.shadow.cell_shift
        offset = int(x.cells[at]) << shift
        if region.owner:
            offset %= region.stride
        else:
            offset += region.view(f"u{1 << min(shift, 3)}", shift)[1]
        text = place(region, offset, 1 << x.site.shift)
        return f"rank {region.owner}'s {text}" if region.owner.isdigit() else text

    def party(self, x: CellAccess, at: int, verb: str = "") -> str:
        """Describe the access to a cell, such as 'thread 5 … writes 4 bytes at A+20 bytes, element 5 of 4 bytes'."""
        what = f"{verb or VERBS[x.site.kind]} {in_bytes(1 << x.site.shift)}"
        return f"{self.lanes.describe(int(x.me[at]))} {what} at {self.place(x, at)}"

    def describe(self, x: CellAccess, at: int, verb: str = "") -> str:
        return f"{self.party(x, at, verb)} of {x.region.space} memory"

    def threads(self, me: Record) -> list[int]:
        return self.lanes.numbers_of(fast_unique(me.astype(np.int64)))

    def sources(self, x: CellAccess) -> None:
        """Report a cp.async copy in flight whose source includes one of `x.cells`, which are about to be written."""
        hit = self.touched_copy(x, x.cells, targets=False)
        if hit is not None:
            at = np.array([hit[2]])
            hint = "wait for the copy before its source changes"
            self.add_copy(x, at, hit, "while an asynchronous copy by {} still reads it", hint)

    def add_copy(self, x: CellAccess, at: Index, hit: tuple[Batch, int, int], then: str, hint: str) -> None:
        """Report accesses to a copy in flight. hit: see `touched_copy`. then: has {} for the copying thread."""
        batch, copy, _ = hit
        copier = self.lanes.describe_position(int(batch.positions[copy]))
        self.findings.add(
            "in-flight", self.describe(x, int(at[0])), x.site.pc, batch.pc, self.threads(x.me[at]), at.size, hint=hint,
            then=then.format(copier),
        )

    def marks(self, x: CellAccess, writes: Record, at: Index) -> None:
        """Report accesses to mbarriers or targets of copies in flight; pass reads of unwritten cells to `unwritten`."""
        self.target_in_flight(x, at[writes[at] == IN_FLIGHT])
        self.of_barrier(x, at[writes[at] == BARRIER])
        if x.site.kind != "store":
            self.unwritten(x, at[writes[at] == UNWRITTEN])

    def target_in_flight(self, x: CellAccess, at: Index) -> None:
        if not at.size:
            return
        first = int(at[0])
        hit = self.touched_copy(x, x.cells[first : first + 1], targets=True)
        if hit is None:
            assert self.operations is not None, "a cell in flight belongs to a copy"
            operation = self.operations.writing(x.region, int(x.cells[first]))
            threads = self.threads(x.me[at])
            self.add_unwaited(self.describe(x, first), x.site.pc, operation.pc, threads, "wrote", at.size)
            return
        hint = "wait for the copy (cp.async.commit_group and wait_group), then synchronize with the other threads"
        self.add_copy(x, at, hit, "before the asynchronous copy to it by {} was waited for", hint)

    def of_barrier(self, x: CellAccess, at: Index) -> None:
        if not at.size:
            return
        first = int(at[0])
        cta, offset = divmod(int(x.cells[first]) << x.shadow.cell_shift, x.region.stride)
        init_pc = self.init_pc_of((x.region.base + offset) % (1 << RANK_SHIFT), cta)
        self.findings.add(
            "barrier", f"{self.describe(x, first)}, part of an mbarrier", x.site.pc, init_pc, self.threads(x.me[at]),
            at.size, hint="access it only with mbarrier instructions; mbarrier.inval makes it ordinary memory",
            then="initialized at" if init_pc is not None else "",
        )

    def add_unwaited(
        self, access: str, pc: int, other_pc: int, threads: list[int], did: str, count: int = 1
    ) -> None:
        """Report an access that no wait separates from an operation that "wrote" or "read" (`did`) the cells."""
        opcode = self.places.opcode(other_pc)
        operation, wait = next(x[1:] for x in _WAITS if x[0] in opcode)
        self.findings.add(
            "in-flight", access, pc, other_pc, threads, count,
            hint=f"wait for it ({wait}), then synchronize with threads that haven't waited",
            then=f"before the {operation} that {'writes' if did == 'wrote' else 'reads'} it was waited for",
        )

    def unwritten(self, x: CellAccess, at: Index) -> None:
        """Mark registers loaded from unwritten cells as undefined; report other instructions that read such cells."""
        if not at.size:
            return
        pc = x.site.pc
        text = f"{self.party(x, int(at[0]), 'reads')}, which nothing has written"
        if self.places.function.body[pc].root in LOAD_ROOTS:
            positions = self.lanes.positions()
            flags = np.zeros(x.cells.size, bool)
            flags[at] = True
            self.definedness.read(pc, text, positions, flags.reshape(positions.size, -1))
        else:
            threads = self.threads(x.me[at])
            self.findings.add("undefined", text, pc, None, threads, at.size, hint=definedness.UNWRITTEN_HINT)

    def changed(self, x: CellAccess, records: Record, at: Index) -> None:
        if not at.size:
            return
        first = int(at[0])
        other = int(self.precedence.pcs(records[first : first + 1])[0])
        verb, did = ("reads", "wrote") if x.site.constant else (VERBS[x.site.kind], "read")
        self.findings.add(
            "read-only", self.describe(x, first, verb), x.site.pc, other, self.threads(x.me[at]), at.size,
            hint="read it without .nc, or let another kernel write it",
            then=f"and this kernel {did} it; memory that ld.global.nc reads must not change while the kernel runs",
        )

    def race(self, x: CellAccess, records: Record, at: Index, did: str) -> bool:
        """Report races with recorded accesses, which "wrote" or "read" (`did`); return True if any is an error."""
        wrong = False
        while at.size:
            pcs = self.precedence.pcs(records[at])
            same = pcs == pcs[0]
            some = at[same]
            harmless, stores = self.replicas.examine(x, some, records[some], int(pcs[0]), did)
            first = int(some[np.argmin(harmless)])
            record = self.precedence.one_of(x.shadow, int(records[first]), int(x.me[first]))
            pc = self.precedence.order.pcs[record >> 32]
            if self.precedence.order.is_agent(record & int(ACTOR)):
                access = self.describe(x, first)
                self.add_unwaited(access, x.site.pc, pc, self.threads(x.me[some]), did, some.size)
                at, wrong = at[~same], True
                continue
            strong = x.site.strong and bool(self.precedence.strong[pc])
            is_of_one_cta = self.lanes.cta_of(int(x.me[first])) == self.lanes.cta_of(record & int(ACTOR))
            hint = _HINTS[strong] if strong or is_of_one_cta else _CTAS_HINT
            if self.precedence.order.facts.clocks and x.region.space == "shared" and not strong:
                hint = _RING_HINT
            unused = bool(harmless.all())
            warned = unused or self.before_exchange(x, pc)
            finding = self.findings.add(
                "scope" if strong else "race",
                f"race in {x.region.space} memory: {self.party(x, first)}",
                x.site.pc, pc, self.threads(x.me[some]), some.size, hint=hint, level="warning" if warned else "error",
                then=f"and {self.lanes.describe(record & int(ACTOR))} {did} it, with nothing that orders the two",
                more=UNUSED if unused else "",
            )
            if unused:
                readers = records[some] if did == "read" else x.me[some]
                self.replicas.watch(finding, (x.site.pc, pc), hint, readers, stores)
            at, wrong = at[~same], wrong or not warned
        return wrong

    def replicas_differ(self, x: CellAccess, record: int, at: int, values: tuple[Any, Any], count: int) -> None:
        """Warn that replicas store different values. record: of the earlier store. values: the later, the earlier."""
        other = self.precedence.one_of(x.shadow, record, int(x.me[at]))
        later, earlier = (f"0x{np.asarray(v).tobytes()[::-1].hex()}" for v in values)
        self.findings.add(
            "replicas",
            f"replicas differ: {self.party(x, at)} of {x.region.space} memory, {later}",
            x.site.pc, None, self.threads(x.me[[at]]), count, level="warning",
            more=f"\nand {self.lanes.describe(other & int(ACTOR))} wrote {earlier} there by the same execution of the "
            "same instruction; which of the two remains is undefined",
        )

    def before_exchange(self, x: CellAccess, other_pc: int) -> bool:
        """True if `x` and `other_pc` are a plain load and a compare-and-swap with the same address operand.

        Such a load is assumed to give a compare-and-swap loop its first guess, which the loop verifies.
        """
        pair = [x.site, *(s for s in self.sites if s.pc == other_pc)]
        loads = [s for s in pair if s.kind == "load" and not s.strong]
        exchanges = [s for s in pair if s.op.startswith("cas")]
        if len(loads) != 1 or len(exchanges) != 1:
            return False
        loaded, exchanged = (self.places.function.body[s.pc].operands[1] for s in (loads[0], exchanges[0]))
        return loaded == exchanged

    def touched_copy(self, x: CellAccess, cells: Index, targets: bool) -> tuple[Batch, int, int] | None:
        """Return (batch, copy, index in `cells`) of a cp.async copy in flight to or from one of `cells`, or None."""
        for batch in self.in_flight:
            for side in batch.targets if targets else batch.sources:
                if side.region.shadow is not x.shadow or side.cells is None:
                    continue
                hit = np.isin(side.cells, cells) & batch.left[side.at][:, None]
                if np.count_nonzero(hit):
                    row, column = (int(i[0]) for i in np.nonzero(hit))
                    return batch, int(side.at[row]), int(np.flatnonzero(cells == side.cells[row, column])[0])
        return None
