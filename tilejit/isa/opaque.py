"""What the compilers behind us can't see through: a zero that nobody proves, and what is joined with it."""

from __future__ import annotations

from .row import B32, Direction, Row, register

__all__ = ["AND", "CTA_DEPTH", "ROWS", "XOR"]

#: always 1 here: CTAs have one dimension. Neither LLVM nor ptxas knows that
CTA_DEPTH = Row(
    name="mov.u32.ntid.z",
    text="mov.u32 $result, %ntid.z;",
    meaning="threads of a CTA along the third axis",
    operands=(register("result", B32, Direction.OUT),),
    since=75,
    ptx=(6, 0),
    source='PTX ISA, "Special Registers: %ntid"',
)

#: unlike LLVM's own it stays where it is, and works on a pair of 16 bits as on one number
XOR = Row(
    name="xor.b32",
    text="xor.b32 $result, $value, $mask;",
    meaning="the bits in which $value and $mask differ",
    operands=(register("result", B32, Direction.OUT), register("value", B32), register("mask", B32)),
    since=75,
    ptx=(6, 0),
    source='PTX ISA, "Logic and Shift Instructions: xor"',
)

#: of any number and a zero that nobody proves: a zero that isn't there before the number
AND = Row(
    name="and.b32",
    text="and.b32 $result, $value, $mask;",
    meaning="the bits of $value that $mask has too",
    operands=(register("result", B32, Direction.OUT), register("value", B32), register("mask", B32)),
    since=75,
    ptx=(6, 0),
    source='PTX ISA, "Logic and Shift Instructions: and"',
)

ROWS = (CTA_DEPTH, AND, XOR)
