"""What the compilers behind us can't see through: a zero that nobody proves, and what is joined with it."""

from __future__ import annotations

from .row import B32, B64, Direction, Row, register

__all__ = ["AND", "COPY", "CTA_DEPTH", "ROWS", "XOR"]

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


def _bitwise(opcode: str, meaning: str) -> Row:
    return Row(
        name=f"{opcode}.b32",
        text=f"{opcode}.b32 $result, $value, $mask;",
        meaning=meaning,
        operands=(register("result", B32, Direction.OUT), register("value", B32), register("mask", B32)),
        since=75,
        ptx=(6, 0),
        source=f'PTX ISA, "Logic and Shift Instructions: {opcode}"',
    )


#: unlike LLVM's own it stays where it is, and works on a pair of 16 bits as on one number
XOR = _bitwise("xor", "the bits in which $value and $mask differ")

#: of any number and a zero that nobody proves: a zero that isn't there before the number
AND = _bitwise("and", "the bits of $value that $mask has too")

#: what is computed from it is computed where it stands, not in front of a loop
COPY = Row(
    name="mov.b64",
    text="mov.b64 $result, $value;",
    meaning="$value",
    operands=(register("result", B64, Direction.OUT), register("value", B64)),
    since=75,
    ptx=(6, 0),
    source='PTX ISA, "Data Movement and Conversion Instructions: mov"',
)

ROWS = (CTA_DEPTH, AND, XOR, COPY)
