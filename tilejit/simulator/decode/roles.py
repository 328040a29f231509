"""The roles of an instruction's operands: what it writes, reads, uses as an address, and is predicated on.

All analyses of registers but liveness use `roles_of`. The emitters in `opcodes/` must treat operands in the same way.
"""

from __future__ import annotations

from ...dataclass import dataclass
from .blocks import BARRIER_ROOTS, JUMP_ROOTS
from .ptx import NAME, PtxFunction, PtxInstruction

LOAD_ROOTS = frozenset({"ld", "ldu"})
# Opcodes that don't write their first operand, although it isn't in brackets; only bar.red and barrier.red write it.
_NO_RESULT = JUMP_ROOTS | BARRIER_ROOTS | {"nanosleep", "setmaxnreg"}
_TAKES_CARRY = frozenset({"addc", "subc", "madc"})


@dataclass(frozen=True, slots=True)
class Roles:
    """The registers of an instruction's operands. Reads and addresses may include variables and labels."""

    pc: int
    root: str
    #: `_` is an unused destination
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    #: registers in brackets
    addresses: tuple[str, ...]
    #: accumulators, which are read and written; also in `writes`
    updates: tuple[str, ...]
    #: "" for an unconditional instruction
    predicate: str


def roles_of(pc: int, ins: PtxInstruction) -> Roles:
    operands = list(ins.operands)
    has_result = ".red." in ins.suffix + "." if ins.root in _NO_RESULT else not ins.suffix.startswith(".dealloc")
    writes: list[str] = []
    if has_result and operands and not operands[0].startswith("["):
        writes = NAME.findall(operands.pop(0))
    # wgmma also reads its first operand, an accumulator, unless scale-d is false
    updates = tuple(writes) if ins.root == "wgmma" else ()
    addresses: list[str] = []
    reads: list[str] = ["%carry"] if ins.root in _TAKES_CARRY else []
    for operand in operands:
        (addresses if operand.startswith("[") else reads).extend(NAME.findall(operand))
    if ".cc" in ins.suffix:
        writes.append("%carry")
    return Roles(pc, ins.root, tuple(writes), tuple(reads), tuple(addresses), updates, ins.guard or "")


def all_roles(function: PtxFunction) -> list[Roles]:
    return [roles_of(pc, ins) for pc, ins in enumerate(function.body)]
