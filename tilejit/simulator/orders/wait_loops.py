"""Loops that only wait: an iteration that ends at the loop's head has changed nothing, so that it can be left out.

Such a loop contains one wait at an mbarrier, one strong load or one atomic, and may contain volatile loads. Its other
instructions compute registers, of which none is live into the head. An iteration's outcome is the block that follows
it: the head, or a block outside of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ...forks import cached_property
from ..decode.blocks import EXIT, BasicBlock
from ..decode.control_flow import PURE
from ..decode.names import DTYPES
from ..decode.roles import LOAD_ROOTS
from ..decode.translate import Program
from ..machine.atomics import update
from ..machine.lanes import Index
from ..machine.machine import Machine
from ..machine.mbarriers import is_complete
from ..opcodes.memory import Site

#: a word of memory, or a barrier of a CTA
Place = tuple[Any, ...]
#: slot → the value of each of some threads, or of all of them
Values = dict[int, Any]
#: the outcome of an iteration that isn't understood
UNKNOWN = -2
#: the maximum number of blocks of an iteration
MOST_BLOCKS = 32


@dataclass(frozen=True, slots=True)
class WaitLoop:
    head: int
    members: frozenset[int]
    #: `Site.index` of the wait or load
    site: int
    #: the registers live into the head that an iteration reads
    inputs: tuple[int, ...]
    #: False if a register written by an iteration is live after the loop
    silent: bool


class WaitLoops:
    """The wait loops of a program, by the instruction that waits."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.control_flow = program.control_flow
        self.found: dict[int, WaitLoop | None] = {}

    def of(self, pc: int) -> WaitLoop | None:
        """Return the smallest loop that contains an instruction if it is a wait loop, else None."""
        if pc not in self.found:
            loops = [x for x in self.loops.items() if any(pc in block.pcs for block in x[1])]
            head, blocks = min(loops, key=lambda x: len(x[1]), default=(UNKNOWN, []))
            self.found[pc] = self.examined(head, blocks, pc) if blocks else None
        return self.found[pc]

    @cached_property
    def loops(self) -> dict[int, list[BasicBlock]]:
        """Head → blocks of the loops that may wait; loops with one head are one."""
        result: dict[int, set[int]] = {}
        for edge in self.control_flow.waiting_loops:
            result.setdefault(edge[1], set()).update(x.index for x in self.control_flow.loop(edge))
        return {head: [self.control_flow.blocks[i] for i in sorted(members)] for head, members in result.items()}

    def examined(self, head: int, blocks: list[BasicBlock], pc: int) -> WaitLoop | None:
        flow = self.control_flow
        members = frozenset(block.index for block in blocks)
        pcs = [x for block in blocks for x in block.pcs]
        sites = [site for site in self.program.sites if site.pc in pcs and site.space not in ("param", "const")]
        waits = [site for site in sites if flow.is_wait(site)] or [site for site in sites if not self.is_volatile(site)]
        main = waits if len(waits) == 1 else sites
        if [site.pc for site in main] != [pc] or any(not x.strong and x is not main[0] for x in sites):
            return None
        known = PURE | LOAD_ROOTS | {"nanosleep"}
        if any(flow.roles[x].root not in known for x in pcs if x != pc):
            return None
        written = {flow.slots[name] for x in pcs for name in flow.roles[x].writes if name in flow.slots}
        into_head = set(flow.live_slots(head))
        if written & into_head or any(block.kind not in ("fall", "branch") for block in blocks):
            return None
        exits = {target for block in blocks for target in block.targets} - members - {EXIT}
        after = {slot for target in exits for slot in flow.live_slots(target)}
        read = {slot for number in members for slot in self.program.blocks[number].inputs}
        return WaitLoop(head, members, main[0].index, tuple(sorted(read & into_head)), not written & after)

    def is_volatile(self, site: Site) -> bool:
        return ".volatile" in self.program.function.body[site.pc].suffix

    def precedes_loop(self, pc: int) -> bool:
        """True for a first wait before a loop: if it fails, the loop waits for the same phase, and ends as it does."""
        flow, asked = self.control_flow, self.asks(pc)
        fails, passes = self.ways(pc)
        results = {flow.slots[name] for name in flow.roles[pc].writes if name in flow.slots}
        if asked is None or (passes != EXIT and results.intersection(flow.live_slots(passes))):
            return False
        for head, blocks in self.loops.items():
            waits = [x for block in blocks for x in block.pcs if self.asks(x) == asked]
            if head == fails and len(waits) == 1 and self.ways(waits[0])[1] == passes:
                loop = self.of(waits[0])
                return loop is not None and loop.silent
        return False

    def asks(self, pc: int) -> tuple[str, ...] | None:
        """Return the operands of a wait at an mbarrier, without its result; None for other instructions."""
        body = self.program.function.body
        _, *operands = [*body[pc].operands, ""]
        if body[pc].root != "mbarrier" or "_wait" not in body[pc].suffix:
            return None
        if pc and body[pc - 1].root == "and" and "@" in operands[1] and body[pc - 1].operands[0] == operands[1]:
            # a parity computed in inner braces
            operands[1:2] = body[pc - 1].operands[1:]
            before = body[pc - 2] if pc > 1 else body[pc]
            if before.root == "mov" and before.guard is None and before.operands[0] == operands[1] \
                    and before.operands[1].isdecimal():
                # the number of a phase that is a constant
                operands[1] = before.operands[1]
        return body[pc].suffix, *operands

    def ways(self, pc: int) -> tuple[int, int]:
        """Return the blocks that follow the block of a wait if it fails and if it passes; UNKNOWN unless it decides."""
        flow = self.control_flow
        block = next((x for x in flow.blocks if pc in x.pcs), None)
        if block is None or block.pcs[-1] != pc or block.kind != "branch":
            return UNKNOWN, UNKNOWN
        if block.predicate not in flow.roles[pc].writes:
            return UNKNOWN, UNKNOWN
        yes, no = (self.jumped(x) for x in (reversed(block.targets) if block.negated else block.targets))
        return no, yes

    def jumped(self, number: int) -> int:
        """Return the first block from `number` on that isn't a mere jump."""
        for _ in range(MOST_BLOCKS):
            if number == EXIT:
                break
            block = self.control_flow.blocks[number]
            if block.pcs or block.kind != "fall":
                break
            number = block.targets[0]
        return number


