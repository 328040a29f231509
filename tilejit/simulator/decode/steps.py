"""Which registers each instruction reads and writes."""

from __future__ import annotations

from ...dataclass import dataclass
from .blocks import BARRIER_ROOTS, JUMP_ROOTS
from .ptx import NAME, PtxFunction, PtxInstruction

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


def skippable(function: PtxFunction, undefined: frozenset[str]) -> dict[str, int]:
    """Return those of the registers that predicated instructions or loads write, with the first of these.

    Other writes are left out: where a branch skips them, compilers leave registers undefined that no instruction needs.
    """
    result: dict[str, int] = {}
    for pc, ins in enumerate(function.body):
        if ins.guard or ins.root in ("ld", "ldu"):
            for name in undefined.intersection(step_of(pc, ins).targets):
                result.setdefault(name, pc)
    return result


def defined(function: PtxFunction) -> set[str]:
    """Registers that may be written somewhere: the first operand of every instruction that has a destination."""
    written: set[str] = set()
    for ins in function.body:
        if ins.operands and ins.root not in ("st", "red", "bra", "brx"):
            written.update(x.strip() for x in ins.operands[0].strip("{}()").replace("|", ",").split(","))
    return written
