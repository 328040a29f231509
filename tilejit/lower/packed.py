"""Tiles of 16-bit floats stay packed from one barrier to the next.

A row that is read on both sides of a barrier (for its maximum, then for what is subtracted from it) is converted to
float32 on both. LLVM and ptxas see equal conversions, make one of them, and keep its float32 results across the
barrier, in twice the registers: a softmax of 65,536 float16 in 1,024 threads then spills 224 bytes a thread, without
this none. An exclusive or with a zero that neither can prove makes the words behind the barrier others than those in
front of it: half an instruction an element, and what the text computes again is computed again. The zero is a part of
what came through the barrier, the row's maximum or sum: else ptxas computes ahead, to hide the barrier's latency. So it
is done only where float32 wouldn't fit: a softmax of 4,096 in 256 threads would take 50 instructions an element instead
of 29.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ..dataclass import replace
from ..dtypes import DType, int32, uint32
from ..ir import walk
from ..ir.analyses.register_pool import most_of_a_thread
from ..ir.arithmetic import build
from ..ir.names import FreshNames, defined_names
from ..ir.nodes import (
    Alloc,
    Buffer,
    Expr,
    For,
    Instruction,
    Kernel,
    Let,
    Load,
    Stmt,
    Store,
    Sync,
    Var,
    Vector,
)
from ..ir.walk import Block, Place
from ..isa.opaque import AND, XOR
from ..layout import TileLayout
from ..source import Span
from .opaque import opaque_zero

__all__ = ["keep"]

#: registers that a thread needs besides such tiles; with 32 elements in 64 registers ptxas spilled nothing
OTHER_REGISTERS = 30


def keep(kernel: Kernel) -> Kernel:
    """The kernel, with the words renewed behind each barrier that stands between two conversions of a tile."""
    packed = {stmt.buffer.name: _elements(stmt.buffer) for stmt in walk.each(kernel.body, Alloc) if _is_packed(stmt)}
    if _fit(packed.values(), kernel):
        return kernel
    barriers = [n for n, stmt in walk.numbered(kernel.body, Sync) if stmt.scope != "warp"]
    statements = walk.statements(kernel.body)
    renewed: dict[int, list[Buffer]] = defaultdict(list)
    around = {id(stmt): block for block in _blocks(kernel.body) for stmt in block if isinstance(stmt, Sync)}
    for buffer, reads in _reads(statements).items():
        if buffer.name not in packed:
            continue
        for barrier, read in _last_barriers(barriers, reads):
            inside = statements[barrier:read]
            renewed[id(_insertion_point(inside, around[id(inside[0])]))].append(buffer)
    names = {buffer.name for buffers in renewed.values() for buffer in buffers}
    if _fit([packed[name] for name in names], kernel):
        return kernel
    zero = _Zero(FreshNames(defined_names(kernel.body)))

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        return stmt, *zero.renewals(renewed.get(id(stmt), []), stmt)

    return replace(kernel, body=(*zero.head, *walk.rewrite(kernel.body, change)))


def _fit(elements: Iterable[int], kernel: Kernel) -> bool:
    """Whether tiles of so many elements fit in a thread's registers as float32."""
    return sum(elements) + OTHER_REGISTERS <= most_of_a_thread(kernel)


def _is_packed(stmt: Alloc) -> bool:
    """Whether it makes a tile of which two elements share a register."""
    buffer = stmt.buffer
    return buffer.space == "local" and buffer.dtype.is_half and not stmt.addressed and _elements(buffer) % 2 == 0


def _reads(statements: Sequence[Stmt]) -> dict[Buffer, list[int]]:
    """Local tiles of 16-bit floats, each with the numbers of the statements that compute with its elements."""
    numbers: dict[Buffer, list[int]] = defaultdict(list)
    for number, stmt in enumerate(statements):
        if isinstance(stmt, (Store, Let)):
            read = {load.place.buffer.root for expr in walk.expressions(stmt) for load in _converted(expr)}
        elif isinstance(stmt, Instruction):
            vectors = [each for each in stmt.inputs if isinstance(each, Vector)]
            read = {v.buffer.root for v in vectors if v.buffer.space == "local" and v.buffer.dtype.is_half}
        else:
            continue
        for buffer in read:
            numbers[buffer].append(number)
    return numbers


