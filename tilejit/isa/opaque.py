"""Instructions whose results LLVM can't fold; nor can ptxas fold the result of `CTA_DEPTH`."""

from __future__ import annotations

from .row import B32, B64, Direction, Row, register

#: The result is always 1, because CTAs have one dimension, but neither LLVM nor ptxas can infer that.
CTA_DEPTH = Row(
    name="mov.u32.ntid.z", text="mov.u32 $result, %ntid.z;", meaning="threads of a CTA along the third axis",
    operands=(register("result", B32, Direction.OUT),), since=75, ptx=(6, 0),
    source='PTX ISA, "Special Registers: %ntid"',
)


def _bitwise(opcode: str, meaning: str) -> Row:
    return Row(
        name=f"{opcode}.b32", text=f"{opcode}.b32 $result, $value, $mask;", meaning=meaning, since=75, ptx=(6, 0),
        operands=(register("result", B32, Direction.OUT), register("value", B32), register("mask", B32)),
        source=f'PTX ISA, "Logic and Shift Instructions: {opcode}"',
    )


#: unlike the `xor` of LLVM IR, opaque to LLVM's optimizations; an operand may be several packed elements
XOR = _bitwise("xor", "the bits in which $value and $mask differ")

#: with an opaque zero as the mask, the result is a zero that depends on $value
AND = _bitwise("and", "the bits of $value that $mask has too")

#: an opaque copy, which keeps LLVM from carrying sums with the result in registers across loop iterations
COPY = Row(
    name="mov.b64", text="mov.b64 $result, $value;", meaning="$value", since=75, ptx=(6, 0),
    operands=(register("result", B64, Direction.OUT), register("value", B64)),
    source='PTX ISA, "Data Movement and Conversion Instructions: mov"',
)

ROWS = (CTA_DEPTH, AND, XOR, COPY)
