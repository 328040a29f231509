"""A register with a zero that is opaque to LLVM and ptxas."""

from __future__ import annotations

from ..dtypes import int32, uint32
from ..ir.arithmetic import build
from ..ir.nodes import Alloc, Buffer, Instruction, Load, Store, Vector
from ..ir.walk import Block
from ..isa.opaque import CTA_DEPTH
from ..layout import TileLayout

__all__ = ["opaque_zero"]


def opaque_zero(name: str) -> tuple[Vector, Block]:
    """Return the register, and the statements that initialize it at the kernel's beginning."""
    buffer = Buffer(name, "local", uint32, (1,), TileLayout.row_major((1,)), uint32.bytes)
    zero = Vector(buffer, build.const(0, int32))
    one_less = build.op("sub", Load(zero), build.const(1, uint32))
    return zero, (Alloc(buffer), Instruction(CTA_DEPTH.name, (zero,), ()), Store(zero, one_less))
