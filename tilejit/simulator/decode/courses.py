"""Where blocks lead: which of them only leave the kernel, and what decides how a loop goes on.

A register decides how a loop goes on if a branch in it depends on it, or the place of a store, or a barrier. A value
that is only stored decides nothing. Where all that decides is as it was in an earlier turn, and nobody has written what
the deciding loads read, every later turn takes the same way and stores to the same places: the loop has no end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..opcodes import convert, floats, integer, move
from ..opcodes.memory import Site
from .blocks import EXIT, BasicBlock
from .ptx import PtxFunction
from .steps import Step, step_of

#: Only their results depend on their operands.
_PURE = frozenset({*integer.ENTRIES, *floats.ENTRIES, *convert.ENTRIES, *move.ENTRIES, "ld", "ldu"})
#: What they store comes from operands that decide nothing but that.
_STORES = frozenset({"st", "red", "atom"})
#: Their results follow from the registers of the lanes that take part.
_AMONG_LANES = frozenset({"shfl", "vote", "match", "redux", "elect", "mma"})


@dataclass(frozen=True, slots=True)
class Cycle:
    """Blocks of which each leads to each other one.

    registers: decide how it goes on. loads: numbers of the memory instructions whose results do.
    understood: whether nothing else does, such as tensor memory.
    """

    registers: frozenset[str]
    loads: frozenset[int]
    understood: bool


class Courses:
    """Facts of one program, each worked out when it is asked for. live: registers live into each block, as bit sets."""

    def __init__(
        self, function: PtxFunction, blocks: Sequence[BasicBlock], sites: Sequence[Site], slots: Mapping[str, int],
        live: Sequence[int],
    ) -> None:
        self.function = function
        self.blocks = blocks
        self.sites = sites
        self.slots = slots
        self.live = live
        self.cycles: dict[frozenset[int], Cycle] = {}
        self.deciding_slots: dict[int, tuple[int, ...] | None] = {}

    @cached_property
    def ways_out(self) -> frozenset[int]:
        """The blocks from which every path leaves the kernel, with no loop and no barrier on it."""
        result: set[int] = set()
        for _ in self.blocks:
            more = {
                block.index
                for block in self.blocks
                if block.kind not in ("barrier", "trap") and result.issuperset(t for t in block.targets if t != EXIT)
            }
            if more <= result:
                break
            result |= more
        return frozenset(result)

    def deciding(self, number: int) -> tuple[int, ...] | None:
        """The registers live into a block that decide how the loop around it goes on; None where more does."""
        if number not in self.deciding_slots:
            cycle = self.cycle(number)
            live = self.live[number]
            slots = sorted(self.slots[x] for x in cycle.registers if x in self.slots)
            self.deciding_slots[number] = tuple(x for x in slots if live >> x & 1) if cycle.understood else None
        return self.deciding_slots[number]

    @cached_property
    def loads(self) -> frozenset[int]:
        """Memory instructions, by number, whose results decide how some loop goes on."""
        heads = {t for block in self.blocks for t in block.targets if 0 <= t <= block.index}
        return frozenset(x for head in heads for x in self.cycle(head).loads)

    def cycle(self, number: int) -> Cycle:
        """The largest cycle through a block."""
        forward = {block.index: [t for t in block.targets if t != EXIT] for block in self.blocks}
        backward: dict[int, list[int]] = {block.index: [] for block in self.blocks}
        for origin, targets in forward.items():
            for target in targets:
                backward[target].append(origin)
        members = frozenset(reached(number, forward) & reached(number, backward))
        if members not in self.cycles:
            self.cycles[members] = self.cycle_of([self.blocks[i] for i in sorted(members)])
        return self.cycles[members]

    def cycle_of(self, blocks: Sequence[BasicBlock]) -> Cycle:
        steps = [step_of(pc, self.function.body[pc]) for block in blocks for pc in block.pcs]
        registers = {block.predicate for block in blocks if block.predicate}
        for step in steps:
            if step.root not in _PURE:
                registers.update(step.addresses)
                registers.update(step.sources if step.root not in _STORES else ())
        deciding: list[Step] = []
        settled = False
        while not settled:
            deciding = [step for step in steps if not registers.isdisjoint(step.targets)]
            before = len(registers)
            registers.update(x for step in deciding for x in (*step.sources, *step.addresses))
            settled = len(registers) == before
        pcs = {step.pc for step in deciding}
        loads = [site for site in self.sites if site.pc in pcs and site.kind != "store"]
        read = {site.pc for site in loads}
        understood = all(step.pc in read or self.is_understood(step) for step in deciding)
        return Cycle(frozenset(registers), frozenset(site.index for site in loads), understood)

    def is_understood(self, step: Step) -> bool:
        """Whether registers alone say what an instruction gives."""
        if step.root in ("ld", "ldu"):
            # of memory only the kernel's parameters have no memory instruction
            symbol = self.function.body[step.pc].operands[1].strip("[]").split("+")[0].strip()
            return any(param.name == symbol for param in self.function.params)
        return step.root in _PURE or step.root in _AMONG_LANES


def reached(start: int, edges: Mapping[int, Iterable[int]]) -> set[int]:
    """Everything that edges lead to, the start included."""
    result, left = {start}, [start]
    while left:
        more = [x for x in edges[left.pop()] if x not in result]
        result.update(more)
        left.extend(more)
    return result
