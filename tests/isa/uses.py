"""A kernel around any row of the instruction table: what its operands are made of, and what takes its results."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from tests.support.lane_kernels import array, pointer
from tilejit.codegen import generate
from tilejit.dtypes import DType, bool_, float32, float64, int8, int16, int32, int64
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import (
    Alloc,
    Buffer,
    Const,
    Descriptor,
    Input,
    Instruction,
    Kernel,
    Move,
    Special,
    Stmt,
    Vector,
)
from tilejit.ir.params import (
    Param,
)
from tilejit.isa import WAITS, Direction, Kind, Operand, Row
from tilejit.layout import TileLayout, datapath
from tilejit.lower.passes.storage import placed
from tilejit.target import TARGETS, target

#: elements of a register where the row leaves them open, by its constraint
_ELEMENTS: dict[str, DType] = {
    "h": int16, "r": int32, "l": int64, "f": float32, "d": float64, "b": bool_,
}

#: registers that a wait carries
_CARRIED = 2


def oldest(row: Row) -> str:
    """The first target that has the instruction."""
    return next(name for name, t in TARGETS.items() if row.missing(t) is None)


@dataclass(frozen=True)
class Use:
    """A kernel that carries out one row on loaded registers and stores what it gives.

    before, after: the statements around the instruction.
    """

    row: Row
    params: tuple[Param, ...]
    before: tuple[Stmt, ...]
    instruction: Instruction
    after: tuple[Stmt, ...]

    def kernel(self, instruction: Instruction | None = None) -> Kernel:
        """The kernel, for the oldest target; with another instruction in the place of its own."""
        body = (*self.before, instruction or self.instruction, *self.after)
        return Kernel(f"use{_number(self.row)}", self.params, 128, oldest(self.row), body)

    def ptx(self) -> str:
        return _ptx(self.row)


def _number(row: Row) -> str:
    """What tells a row from others in the names of its kernel."""
    return re.sub(r"\W", "_", row.name)


@cache
def _ptx(row: Row) -> str:
    return generate(placed(use(row).kernel()), target(oldest(row))).ptx


def local(name: str, dtype: DType, size: int) -> Buffer:
    return Buffer(name, "local", dtype, (size,), TileLayout.row_major((size,)), dtype.bytes)


@cache
def use(row: Row) -> Use:
    """The kernel of one row."""
    params: list[Param] = []
    allocated: list[Buffer] = []
    loads: list[Stmt] = []
    stores: list[Stmt] = []
    outputs: list[Vector] = []
    inputs: list[Input] = []
    prefix = f"n{_number(row)}_"
    for operand in row.operands:
        item = _item(operand, prefix + operand.name)
        if isinstance(item, Descriptor):
            allocated.append(item.place.buffer)
        elif isinstance(item, Vector):
            if item.buffer.space == "global":
                params.append(pointer(item.buffer, written=operand.direction is not Direction.IN))
            else:
                allocated.append(item.buffer)
        if operand.is_argument:
            inputs.append(item)
        if operand.is_result:
            assert isinstance(item, Vector)
            outputs.append(item)
        if operand.kind is Kind.ADDRESS or not isinstance(item, Vector):
            continue
        if operand.is_argument:
            source = array(f"{item.buffer.name}_in", item.buffer.dtype, 4096)
            params.append(pointer(source))
            loads += [Move(_one(item.buffer, k), _one(source, k)) for k in range(item.width)]
        if operand.is_result:
            out = array(f"{item.buffer.name}_out", item.buffer.dtype, 4096)
            params.append(pointer(out, written=True))
            stores += [Move(_one(out, k), _one(item.buffer, k)) for k in range(item.width)]
    instruction = Instruction(row.name, tuple(outputs), tuple(inputs))
    waits: list[Stmt] = []
    if row.starts is not None and row.starts.is_awaited:
        waits.append(Instruction(WAITS[row.starts].name, tuple(outputs), (*outputs, Const(0, int32))))
    return Use(row, tuple(params), (*map(Alloc, allocated), *loads), instruction, (*waits, *stores))


def _one(buffer: Buffer, index: int) -> Vector:
    return Vector(buffer, Const(index, int64 if buffer.space == "global" else int32))


def _item(operand: Operand, name: str) -> Input:
    """An example of an operand; for registers a vector in a buffer of twice its size."""
    if operand.kind is Kind.DESCRIPTOR:
        return Descriptor(_place(operand, name), 1 << 62 | 64 << 32 | 1 << 16)
    if operand.kind is Kind.CONSTANT:
        return Const(1 if operand.among is None else operand.among[0], int32)
    if operand.kind is Kind.PREDICATE and not operand.is_result:
        return build.less(Special("lane_id"), build.const(7, int32))
    if operand.kind is Kind.ADDRESS:
        return _place(operand, name)
    dtype = operand.element or _ELEMENTS[operand.register.constraint]
    width = (operand.count or _CARRIED) * operand.register.bits // dtype.bits
    return Vector(local(name, dtype, 2 * width), Const(0, int32), width)


def _place(operand: Operand, name: str) -> Vector:
    """A place for an address or a descriptor."""
    width, dtype = max(1, operand.access_bytes // 4), {1: int8, 2: int16}.get(operand.access_bytes, int32)
    if operand.space == "global":
        return Vector(array(name, dtype, 4096), Const(0, int64), width)
    if operand.space == "tmem":
        layout = datapath("D", 128, 32)
        return Vector(Buffer(name, "tmem", int32, (128, 32), layout, 16), Const(0, int32), width)
    assert operand.space == "shared"
    return Vector(Buffer(name, "shared", dtype, (64,), TileLayout.row_major((64,)), 128), Const(0, int32), width)
