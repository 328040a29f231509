"""Control-flow analyses: loops that may wait for other threads, endless loops, and uses of loaded values.

A loop may wait for other threads if it contains a strong load, an atomic or a wait at an mbarrier, and one of its
branches depends on the result of one of these, of another mbarrier instruction, or of any load other than `.nc` loads
and loads from parameter or constant memory.

The *deciding* registers of a loop are those on which its branches, its store addresses and the operands of its other
instructions with side effects, such as barriers, depend; data of stores don't count. If they all have the values of an
earlier iteration, and the memory read by the loads on which they depend is unchanged, then all later iterations take
the same path and store to the same addresses: the loop is endless. So is a loop without an exit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from ...dataclass import dataclass
from ...forks import cached_property
from ..opcodes import convert, floats, integer, move
from ..opcodes.memory import Site
from .blocks import EXIT, WARP_SYNC_ROOTS, BasicBlock, live_after
from .ptx import PtxFunction
from .roles import LOAD_ROOTS, Roles, all_roles

# (the block that jumps back, the loop's header)
BackEdge = tuple[int, int]
T = TypeVar("T", int, str)

#: opcodes whose operands affect only their results
PURE = frozenset({
    *integer.ENTRIES, *floats.ENTRIES, *convert.ENTRIES, *move.ENTRIES, *LOAD_ROOTS, "mapa", "getctarank",
})
#: the number of blocks among which the end of a selection by a branch is looked for
_NEAR = 16
#: opcodes whose data operands affect only the stored values
_STORES = frozenset({"st", "red", "atom"})
#: opcodes whose results depend only on registers of the participating lanes
_AMONG_LANES = WARP_SYNC_ROOTS | {"mma", "wmma"}


@dataclass(frozen=True, slots=True)
class Cycle:
    """A strongly connected component of blocks."""

    #: the deciding registers
    registers: frozenset[str]
    #: `Site.index` of the loads, atomics and mbarrier instructions on which these registers depend
    loads: frozenset[int]
    #: False if the deciding registers may also depend on other state, such as tensor memory
    understood: bool


class ControlFlow:
    """Facts about a program's control flow, computed on demand. live: slots live into each block, as bit sets."""

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
        self.live_into: dict[int, tuple[int, ...]] = {}
        self.deciding_slots: dict[int, tuple[int, ...] | None] = {}
        self.stores_from: dict[int, frozenset[int] | None] = {}

    @cached_property
    def exit_only(self) -> frozenset[int]:
        """The blocks from which all paths leave the kernel without a loop, a CTA barrier or a trap."""
        result: set[int] = set()
        left = {block.index for block in self.blocks if block.kind not in ("barrier", "trap")}
        while more := {index for index in left if result.issuperset(self.forward[index])}:
            result |= more
            left -= more
        return frozenset(result)

    @cached_property
    def forward(self) -> dict[int, list[int]]:
        return {block.index: [t for t in block.targets if t != EXIT] for block in self.blocks}

    @cached_property
    def backward(self) -> dict[int, list[int]]:
        result: dict[int, list[int]] = {index: [] for index in self.forward}
        for origin, targets in self.forward.items():
            for target in targets:
                result[target].append(origin)
        return result

    @cached_property
    def endless(self) -> frozenset[int]:
        """The blocks from which no path reaches the kernel's end or a trap."""
        ends = [block.index for block in self.blocks if block.kind == "trap" or EXIT in block.targets]
        return frozenset(self.forward) - reached(ends, self.backward)

    @cached_property
    def back_edges(self) -> list[BackEdge]:
        """The edges on a cycle that lead to the same block, or to an earlier one in program order."""
        upwards = [(origin, head) for origin, targets in self.forward.items() for head in targets if head <= origin]
        beyond = {head: reached([head], self.forward) for head in {head for _, head in upwards}}
        return [(origin, head) for origin, head in upwards if origin in beyond[head]]

    @cached_property
    def waits_for_ctas(self) -> bool:
        return any(self.waiting_loops.values())

    @cached_property
    def waiting_loops(self) -> dict[BackEdge, bool]:
        """Back edge of a loop that may wait for other threads → True if these may be in other clusters."""
        # parts of asynchronous operations return nothing
        reads = [site for site in self.sites if site.kind != "store" and not site.part]
        ordered = {site.pc: site.space != "shared" for site in reads if site.strong}
        ordered |= {site.pc: False for site in reads if self.is_wait(site)}
        varying = {site.pc for site in reads if not site.constant and site.space not in ("param", "const")}
        result: dict[BackEdge, bool] = {}
        for edge in self.back_edges if ordered else ():
            blocks = self.loop(edge)
            wide = [ordered[pc] for block in blocks for pc in block.pcs if pc in ordered]
            # the strong access's value may reach the branch through memory
            if wide and any(x.pc in varying for x in origins(self.roles_in(blocks), predicates(blocks))[0]):
                result[edge] = any(wide)
        return result

    def is_wait(self, site: Site) -> bool:
        return site.kind == "barrier" and "_wait" in self.function.body[site.pc].suffix

    @cached_property
    def unread_waits(self) -> frozenset[int]:
        """The instructions that wait at an mbarrier and whose results are never read."""
        waits = {site.pc for site in self.sites if self.is_wait(site)}
        return frozenset(
            pc for block in self.blocks for i, pc in enumerate(block.pcs) if pc in waits and not self.is_read(block, i)
        )

    def is_read(self, block: BasicBlock, number: int) -> bool:
        """True if a result of the instruction at index `number` of a block may be read later."""
        results = set(self.roles[block.pcs[number]].writes)
        for pc in block.pcs[number + 1 :]:
            later = self.roles[pc]
            if not results.isdisjoint((*later.reads, *later.addresses)):
                return True
            results.difference_update(later.writes)
        if block.predicate in results:
            return True
        live = live_after(block, self.live)
        return any(live >> self.slots[name] & 1 for name in results if name in self.slots)

    def pcs_around(self, number: int) -> frozenset[int]:
        """Return the instructions of a block's strongly connected component."""
        members = self.members(number)
        return frozenset(pc for i in members for pc in self.blocks[i].pcs)

    def loop(self, edge: BackEdge) -> list[BasicBlock]:
        """Return the blocks of the natural loop of a back edge."""
        origin, head = edge
        return [self.blocks[i] for i in sorted({head, *reached([origin], {**self.backward, head: []})})]

    def live_slots(self, number: int) -> tuple[int, ...]:
        if number not in self.live_into:
            live = self.live[number]
            self.live_into[number] = tuple(i for i in range(live.bit_length()) if live >> i & 1)
        return self.live_into[number]

    def deciding(self, number: int) -> tuple[int, ...] | None:
        """Return the slots of the deciding registers that are live into a block; None if its cycle isn't understood."""
        if number not in self.deciding_slots:
            cycle = self.cycle(number)
            slots = {self.slots[x] for x in cycle.registers if x in self.slots}
            live = tuple(x for x in self.live_slots(number) if x in slots)
            self.deciding_slots[number] = live if cycle.understood else None
        return self.deciding_slots[number]

    @cached_property
    def loads(self) -> frozenset[int]:
        """The union of all loops' `Cycle.loads`."""
        return frozenset(x for head in {head for _, head in self.back_edges} for x in self.cycle(head).loads)

    def cycle(self, number: int) -> Cycle:
        members = self.members(number)
        if members not in self.cycles:
            self.cycles[members] = self.cycle_of([self.blocks[i] for i in sorted(members)])
        return self.cycles[members]

    def members(self, number: int) -> frozenset[int]:
        """Return the strongly connected component of a block."""
        return frozenset(reached([number], self.forward) & reached([number], self.backward))

    def cycle_of(self, blocks: Sequence[BasicBlock]) -> Cycle:
        every = self.roles_in(blocks)
        seeds = predicates(blocks)
        for x in every:
            if x.root not in PURE:
                seeds.update(x.addresses)
                seeds.update(x.reads if x.root not in _STORES else ())
        decide, registers = origins(every, seeds)
        pcs = {x.pc for x in decide}
        loads = [site for site in self.sites if site.pc in pcs and site.kind != "store"]
        read = {site.pc for site in loads}
        understood = all(x.pc in read or self.is_understood(x) for x in decide)
        return Cycle(frozenset(registers), frozenset(site.index for site in loads), understood)

    def stores_of(self, pc: int) -> frozenset[int] | None:
        """Return the stores and atomics of values computed from a load's result; None if it may have other uses."""
        if pc not in self.stores_from:
            self.stores_from[pc] = self.follow(pc)
        return self.stores_from[pc]

    def follow(self, pc: int) -> frozenset[int] | None:
        flow, decisive = self.data_flow
        registers = reached(self.roles[pc].writes, flow) - {"_"}
        every = self.roles_in(self.blocks)
        if registers & decisive:
            return None
        if any(not registers.isdisjoint(x.addresses) for x in every):
            return None
        stores = {site.pc for site in self.sites if site.kind in ("store", "atomic")}
        users = {x.pc: x.root for x in every if x.root not in PURE and registers & {*x.reads}}
        return frozenset(users) if stores.issuperset(users) and _STORES.issuperset(users.values()) else None

    @cached_property
    def data_flow(self) -> tuple[dict[str, list[str]], set[str]]:
        """Register → registers computed from it, also by selections; and the registers that decide what is executed.

        A branch around instructions that affect only registers, such as the slow path of a logarithm, is a selection.
        """
        flow: dict[str, list[str]] = {}
        for x in self.roles_in(self.blocks):
            for name in x.reads if x.root in PURE else ():
                flow.setdefault(name, []).extend(x.writes)
        decisive = set()
        for block in self.blocks:
            chosen = self.chosen_by(block) if block.predicate else None
            if chosen is not None:
                flow.setdefault(block.predicate, []).extend(name for x in chosen for name in x.writes)
            elif block.predicate:
                decisive.add(block.predicate)
        return flow, decisive

    def chosen_by(self, block: BasicBlock) -> list[Roles] | None:
        """Return the instructions between a branch and the block at which its paths join.

        None if there is no such block near, or if these instructions affect more than registers.
        """
        near = [t for t in block.targets if t != EXIT]
        for join in near:
            near.extend(t for t in self.forward[join] if t not in near and len(near) < _NEAR)
            between = reached([t for t in block.targets if t != join], {**self.forward, join: []}) - {join}
            inside = [self.blocks[i] for i in sorted(between - {EXIT})]
            code = self.roles_in(inside)
            if EXIT in between or block.index in between or len(between) >= _NEAR:
                continue
            if all(EXIT not in x.targets and x.kind in ("fall", "branch") for x in inside):
                is_pure = all(x.root in PURE and x.root not in LOAD_ROOTS for x in code)
                return code if is_pure else None
        return None

    @cached_property
    def roles(self) -> list[Roles]:
        return all_roles(self.function)

    def roles_in(self, blocks: Iterable[BasicBlock]) -> list[Roles]:
        return [self.roles[pc] for block in blocks for pc in block.pcs]

    def is_understood(self, instruction: Roles) -> bool:
        """True if an instruction's results are known to depend only on registers and parameters."""
        if instruction.root in LOAD_ROOTS:
            # loads of the kernel's parameters have no `Site`
            symbol = self.function.body[instruction.pc].operands[1].strip("[]").split("+")[0].strip()
            return any(param.name == symbol for param in self.function.params)
        return instruction.root in PURE or instruction.root in _AMONG_LANES


def predicates(blocks: Iterable[BasicBlock]) -> set[str]:
    """Return the registers that the branches and switches of these blocks test."""
    return {block.predicate for block in blocks if block.predicate}


def origins(every: Sequence[Roles], seeds: Iterable[str]) -> tuple[list[Roles], set[str]]:
    """Return the instructions on which `seeds` depend, directly or not, and `seeds` with these instructions' inputs."""
    inputs: dict[str, list[str]] = {}
    for x in every:
        for name in x.writes:
            inputs.setdefault(name, []).extend((*x.reads, *x.addresses))
    registers = reached(seeds, inputs)
    return [x for x in every if not registers.isdisjoint(x.writes)], registers


def reached(starts: Iterable[T], edges: Mapping[T, Iterable[T]]) -> set[T]:
    """Return everything reachable from the starts, including the starts."""
    result = set(starts)
    left = list(result)
    while left:
        more = [x for x in edges.get(left.pop(), ()) if x not in result]
        result.update(more)
        left.extend(more)
    return result
