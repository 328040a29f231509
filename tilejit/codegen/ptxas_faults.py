"""Bugs of ptxas, called faults, and the PTX that avoids them.

A driver contains its own version of ptxas, and any version may compile saved PTX. So generated PTX avoids all `FAULTS`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PtxasFault:
    """A fault of ptxas.

    provoked_by: the PTX that triggers it. versions: the tested versions with and without it. evidence: machine code
    that proves it. avoided_by: the code that is generated instead, and where. cost: in machine instructions.
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
            "max(max(a, -b), c) of s32 or s16, or the same with min, where nothing else uses the inner result. ptxas "
            "drops the negation of the operand that it makes the second one of the inner maximum: a uniform register, "
            "if there is one. -b may be a neg, a difference from zero or a product with -1. The zero, or the inner "
            "maximum, may come from an earlier iteration of a loop that ptxas unrolls. Not affected: unsigned types, a "
            "maximum of a minimum, and operands such as a - b, ~b, |b| and int32(-b)."
        ),
        versions="wrong: 12.6 to 13.3; right: 13.4, 13.5",
        evidence="sm_90 and sm_100: VIMNMX3 R5, R5, R4, R6, !PT without the IADD3 R4, -R4, RZ, RZ before it",
        avoided_by="without_faults computes -b as ~b + 1, which ptxas fuses with the inner maximum instead (VIADDMNMX)",
        cost="1 per inner maximum with one negation, 2 with two (LOP3, VIADDMNMX, VIMNMX instead of IADD3, VIMNMX3)",
    ),
    PtxasFault(
        name="lost_extension",
        provoked_by=(
            "neg.s16 or abs.s16 of -32768 whose result, also packed and unpacked, is compared, shifted, multiplied or "
            "converted as a signed number: ptxas assumes that it is sign-extended, and reads +32768. Not affected: "
            "numbers of 8 bits, conversions to floats, -1 * x, and the sum of the result with another number."
        ),
        versions="wrong: 12.6 to 13.2; right: 13.3 to 13.5",
        evidence="sm_90: IADD3 R5, RZ, -R0, RZ or IABS R5, R0 without the PRMT R5, R5, 0x9910, RZ after it",
        avoided_by="without_faults writes mul.lo.s16 by -1, and abs.s32 of the sign-extended number",
        cost="none, except 2 moves where the result is compared (in the code of ptxas 13.5)",
    ),
    PtxasFault(
        name="half_of_joined_register",
        provoked_by=(
            "mov.b32 {lo, hi}, r where r, or a register that it copies, has several definitions because paths join, "
            "and is equal in all threads. ptxas computes with the halves in uniform registers, and uses the register "
            "after r as the upper half. Not affected: r computed or loaded by one instruction, and float16."
        ),
        versions="wrong: 12.6 to 13.5, for sm_90 at -O1 and above",
        evidence="of one unpacked register, R2: R2UR UR8, R2; R2UR UR9, R3; PRMT R25, R3, 0x5410, R3",
        avoided_by="without_faults uses cvt.u16.u32 and shr.u32 if the halves are operands of integer arithmetic",
        cost="none: 20 to 31 instructions fewer in five kernels of 270 to 690",
    ),
    PtxasFault(
        name="float16_of_zero",
        provoked_by="mma of 8-bit floats for sm_90 with a register whose upper half ptxas knows to be zero",
        versions="wrong: 13.0, 13.5",
        evidence="F2FP.F16.E4M3.UNPACK_B R6, 0x60 for RZ.H1: 32 instead of 0",
        avoided_by="lower/variants/gemm_mma.py combines the registers with an opaque zero (_opaque)",
        cost="1 LOP3 per register",
    ),
)