def _converted(expr: Expr) -> Sequence[Load]:
    """The loads of local 16-bit floats whose values an expression computes with."""
    loads = [load for load in walk.loads(expr) if load is not expr]
    return [load for load in loads if load.dtype.is_half and load.place.buffer.space == "local"]


def _last_barriers(barriers: list[int], reads: list[int]) -> Iterator[tuple[int, int]]:
    """The last barrier in front of each read that has none between it and the one before, with the read."""
    for before, after in zip(reads, reads[1:], strict=False):
        at = bisect_left(barriers, after)
        if at and barriers[at - 1] > before:
            yield barriers[at - 1], after


def _insertion_point(statements: Sequence[Stmt], block: Block) -> Stmt:
    """Of a barrier and what follows it, the last that names what came through it; the barrier where nothing does.

    block: the barrier's.
    """
    barrier = statements[0]
    same_block = {id(stmt) for stmt in block}
    last, dependent = barrier, set[str]()
    for stmt in statements[1:]:
        if not any(_depends_on_shared(part, dependent) for part in _inputs(stmt)):
            continue
        dependent |= {place.buffer.root.name for place in walk.writes(stmt)}
        if isinstance(stmt, Let):
            dependent.add(stmt.var.name)
            last = stmt if id(stmt) in same_block and stmt.var.dtype.bits == 32 else last
    return last


def _blocks(body: Block) -> Iterator[Block]:
    yield body
    for stmt in walk.statements(body):
        if isinstance(stmt, walk.COMPOUND):
            yield from walk.blocks(stmt)


def _inputs(stmt: Stmt) -> Iterator[Expr | Place]:
    yield from (part for expr in walk.expressions(stmt) for part in walk.subexpressions(expr))
    yield from walk.reads(stmt)


def _depends_on_shared(part: Expr | Place, dependent: set[str]) -> bool:
    """Whether it is read from shared memory, or computed from what was. through: names of what is."""
    if isinstance(part, Var):
        return part.name in dependent
    return isinstance(part, Vector) and (part.buffer.space == "shared" or part.buffer.root.name in dependent)


def _elements(buffer: Buffer) -> int:
    """How many a thread has."""
    assert isinstance(buffer.layout, TileLayout)
    return buffer.layout.footprint()


class _Zero:
    """A zero that neither LLVM nor ptxas proves. head: what makes it, at the kernel's beginning."""

    def __init__(self, names: FreshNames) -> None:
        self.names = names
        self.place, self.head = opaque_zero(names.name("zero"))

    def _register(self, stem: str, dtype: DType) -> Vector:
        buffer = Buffer(self.names.name(stem), "local", dtype, (1,), TileLayout.row_major((1,)), dtype.bytes)
        return Vector(buffer, build.const(0, int32))

    def renewals(self, buffers: Sequence[Buffer], stmt: Stmt) -> Iterator[Stmt]:
        """What renews the words of tiles. stmt: that behind which it stands, a barrier or what names a value."""
        zero = self.place
        if buffers and isinstance(stmt, Let):
            seen, zero = self._register("seen", stmt.var.dtype), self._register("zero", uint32)
            yield Alloc(seen.buffer, span=stmt.span)
            yield Alloc(zero.buffer, span=stmt.span)
            yield Store(seen, stmt.var, span=stmt.span)
            yield Instruction(AND.name, (zero,), (seen, self.place), span=stmt.span)
        for buffer in buffers:
            yield self._renewal(buffer, zero, stmt.span)

    def _renewal(self, buffer: Buffer, zero: Vector, span: Span | None) -> For:
        words = _elements(buffer) // 2
        word = Var(self.names.name(f"word.{buffer.name}"), int32, bounds=(0, words - 1))
        pair = Vector(buffer, build.mul(word, 2), 2)
        instruction = Instruction(XOR.name, (pair,), (pair, zero), span=span)
        start, stop, step = (build.const(n, int32) for n in (0, words, 1))
        return For(word, start, stop, step, (instruction,), unrolled=True, span=span)
