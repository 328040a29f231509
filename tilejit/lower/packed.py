"""Tiles of 16-bit floats stay packed from one barrier to the next.

A row that is read on both sides of a barrier (for its maximum, then for what is subtracted from it) is converted to
float32 on both. LLVM and ptxas see equal conversions, make one of them, and keep its float32 results across the
barrier, in twice the registers: a softmax of 65,536 float16 in 1,024 threads then spills 224 bytes a thread, without
this none. An exclusive or with a zero that neither can prove makes the words behind the barrier others than those in
front of it: half an instruction an element, and what the text computes again is computed again. So it is done only
where float32 wouldn't fit: a softmax of 4,096 in 256 threads would take 50 instructions an element instead of 29.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from ..dtypes import int32, uint32
from ..ir import walk
from ..ir.arithmetic import build
from ..ir.names import FreshNames, defined_names
from ..ir.nodes import (
    Alloc,
    Buffer,
    Cast,
    Expr,
    For,
    Instruction,
    Kernel,
    Load,
    Op,
    Stmt,
    Store,
    Sync,
    Var,
    Vector,
)
from ..isa.opaque import CTA_DEPTH, XOR
from ..layout import TileLayout
from ..target import most_registers

__all__ = ["keep"]

#: registers that a thread needs besides such tiles; with 32 elements in 64 registers ptxas spilled nothing
BESIDE_TILES = 24


def keep(kernel: Kernel) -> Kernel:
    """The kernel, with the words renewed behind each barrier that stands between two conversions of a tile."""
    statements = walk.statements(kernel.body)
    barriers = [n for n, stmt in enumerate(statements) if isinstance(stmt, Sync) and stmt.scope != "warp"]
    packed = {stmt.buffer.name for stmt in statements if isinstance(stmt, Alloc) and _is_packed(stmt)}
    if not barriers or not packed:
        return kernel
    renewed: dict[int, list[Buffer]] = defaultdict(list)
    for buffer, reads in _conversions(statements).items():
        if buffer.name not in packed:
            continue
        for barrier in _between(barriers, reads):
            renewed[id(statements[barrier])].append(buffer)
    tiles = {buffer.name: _elements(buffer) for buffers in renewed.values() for buffer in buffers}
    if sum(tiles.values()) + BESIDE_TILES <= most_registers(kernel.threads, kernel.max_registers):
        return kernel
    zero, numbers = _zero(kernel), count()

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        return stmt, *(_renewal(buffer, zero, next(numbers), stmt) for buffer in renewed.get(id(stmt), ()))

    return replace(kernel, body=(*_head(zero), *walk.rewrite(kernel.body, change)))


def _is_packed(stmt: Alloc) -> bool:
    """Whether it makes a tile of which two elements share a register."""
    buffer = stmt.buffer
    return buffer.space == "local" and buffer.dtype.is_half and not stmt.addressed and _elements(buffer) % 2 == 0


def _conversions(statements: Sequence[Stmt]) -> dict[Buffer, list[int]]:
    """Local tiles of 16-bit floats, each with the numbers of the stores of what is computed with its elements."""
    found: dict[Buffer, list[int]] = defaultdict(list)
    for number, stmt in enumerate(statements):
        if not isinstance(stmt, Store):
            continue
        for buffer in {load.place.buffer.root for expr in walk.expressions(stmt) for load in _converted(expr)}:
            found[buffer].append(number)
    return found


def _converted(expr: Expr) -> Iterator[Load]:
    for part in walk.subexpressions(expr):
        if not isinstance(part, (Cast, Op)):
            continue
        for operand in walk.operands(part):
            if isinstance(operand, Load) and operand.place.buffer.space == "local" and operand.dtype.is_half:
                yield operand


def _between(barriers: list[int], reads: list[int]) -> Iterator[int]:
    """The last barrier in front of each read that has none between it and the one before."""
    for before, after in zip(reads, reads[1:], strict=False):
        at = bisect_left(barriers, after)
        if at and barriers[at - 1] > before:
            yield barriers[at - 1]


def _elements(buffer: Buffer) -> int:
    """How many a thread has."""
    assert isinstance(buffer.layout, TileLayout)
    return buffer.layout.footprint()


def _zero(kernel: Kernel) -> Buffer:
    name = FreshNames(defined_names(kernel.body)).name("zero")
    return Buffer(name, "local", uint32, (1,), TileLayout.row_major((1,)), uint32.bytes)


def _head(zero: Buffer) -> tuple[Stmt, ...]:
    place = Vector(zero, build.const(0, int32))
    return (
        Alloc(zero),
        Instruction(CTA_DEPTH.name, (place,), ()),
        Store(place, build.op("sub", Load(place), build.const(1, uint32))),
    )


def _renewal(buffer: Buffer, zero: Buffer, number: int, barrier: Stmt) -> For:
    words = _elements(buffer) // 2
    word = Var(f"word.{buffer.name}.{number}", int32, bounds=(0, words - 1))
    pair = Vector(buffer, build.mul(word, 2), 2)
    span = getattr(barrier, "span", None)
    instruction = Instruction(XOR.name, (pair,), (pair, Vector(zero, build.const(0, int32), 1)), span=span)
    start, stop, step = (build.const(n, int32) for n in (0, words, 1))
    return For(word, start, stop, step, (instruction,), unrolled=True, span=span)
