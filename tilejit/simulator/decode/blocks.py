"""Basic blocks of a kernel, and liveness."""

from __future__ import annotations

from collections.abc import Sequence

from ...dataclass import dataclass, field
from .ptx import PtxFunction, PtxInstruction

EXIT = -1

# Opcodes that always start a basic block, so that lanes that arrive early can wait for the others.
WARP_SYNC_ROOTS = frozenset({"shfl", "vote", "match", "redux", "elect"})
ALIGNED_ROOTS = frozenset({"ldmatrix", "stmatrix", "mma", "wmma", "tcgen05", "wgmma", "tensormap"})
BARRIER_ROOTS = frozenset({"bar", "barrier"})

_STRONG = frozenset({"volatile", "relaxed", "acquire", "release"})
_INITIAL = frozenset({"init", "inval", "pending_count"})

# Opcodes that end a basic block, and for which no code is emitted.
JUMP_ROOTS = frozenset({"bra", "brx", "ret", "exit"})


@dataclass(slots=True)
class BasicBlock:
    """Straight-line code with one terminator."""

    index: int
    #: indices in the function's body of the instructions except jumps
    pcs: list[int] = field(default_factory=list)
    #: kind of the terminator: "fall", "branch", "switch", "barrier" or "trap"
    kind: str = "fall"
    #: indices of the successors, EXIT for the kernel's end; (taken, not taken) for "branch"
    targets: tuple[int, ...] = ()
    #: the predicate register of a branch, or the index register of a switch
    predicate: str = ""
    negated: bool = False
    end_pc: int = -1
    #: the number of warps whose lanes must all execute the first instruction together (`aligned_warps`)
    warps: int = 0


def is_warp_barrier(ins: PtxInstruction) -> bool:
    """True for bar.warp.sync."""
    return ins.root in BARRIER_ROOTS and ".warp" in ins.suffix


def aligned_warps(ins: PtxInstruction) -> int:
    """Return how many warps must execute `ins` together, with all lanes; 0 for CTA barriers and if it isn't aligned."""
    if ins.root == "setmaxnreg" or (ins.root == "wgmma" and ".mma_async" in ins.suffix):
        return 4
    return int(".aligned" in ins.suffix and (ins.root in ALIGNED_ROOTS or ins.suffix.startswith(".cluster")))


def is_barrier(ins: PtxInstruction) -> bool:
    """True for a barrier of a CTA, with all or some of its threads."""
    return ins.root in BARRIER_ROOTS and ".warp" not in ins.suffix and ".cluster" not in ins.suffix


def can_block(ins: PtxInstruction) -> bool:
    """True if threads may be parked at this instruction until registers are free or their whole cluster has arrived."""
    return ins.root == "setmaxnreg" or (ins.root in BARRIER_ROOTS and ins.suffix.startswith(".cluster.wait"))


def synchronizes(ins: PtxInstruction) -> bool:
    """True if `ins` may wait for other warps or be observed by them: a strong access, or a use of a barrier."""
    parts = ins.suffix.split(".")
    if ins.root in ("ld", "st"):
        return not _STRONG.isdisjoint(parts)
    if ins.root == "mbarrier":
        return _INITIAL.isdisjoint(parts)
    return ins.root in ("atom", "red") or is_barrier(ins) or ins.suffix.startswith(".cluster.arrive")


def split(function: PtxFunction, events: bool = False) -> list[BasicBlock]:
    """Return the basic blocks in program order. events: let each instruction that `synchronizes` begin a block.

    A predicated instruction that isn't a jump is in a block of its own, after a block that branches around it.
    """
    body = function.body
    leaders = _leaders(function)
    if events:
        leaders.update(pc for pc, ins in enumerate(body) if synchronizes(ins))
    order = sorted(leaders)
    guarded = {pc for pc in order if body[pc].guard and body[pc].root not in JUMP_ROOTS}
    number: dict[int, int] = {}
    count = 0
    for pc in order:
        number[pc] = count
        count += 2 if pc in guarded else 1
    blocks: list[BasicBlock] = []
    for start, end in zip(order, [*order[1:], len(body)], strict=True):
        following = number.get(end, EXIT)
        if start in guarded:
            front = BasicBlock(len(blocks), [], "branch", (following, len(blocks) + 1), str(body[start].guard))
            front.negated, front.end_pc = not body[start].guard_negated, start
            blocks.append(front)
        blocks.append(BasicBlock(len(blocks), list(range(start, end)), warps=aligned_warps(body[start])))
        _terminate(function, blocks[-1], number, following)
    return blocks


def _leaders(function: PtxFunction) -> set[int]:
    body = function.body
    together = 0
    leaders = {0, *(pc for pc in function.labels.values() if pc < len(body))}
    for pc, ins in enumerate(body):
        ends = ins.root in JUMP_ROOTS or ins.root == "trap" or is_barrier(ins)
        alone = ins.guard is not None and not ends
        if (ends or alone or (ins.guard and is_barrier(ins))) and pc + 1 < len(body):
            leaders.add(pc + 1)
        if ins.root in WARP_SYNC_ROOTS or is_warp_barrier(ins) or can_block(ins):
            leaders.add(pc)
        if ins.guard and ins.root not in JUMP_ROOTS:
            leaders.add(pc)
        # the threads that execute an aligned instruction together also execute the rest of the block together
        together = 0 if pc in leaders else together
        if aligned_warps(ins) > together:
            leaders.add(pc)
            together = aligned_warps(ins)
    return leaders


def _terminate(function: PtxFunction, block: BasicBlock, number: dict[int, int], following: int) -> None:
    block.targets = (following,)
    if not block.pcs:
        return
    pc = block.pcs[-1]
    ins = function.body[pc]
    block.end_pc = pc

    def label(name: str) -> int:
        return number.get(function.labels[name], EXIT)

    if ins.root in ("bra", "ret", "exit"):
        block.pcs.pop()
        taken = label(ins.operands[0]) if ins.root == "bra" else EXIT
        block.targets = (taken,)
        if ins.guard:
            block.kind, block.targets = "branch", (taken, following)
            block.predicate, block.negated = ins.guard, ins.guard_negated
    elif ins.root == "brx":
        block.pcs.pop()
        block.kind = "switch"
        block.predicate = ins.operands[0]
        block.targets = tuple(label(x) for x in function.branch_tables[ins.operands[1]])
    elif ins.root == "trap":
        block.kind = "trap"
    elif is_barrier(ins):
        block.kind = "barrier"


def live_after(block: BasicBlock, live: Sequence[int]) -> int:
    """Return the registers live after a block, as a bit set of slots. live: those live into each block."""
    result = 0
    for target in block.targets:
        if target != EXIT:
            result |= live[target]
    return result


def liveness(blocks: list[BasicBlock], uses: list[int], defs: list[int]) -> list[int]:
    """Return the registers live into each block, as bit sets, from each block's upward-exposed uses and definitions."""
    live = list(uses)
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            value = uses[block.index] | (live_after(block, live) & ~defs[block.index])
            if value != live[block.index]:
                live[block.index] = value
                changed = True
    return live
