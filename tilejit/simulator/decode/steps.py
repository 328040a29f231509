"""Which registers each instruction reads and writes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .ptx import PtxInstruction

_REGISTER = re.compile(r"%[\w$.]+|\b_\b")
_NO_RESULT = frozenset({"st", "red", "bra", "brx", "ret", "exit", "trap", "membar", "fence", "cp", "prefetch",
                        "prefetchu", "nanosleep", "discard", "applypriority", "bar", "barrier", "setmaxnreg"})
_TAKES_CARRY = frozenset({"addc", "subc", "madc"})


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction's registers. addresses: those in brackets; sources, targets: the others, in order."""

    pc: int
    root: str
    targets: tuple[str, ...]
    sources: tuple[str, ...]
    addresses: tuple[str, ...]


def step_of(pc: int, ins: PtxInstruction) -> Step:
    """An instruction's registers. `_` stands in a vector for an element that nobody wants."""
    operands = list(ins.operands)
    targets: list[str] = []
    if ins.root not in _NO_RESULT or ".red." in ins.suffix + ".":
        targets = _REGISTER.findall(operands.pop(0)) if operands and ins.root != "red" else []
    addresses: list[str] = []
    sources: list[str] = ["%carry"] if ins.root in _TAKES_CARRY else []
    for operand in operands:
        (addresses if operand.startswith("[") else sources).extend(_REGISTER.findall(operand))
    if ".cc" in ins.suffix:
        targets.append("%carry")
    return Step(pc, ins.root, tuple(targets), tuple(sources), tuple(addresses))
