"""Loops that only wait: an iteration that ends at the loop's head has changed nothing, so that it can be left out.

Such a loop contains one wait at an mbarrier, or one strong load, and may contain volatile loads. Its other
instructions compute registers, of which none is live into the head. An iteration's outcome is the block that follows
it: the head, or a block outside of the loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dataclass import dataclass
from ...forks import cached_property
from ..decode.blocks import EXIT, BasicBlock
from ..decode.control_flow import PURE
from ..decode.names import DTYPES
from ..decode.roles import LOAD_ROOTS
from ..decode.translate import Program
from ..machine.lanes import Index
from ..machine.machine import Machine
from ..opcodes.memory import Site

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
        if any(flow.roles[x].root not in known for x in pcs if x != pc or not flow.is_wait(main[0])):
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
    """A machine for whose threads a load gives certain values, or a wait at an mbarrier fails."""

    def __init__(self, machine: Machine, site: int) -> None:
        self.machine = machine
        self.site = site
        self.mbarriers = self
        self.value: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.machine, name)

    def load(self, number: int, address: Any) -> Any:
        if number == self.site:
            return self.value
        access = self.machine.access
        bound, index = access.resolve(number, address)
        return bound.view[index] if bound is not None else np.zeros(self.machine.n, DTYPES[access.sites[number].dtype])

    def wait(self, *operands: Any) -> Any:
        return np.zeros(self.machine.n, bool)

    def selects(self, pc: int, predicate: Any) -> None:
        pass


def inputs_of(machine: Machine, loop: WaitLoop) -> Values:
    """Return the executing threads' registers that are live into the loop, while they execute one of its blocks."""
    registers, group = machine.registers, machine.lanes.group
    kept = registers.kept if registers.kept_group is not None else {}
    return {slot: kept[slot] if slot in kept else registers.value(slot, group) for slot in loop.inputs}


def chosen(values: Values, at: Index) -> Values:
    return {slot: value[at] if value.ndim else value for slot, value in values.items()}


def outcomes(machine: Machine, loop: WaitLoop, positions: Index, inputs: Values, loaded: Any) -> Index:
    """Return the block that follows an iteration of each thread, EXIT or UNKNOWN.

    loaded: what the loop's load gives each thread; None for a wait, which fails.
    """
    result = np.full(positions.size, UNKNOWN)
    group, imagined = machine.lanes.group, Imagined(machine, loop.site)
    work: list[tuple[int, Index, Values]] = [(loop.head, np.arange(positions.size), inputs)]
    for _ in range(MOST_BLOCKS):
        if not work:
            break
        number, at, values = work.pop()
        compiled = machine.program.blocks[number]
        machine.select(positions[at])
        imagined.value = None if loaded is None else loaded[at]
        extra, *outputs = compiled.run(imagined, *[values[slot] for slot in compiled.inputs])
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
    return result