#: substrings of PTX without which a fault can't occur; most kernels contain none, and searching for a string is fast
_EXTREMA = ("max.s32", "max.s16", "min.s32", "min.s16")
_NEGATIONS = ("neg.s16", "abs.s16")
_SHORT_ARITHMETIC = (".s16", ".u16", "shl.b16", "and.b16", "or.b16", "not.b16", "eq.b16", "ne.b16")
_INSTRUCTION = re.compile(
    r"\b(max|min|neg|abs|sub|mul|add|shl|mov|selp|cvt)\.(?:lo\.)?(?:[su](?:8|16|32)\.)?([sub](?:16|32|64))"
    r"\s+(%\w+|\{[^}\n]*\}), ([^;\n]+);"
)
#: instructions that read 16-bit operands as signed numbers
_SIGNED_USE = re.compile(
    r"\b(?:cvt\.s(?:32|64)|setp\.\w+|shr|div|rem|max|min|abs|(?:mul|mad)\.(?:wide|hi))\.s16\s+([^;{\n]+);"
)
_HALVES = re.compile(r"mov\.b32\s+\{(%?\w+), (%?\w+)\}, (%r\d+);")
#: arithmetic and other instructions on 16-bit integers
_INTEGER = re.compile(r"(?:\.[su]16|\b(?:shl|and|or|xor|not|setp\.\w+)\.b16)\s+%\w+, ([^;\n]+);")
_RESULTS = re.compile(r"\b[a-z][\w.:]*\s+(\{[^}\n]*\}|%\w+)[,|]")
_PREDICATE = re.compile(r"@!?%\w+\s+$")


class _Instruction(NamedTuple):
    """An instruction. operation: such as max. kind: its (source) type, such as s32. result: one of its results."""

    operation: str
    kind: str
    result: str
    operands: tuple[str, ...]
    span: tuple[int, int]

    def is_copy(self) -> bool:
        """True for mov, including one that packs or unpacks a register, and for selp."""
        return self.operation in ("mov", "selp")

    def keeps_halves(self) -> bool:
        return self.is_copy() or (self.operation, self.kind) == ("cvt", "u32")

    def keeps_constant(self) -> bool:
        """True if ptxas may infer from a constant register operand that the result is constant."""
        return self.operation in ("mov", "cvt") or any(not operand.startswith("%") for operand in self.operands)


class _Program:
    """The instructions of a kernel that `_INSTRUCTION` matches. by_result: register -> instructions that define it."""

    def __init__(self, ptx: str) -> None:
        self.by_result: dict[str, list[_Instruction]] = defaultdict(list)
        for found in _INSTRUCTION.finditer(ptx):
            operands = tuple(found[4].strip("{}").split(", "))
            for result in found[3].strip("{}").split(", "):
                self.by_result[result].append(_Instruction(found[1], found[2], result, operands, found.span()))

    def inner_extrema(self) -> Iterator[_Instruction]:
        """Yield signed maxima that are operands of a maximum of the same type, perhaps via copies; likewise minima."""
        for outer in [i for instructions in self.by_result.values() for i in instructions]:
            if outer[:2] in {("max", "s32"), ("max", "s16"), ("min", "s32"), ("min", "s16")}:
                yield from (i for i in self.sources(outer.operands, _Instruction.is_copy) if i[:2] == outer[:2])

    def may_be_negation(self, operand: str) -> bool:
        """True if ptxas may compute the operand's value as 0 - x."""
        return any(self._negates(i) for i in self.sources([operand], self._keeps_negation))

    def sources(self, registers: Iterable[str], passes: Callable[[_Instruction], bool]) -> Iterator[_Instruction]:
        for register in self.origins(registers, passes):
            yield from self.by_result.get(register, ())

    def origins(self, registers: Iterable[str], passes: Callable[[_Instruction], bool]) -> list[str]:
        """Return `registers` and, transitively, the operands of those defining instructions that `passes` accepts."""
        reached = list(registers)
        seen = set(reached)
        for register in reached:
            for instruction in filter(passes, self.by_result.get(register, ())):
                reached += [operand for operand in instruction.operands if operand not in seen]
                seen.update(instruction.operands)
        return reached

    def _keeps_negation(self, instruction: _Instruction) -> bool:
        """True for copies, and for sums with a term that may be zero."""
        if instruction.operation == "add":
            return any(self._may_be_constant(operand, "0") for operand in instruction.operands)
        return instruction.is_copy()

    def _negates(self, instruction: _Instruction) -> bool:
        first, second = (*instruction.operands, "")[:2]
        match instruction.operation:
            case "neg":
                return True
            case "sub":
                return second.startswith("%") and self._may_be_constant(first, "0")
            case "mul":
                return any(self._may_be_constant(factor, "-1") for factor in instruction.operands)
            case _:
                return False

    def _may_be_constant(self, operand: str, number: str) -> bool:
        """True for the literal `number`, and for a register that may hold any constant, if only in one iteration."""
        if not operand.startswith("%"):
            return operand == number
        sources = self.sources([operand], _Instruction.keeps_constant)
        return any(i.operation == "mov" and not i.operands[0].startswith("%") for i in sources)


