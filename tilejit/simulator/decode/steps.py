"""Which registers each instruction reads and writes."""

from __future__ import annotations

from ...dataclass import dataclass
from .blocks import BARRIER_ROOTS, JUMP_ROOTS
from .ptx import NAME, PtxInstruction

# Their first operand is no result, as none in brackets is.
_NO_RESULT = JUMP_ROOTS | BARRIER_ROOTS | {"nanosleep", "setmaxnreg"}
_TAKES_CARRY = frozenset({"addc", "subc", "madc"})


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction's registers. addresses: those in brackets; sources, targets: the others, in order.

    Names of variables are harmless among the sources: no instruction writes a register of that name.
    """

    pc: int
    root: str
    targets: tuple[str, ...]
    sources: tuple[str, ...]
    addresses: tuple[str, ...]


def step_of(pc: int, ins: PtxInstruction) -> Step:
    """An instruction's registers. `_` stands in a vector for an element that nobody wants."""
    operands = list(ins.operands)
    has_result = ins.root not in _NO_RESULT or ".red." in ins.suffix + "."
    targets: list[str] = []
    if has_result and operands and not operands[0].startswith("["):
        targets = NAME.findall(operands.pop(0))
    addresses: list[str] = []
    sources: list[str] = ["%carry"] if ins.root in _TAKES_CARRY else []
    for operand in operands:
        (addresses if operand.startswith("[") else sources).extend(NAME.findall(operand))
    if ".cc" in ins.suffix:
        targets.append("%carry")
    return Step(pc, ins.root, tuple(targets), tuple(sources), tuple(addresses))
