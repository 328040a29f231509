"""Faults of ptxas, and PTX that avoids them.

A driver compiles PTX by a ptxas of its own version, and saved PTX may meet any. So emission always avoids them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..dataclass import dataclass

__all__ = ["FAULTS", "PtxasFault", "without_faults"]


@dataclass(frozen=True, slots=True)
class PtxasFault:
    """A fault of ptxas.

    provoked_by: the PTX that shows it. versions: the affected ones among those that were tried. evidence: machine code
    that proves it. avoided_by: what emission does instead, and where. cost: in machine instructions.
    """

    name: str
    provoked_by: str
    versions: str
    evidence: str
    avoided_by: str
    cost: str


FAULTS = (
    PtxasFault(
        name="three_way_maximum",
        provoked_by=(
            "max(max(a, -b), c) of s32 or s16, or the same of min, where nothing else uses the inner result. ptxas "
            "loses the negation of what it takes for the second operand of the inner one: a uniform register, if one "
            "of them is. -b may be a neg, a difference from zero or a product with -1. The zero, or the inner maximum, "
            "may be of an earlier iteration of a loop that ptxas unrolls. Not affected: unsigned types, a maximum of a "
            "minimum, and operands such as a - b, ~b, |b| and int32(-b)."
        ),
        versions="wrong: 12.6 to 13.3; right: 13.4, 13.5",
        evidence="sm_90 and sm_100: VIMNMX3 R5, R5, R4, R6, !PT without the IADD3 R4, -R4, RZ, RZ before it",
        avoided_by="without_faults computes -b as ~b + 1, which ptxas fuses with the inner maximum instead (VIADDMNMX)",
        cost="1 per inner maximum of one negation, 2 of two (LOP3, VIADDMNMX, VIMNMX instead of IADD3, VIMNMX3)",
    ),
    PtxasFault(
        name="lost_extension",
        provoked_by=(
            "neg.s16 or abs.s16 of -32768 whose result, or a copy of it, is compared, shifted, multiplied or "
            "converted as a signed number: ptxas takes it for an extended number, so that it is +32768. Not affected: "
            "numbers of 8 bits, conversions to floats, -1 * x, and the sum of such a result with another number."
        ),
        versions="wrong: 12.6 to 13.2; right: 13.3 to 13.5",
        evidence="sm_90: IADD3 R5, RZ, -R0, RZ or IABS R5, R0 without the PRMT R5, R5, 0x9910, RZ after it",
        avoided_by="without_faults writes mul.lo.s16 by -1, and abs.s32 of the extended number",
        cost="none, but 2 moves where the result is compared (of the code of ptxas 13.5)",
    ),
    PtxasFault(
        name="float16_of_zero",
        provoked_by="mma of 8-bit floats for sm_90 with a register whose upper half ptxas knows to be zero",
        versions="wrong: 13.0, 13.5",
        evidence="F2FP.F16.E4M3.UNPACK_B R6, 0x60 for RZ.H1: 32 instead of 0",
        avoided_by="lower/variants/gemm_mma.py combines the registers with an opaque zero (_Factor.hidden)",
        cost="1 LOP3 per register",
    ),
)

_EXTREMUM = re.compile(r"\b(?:max|min)\.s(?:32|16)\s")
_INSTRUCTION = re.compile(
    r"\b(max|min|neg|abs|sub|mul|add|shl|mov|selp|cvt)\.(?:lo\.)?(?:[su](?:8|16|32)\.)?([sub](?:16|32))"
    r"\s+(%\w+), ([^;{\n]+);"
)
_NEGATION = re.compile(r"\b(?:neg|abs)\.s16\s")
#: instructions that depend on the sign of operands of 16 bits
_SIGNED_USE = re.compile(
    r"\b(?:cvt\.s(?:32|64)|setp\.\w+|shr|div|rem|max|min|abs|(?:mul|mad)\.(?:wide|hi))\.s16\s+([^;{\n]+);"
)
_PREDICATE = re.compile(r"@!?%\w+\s+$")


class _Instruction(NamedTuple):
    """An instruction with one result. operation: max or sub, say. kind: its type, as in s32."""

    operation: str
    kind: str
    result: str
    operands: tuple[str, ...]
    start: int
    end: int

    @property
    def is_extremum(self) -> bool:
        return self.operation in ("max", "min") and self.kind in ("s32", "s16")

    @property
    def is_copy(self) -> bool:
        return self.operation in ("mov", "selp")

    @property
    def keeps_constant(self) -> bool:
        """True if ptxas knows the result wherever it knows the registers among the operands."""
        return self.operation in ("mov", "cvt") or any(not operand.startswith("%") for operand in self.operands)


class _Program:
    """The instructions that decide which operands are negations. by_result: those that may define a register."""

    def __init__(self, ptx: str) -> None:
        self.by_result: dict[str, list[_Instruction]] = defaultdict(list)
        for found in _INSTRUCTION.finditer(ptx):
            operands = tuple(found[4].split(", "))
            self.by_result[found[3]].append(
                _Instruction(found[1], found[2], found[3], operands, found.start(), found.end())
            )

    def inner_extrema(self) -> Iterator[_Instruction]:
        """Yield each signed maximum that is an operand of another one, or of itself in a loop; minima likewise."""
        for instructions in self.by_result.values():
            for outer in instructions:
                for operand in outer.operands if outer.is_extremum else ():
                    for inner in self._sources(operand, lambda i: i.is_copy):
                        if (inner.operation, inner.kind) == (outer.operation, outer.kind):
                            yield inner

    def lost_extensions(self, ptx: str) -> Iterator[_Instruction]:
        """Yield each negation or absolute value of 16 bits that is used as a signed number."""
        for use in _SIGNED_USE.finditer(ptx):
            for operand in use[1].split(", "):
                for instruction in self._sources(operand, lambda i: i.is_copy):
                    if instruction.operation in ("neg", "abs") and instruction.kind == "s16":
                        yield instruction

    def may_be_negation(self, operand: str) -> bool:
        """True if ptxas may compute the value as 0 - x."""
        return any(self._negates(i) for i in self._sources(operand, self._keeps_negation))

    def _sources(self, register: str, passes: Callable[[_Instruction], bool]) -> Iterator[_Instruction]:
        """Yield the instructions that may define a value, also through those that `passes` accepts."""
        waiting, seen = [register], {register}
        while waiting:
            for instruction in self.by_result.get(waiting.pop(), ()):
                yield instruction
                if passes(instruction):
                    waiting += [operand for operand in instruction.operands if operand not in seen]
                    seen.update(instruction.operands)

    def _keeps_negation(self, instruction: _Instruction) -> bool:
        """True for copies, and for sums with what may be zero."""
        if instruction.operation == "add":
            return any(self._may_be_constant(operand, "0") for operand in instruction.operands)
        return instruction.is_copy

    def _negates(self, instruction: _Instruction) -> bool:
        operands = instruction.operands
        match instruction.operation:
            case "neg":
                return True
            case "sub":
                return operands[1].startswith("%") and self._may_be_constant(operands[0], "0")
            case "mul":
                return operands[1] == "-1" or (
                    operands[1].startswith("%") and any(self._may_be_constant(factor, "-1") for factor in operands)
                )
            case _:
                return False

    def _may_be_constant(self, operand: str, number: str) -> bool:
        """True if an operand is `number`, or a register that ptxas may know in some iteration of a loop."""
        if not operand.startswith("%"):
            return operand == number
        sources = self._sources(operand, lambda i: i.keeps_constant)
        return any(i.operation == "mov" and not i.operands[0].startswith("%") for i in sources)


def without_faults(ptx: str) -> str:
    """Return PTX of one kernel that computes the same and provokes none of the faults that show in its text."""
    if _NEGATION.search(ptx) is not None:
        ptx = _with_extensions(ptx)
    return ptx if _EXTREMUM.search(ptx) is None else _with_separate_extrema(ptx)


def _with_extensions(ptx: str) -> str:
    """Return PTX in which every signed use of 16 bits reads an extended number."""
    changes: dict[_Instruction, list[str]] = {}
    for instruction in _Program(ptx).lost_extensions(ptx):
        result, (operand,) = instruction.result, instruction.operands
        changes[instruction] = [f"mul.lo.s16 \t{result}, {operand}, -1;"] if instruction.operation == "neg" else [
            f"cvt.s32.s16 \t%extended, {operand};", "abs.s32 \t%extended, %extended;",
            f"cvt.u16.u32 \t{result}, %extended;",
        ]
    declared = {"\t.reg .b32 \t%extended;\n"} if any(i.operation == "abs" for i in changes) else set()
    return _rewritten(ptx, changes, declared)


def _with_separate_extrema(ptx: str) -> str:
    """Return PTX in which no inner maximum or minimum has an operand that is a negation."""
    program = _Program(ptx)
    changes: dict[_Instruction, list[str]] = {}
    declared: set[str] = set()
    for instruction in program.inner_extrema():
        operation, kind, result, operands, _, _ = instruction
        lines: list[str] = []
        for number, operand in enumerate(operands):
            if program.may_be_negation(operand):
                again, bits = f"%again{number}_{kind[1:]}", f"b{kind[1:]}"
                declared.add(f"\t.reg .{bits} \t{again};\n")
                lines += [f"neg.{kind} \t{again}, {operand};", f"not.{bits} \t{again}, {again};"]
                lines.append(f"add.{kind} \t{again}, {again}, 1;")
                operands = (*operands[:number], again, *operands[number + 1 :])
        if lines:
            changes[instruction] = [*lines, f"{operation}.{kind} \t{result}, {', '.join(operands)};"]
    return _rewritten(ptx, changes, declared)


def _rewritten(ptx: str, changes: dict[_Instruction, list[str]], declared: set[str]) -> str:
    """Return PTX with other lines for some instructions, under the same predicate."""
    # from the last to the first, so that positions in the text remain valid
    for i in sorted(changes, key=lambda i: i.start, reverse=True):
        predicate = _PREDICATE.search(ptx, max(0, ptx.rfind("\n", 0, i.start)), i.start)
        ptx = ptx[: i.start] + f"\n\t{predicate[0] if predicate else ''}".join(changes[i]) + ptx[i.end :]
    return ptx.replace("\n{\n", "\n{\n" + "".join(sorted(declared)), 1)