def without_faults(ptx: str) -> str:
    """Return the PTX of one kernel, rewritten so that it provokes none of `FAULTS` except perhaps `float16_of_zero`."""
    if _has_any(ptx, _NEGATIONS):
        ptx = _with_extensions(ptx)
    if _has_any(ptx, _EXTREMA):
        ptx = _with_separate_extrema(ptx)
    return _with_shifted_halves(ptx) if _has_any(ptx, _SHORT_ARITHMETIC) and _HALVES.search(ptx) is not None else ptx


def _has_any(ptx: str, texts: Iterable[str]) -> bool:
    return any(text in ptx for text in texts)


def _with_extensions(ptx: str) -> str:
    """Return PTX in which no signed use of a 16-bit register reads the result of a neg.s16 or abs.s16."""
    program = _Program(ptx)
    changes: dict[tuple[int, int], list[str]] = {}
    for use in _SIGNED_USE.finditer(ptx):
        for operation, kind, result, operands, span in program.sources(use[1].split(", "), _Instruction.keeps_halves):
            if (operation, kind) == ("neg", "s16"):
                changes[span] = [f"mul.lo.s16 \t{result}, {operands[0]}, -1;"]
            elif (operation, kind) == ("abs", "s16"):
                changes[span] = [
                    f"cvt.s32.s16 \t%extended, {operands[0]};", "abs.s32 \t%extended, %extended;",
                    f"cvt.u16.u32 \t{result}, %extended;",
                ]
    return _rewritten(ptx, changes, {"%extended": "b32"})


def _with_separate_extrema(ptx: str) -> str:
    """Return PTX in which no inner signed maximum or minimum has an operand that ptxas may compute as 0 - x."""
    program = _Program(ptx)
    changes: dict[tuple[int, int], list[str]] = {}
    for operation, kind, result, operands, span in program.inner_extrema():
        bits = f"b{kind[1:]}"
        terms = list(operands)
        lines: list[str] = []
        for number, operand in enumerate(operands):
            if program.may_be_negation(operand):
                terms[number] = again = f"%again{number}_{kind[1:]}"
                lines += [f"neg.{kind} \t{again}, {operand};", f"not.{bits} \t{again}, {again};"]
                lines.append(f"add.{kind} \t{again}, {again}, 1;")
        if lines:
            changes[span] = [*lines, f"{operation}.{kind} \t{result}, {', '.join(terms)};"]
    return _rewritten(ptx, changes, {f"%again{n}_{bits}": f"b{bits}" for n in (0, 1) for bits in (16, 32)})


def _with_shifted_halves(ptx: str) -> str:
    """Return PTX in which no mov unpacks, for integer arithmetic, a register with several definitions, or its copy."""
    program = _Program(ptx)
    terms = (term for found in _INTEGER.finditer(ptx) for term in found[1].split(", "))
    used = set(program.origins(terms, _Instruction.is_copy))
    definitions = Counter(name for found in _RESULTS.finditer(ptx) for name in found[1].strip("{}").split(", "))
    changes: dict[tuple[int, int], list[str]] = {}
    for found in _HALVES.finditer(ptx):
        low, high, register = found.groups()
        if used.isdisjoint((low, high)):
            continue
        if any(definitions[origin] > 1 for origin in program.origins([register], _Instruction.is_copy)):
            lines = changes[found.span()] = [] if low == "_" else [f"cvt.u16.u32 \t{low}, {register};"]
            if high != "_":
                lines += [f"shr.u32 \t%half, {register}, 16;", f"cvt.u16.u32 \t{high}, %half;"]
    return _rewritten(ptx, changes, {"%half": "b32"})


def _rewritten(ptx: str, changes: dict[tuple[int, int], list[str]], registers: dict[str, str]) -> str:
    """Return PTX with some instructions replaced. changes: span -> new lines. registers: new register -> type."""
    used = {register for lines in changes.values() for line in lines for register in registers if register in line}
    # from the last to the first, so that positions in the text remain valid
    for start, end in sorted(changes, reverse=True):
        predicate = _PREDICATE.search(ptx, max(0, ptx.rfind("\n", 0, start)), start)
        separator = f"\n\t{predicate[0] if predicate else ''}"
        ptx = ptx[:start] + separator.join(changes[start, end]) + ptx[end:]
    declared = "".join(f"\t.reg .{registers[register]} \t{register};\n" for register in sorted(used))
    return ptx.replace("\n{\n", "\n{\n" + declared, 1)
