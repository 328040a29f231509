"""Registers read and written by instructions."""

from __future__ import annotations

from ...dataclass import dataclass
from .blocks import BARRIER_ROOTS, JUMP_ROOTS
from .ptx import NAME, PtxFunction, PtxInstruction

# Opcodes without a result whose first operand isn't in brackets.
_NO_RESULT = JUMP_ROOTS | BARRIER_ROOTS | {"nanosleep", "setmaxnreg"}
_TAKES_CARRY = frozenset({"addc", "subc", "madc"})


@dataclass(frozen=True, slots=True)
class Step:
    """The registers that an instruction reads and writes."""

    pc: int
    root: str
    targets: tuple[str, ...]
    #: may include names of variables, which no instruction writes
    sources: tuple[str, ...]
    #: registers and variables in brackets
    addresses: tuple[str, ...]


def step_of(pc: int, ins: PtxInstruction) -> Step:
    """Return an instruction's registers, without its guard. The target `_` is an unused destination."""
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
    """Map registers in `undefined` to the first predicated instruction or load that writes them, if there is one.

    Other writes don't count: if a branch skips them, compilers may leave registers undefined that are never used.
    """
    result: dict[str, int] = {}
    for pc, ins in enumerate(function.body):
        if ins.guard or ins.root in ("ld", "ldu"):
            for name in undefined.intersection(step_of(pc, ins).targets):
                result.setdefault(name, pc)
    return result


def defined(function: PtxFunction) -> set[str]:
    """Return the names in the first operands of all instructions except st, red and branches."""
    written: set[str] = set()
    for ins in function.body:
        if ins.operands and ins.root not in ("st", "red", "bra", "brx"):
            written.update(x.strip() for x in ins.operands[0].strip("{}()").replace("|", ",").split(","))
    return written
