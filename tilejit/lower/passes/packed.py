"""Keeps tiles of 16-bit floats packed across barriers.

A softmax converts a tile to float32 before and after a barrier: to find the maximum of a row, then to subtract it. LLVM
and ptxas merge the equal conversions and keep the float32 values across the barrier, in twice the registers: a softmax
of 65,536 float16 in 1,024 threads then spills 224 bytes per thread. To prevent that, each packed word is XORed with an
opaque zero after the barrier, at the cost of half an instruction per element, and the conversions are repeated. If
possible, the zero depends on a value that crossed the barrier, such as the maximum. Otherwise ptxas would convert
before the barrier, to hide its latency.

This is done only if the float32 values don't fit in registers. A softmax of 4,096 in 256 threads, where they fit, would
take 50 instructions per element instead of 29.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ...dataclass import replace
from ...dtypes import DType, int32, uint32
from ...ir import walk
from ...ir.analyses.register_pool import most_of_a_thread
from ...ir.arithmetic import build
from ...ir.names import FreshNames, defined_names
from ...ir.nodes import Alloc, Buffer, Expr, For, Instruction, Kernel, Let, Load, Stmt, Store, Sync, Var, Vector
from ...ir.walk import Block, Place
from ...isa.opaque import AND, XOR
from ...layout import TileLayout
from ...source import Span
from ..builder import opaque_zero

#: registers per thread to reserve for values other than the elements of packed tiles, which count as one register each;
#: with 32 such elements and a limit of 64 registers, ptxas spilled nothing
OTHER_REGISTERS = 30


def keep(kernel: Kernel) -> Kernel:
    """Make packed words opaque after the last barrier between two conversions of a tile, if registers are short."""
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
    return sum(elements) + OTHER_REGISTERS <= most_of_a_thread(kernel)


def _is_packed(stmt: Alloc) -> bool:
    buffer = stmt.buffer
    return buffer.space == "local" and buffer.dtype.is_half and not stmt.addressed and _elements(buffer) % 2 == 0


def _reads(statements: Sequence[Stmt]) -> dict[Buffer, list[int]]:
    """Map each local tile of 16-bit floats to the indices of the statements that compute with its elements."""
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
    """Return the loads of local 16-bit floats inside `expr`, unless `expr` itself is the load."""
    loads = [load for load in walk.loads(expr) if load is not expr]
    return [load for load in loads if load.dtype.is_half and load.place.buffer.space == "local"]


def _last_barriers(barriers: list[int], reads: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (barrier, read) for each read with barriers between it and the previous read; `barrier` is the last one."""
    for before, after in zip(reads, reads[1:], strict=False):
        at = bisect_left(barriers, after)
        if at and barriers[at - 1] > before:
            yield barriers[at - 1], after


def _insertion_point(statements: Sequence[Stmt], block: Block) -> Stmt:
    """Return the last definition of a 32-bit variable that depends on shared memory, or the barrier without one.

    statements: the barrier and those up to the tile's next read. block: the block of the barrier and of the result.
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
    """True if `part` is in shared memory or depends on it. dependent: names of variables and buffers that do."""
    if isinstance(part, Var):
        return part.name in dependent
    return isinstance(part, Vector) and (part.buffer.space == "shared" or part.buffer.root.name in dependent)


def _elements(buffer: Buffer) -> int:
    assert isinstance(buffer.layout, TileLayout)
    return buffer.layout.footprint()


class _Zero:
    """An opaque zero. head: the statements at the kernel's beginning that define it."""

    def __init__(self, names: FreshNames) -> None:
        self.names = names
        self.place, self.head = opaque_zero(names.name("zero"))

    def _register(self, stem: str, dtype: DType) -> Vector:
        buffer = Buffer(self.names.name(stem), "local", dtype, (1,), TileLayout.row_major((1,)), dtype.bytes)
        return Vector(buffer, build.const(0, int32))

    def renewals(self, buffers: Sequence[Buffer], stmt: Stmt) -> Iterator[Stmt]:
        """Yield the statements that make the words of tiles opaque, to be inserted after `stmt`."""
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