class Imagined:
    """Executes blocks without effects: accesses and waits return what they would return now.

    site: the index of an access that finds `value` in memory instead; -1 for none.
    changing: the mask of the executing threads whose last atomic would change memory; None after other accesses.
    places: the words and barriers that were read.
    """

    def __init__(self, machine: Machine, places_of: Callable[[int, Any], Iterable[Place]]) -> None:
        self.machine = machine
        self.mbarriers = self
        self.places_of = places_of
        self.site = -1
        self.value: Any = None
        self.changing: NDArray[np.bool_] | None = None
        self.places: set[Place] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.machine, name)

    def load(self, number: int, address: Any) -> Any:
        self.places.update(self.places_of(number, address))
        access = self.machine.access
        bound, index = access.resolve(number, address)
        if number == self.site or bound is None:
            dtype = DTYPES[access.sites[number].dtype]
            return np.full(self.machine.n, self.value if number == self.site else 0, dtype)
        return bound.view[index]

    def atomic(self, number: int, address: Any, wanted: bool, *operands: Any) -> Any:
        before = np.copy(self.load(number, self.machine.lanes.each(address)))
        after = before.copy()
        values = tuple(np.broadcast_to(x, before.shape) for x in operands)
        update(self.machine.access.sites[number].op, after, np.arange(before.size), values, True)
        self.changing = after != before
        return before

    def wait(self, number: int, address: Any, phase: Any, kind: str, acquires: str) -> Any:
        mbarriers = self.machine.mbarriers
        result = np.ones(self.machine.n, bool)
        for barrier, threads in mbarriers.groups(mbarriers.access.sites[number], address):
            ctas = mbarriers.ctas(threads)
            self.places.update(("mbarrier", barrier.address, cta) for cta in ctas.tolist())
            awaited = mbarriers.of(phase, threads).astype(np.int64)
            result[threads] = ~barrier.live[ctas] | is_complete(barrier.phase[ctas], awaited, kind)
        return result

    def selects(self, pc: int, predicate: Any) -> None:
        pass


def outcomes(imagined: Imagined, loop: WaitLoop, positions: Index, inputs: Values) -> Index:
    """Return the block that follows an iteration of each thread, EXIT or UNKNOWN.

    inputs: the threads' registers that are live into the loop. UNKNOWN: also if it changes memory.
    """
    machine = imagined.machine
    result = np.full(positions.size, UNKNOWN)
    changes = np.zeros(positions.size, bool)
    group = machine.lanes.group
    work: list[tuple[int, Index, Values]] = [(loop.head, np.arange(positions.size), inputs)]
    for _ in range(MOST_BLOCKS):
        if not work:
            break
        number, at, values = work.pop()
        compiled = machine.program.blocks[number]
        machine.select(positions[at])
        imagined.changing = None
        extra, *outputs = compiled.run(imagined, *[values[slot] for slot in compiled.inputs])
        if imagined.changing is not None:
            changes[at[imagined.changing]] = True
        values = {**values, **dict(zip(compiled.outputs, outputs, strict=True))}
        block = compiled.block
        parts = [(block.targets[0], np.arange(at.size))]
        if block.kind == "branch":
            taken = np.broadcast_to(extra, at.shape) != block.negated
            parts = list(zip(block.targets, (np.flatnonzero(taken), np.flatnonzero(~taken)), strict=True))
        for target, some in parts:
            if target == loop.head or target not in loop.members:
                result[at[some]] = target
            elif some.size:
                work.append((target, at[some], chosen(values, some)))
    machine.select(group)
    result[changes] = UNKNOWN
    return result


def chosen(values: Values, at: Index) -> Values:
    return {slot: value[at] if value.ndim else value for slot, value in values.items()}
