"""Lowering of `Expect`: if possible, an arrival at the barrier also announces the bytes that the phase awaits.

    warp.expect full[s] bytes 16384          if leads: the copy of A
    if leads: the copy of A                  if leads: the copy of B
    warp.expect full[s] bytes 32768    ─▶    warp.arrive full[s] bytes 49152
    if leads: the copy of B
    warp.arrive full[s]

An arrival takes over the expects that precede it in its block and have its scope and barrier, since each arriving
instance has issued exactly those copies (exceptions: `_still_open`). Bytes may arrive before they are expected, as long
as an arrival of the phase is outstanding. Any other expect becomes an instruction of the thread that issues the copy,
before the copy.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import count

from ...dataclass import dataclass, replace
from ...dtypes import int32
from ...errors import assert_never
from ...ir import walk
from ...ir.arithmetic import build
from ...ir.names import defined_names, sources
from ...ir.nodes import (
    Arrive,
    Assign,
    Atomic,
    Cast,
    Const,
    Expect,
    Expr,
    Instruction,
    Kernel,
    Let,
    Load,
    Op,
    Special,
    Stmt,
    Sync,
    Var,
    Vector,
    WaitPhase,
)
from ...ir.walk import Block
from ...isa import ROWS
from ...isa.mbarrier import EXPECT
from ..builder import Builder


def lower_expects(kernel: Kernel) -> Kernel:
    """Lower each `Expect` of a kernel at lane level."""
    if Expect not in walk.inventory(kernel.body).kinds:
        return kernel
    body = _Folding(kernel.body).block(kernel.body)
    if Expect not in walk.inventory(body).kinds:
        return replace(kernel, body=body)
    b = Builder(defined_names(body))
    expected: dict[int, tuple[Stmt, ...]] = {}
    for number, stmt in walk.numbered(body, Expect):
        b.span = stmt.span
        assert isinstance(stmt.place, Vector), "lowering leaves no Element"
        with b.when(b.leads(stmt.scope, kernel.threads)):
            b.append(Instruction(EXPECT.name, (), (stmt.place, stmt.bytes), stmt.span))
        expected[number] = b.take()
    return replace(kernel, body=walk.edited(body, expected))


@dataclass(frozen=True, slots=True)
class _OpenExpect:
    """An `Expect` that a later arrival may take over. barrier: value number of the barrier. at: index in the block."""

    stmt: Expect
    barrier: Hashable
    at: int


class _Folding:
    """Merges expects into arrivals, in program order.

    Barriers are compared by value number. A `Let` gives its variable the number of its value if the index of a barrier
    depends on the variable; an assignment gives its variable a fresh number.
    """

    def __init__(self, body: Block) -> None:
        self._indexing = _indexing(body)
        self._values: dict[str, Hashable] = {}
        self._fresh = count()

    def block(self, body: Block) -> Block:
        kept: list[Stmt | None] = []
        open: list[_OpenExpect] = []
        for stmt in body:
            if isinstance(stmt, Expect):
                open.append(_OpenExpect(stmt, self._barrier(stmt), len(kept)))
                kept.append(stmt)
            elif isinstance(stmt, Arrive):
                barrier = self._barrier(stmt)
                taken = [each for each in open if each.barrier == barrier and each.stmt.scope == stmt.scope]
                for expected in taken:
                    kept[expected.at] = None
                # the arrival may complete the phase of expects that it can't take over
                open = _still_open(open, [stmt])
                kept.append(_with_bytes(stmt, taken))
            else:
                kept.append(self._other(stmt))
                open = _still_open(open, walk.within(stmt)) if open else open
        return tuple([stmt for stmt in kept if stmt is not None])

    def _other(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Let):
            if stmt.var.name in self._indexing:
                self._values[stmt.var.name] = self._value(stmt.value)
        elif isinstance(stmt, Assign):
            self._forget(stmt.var.name)
        if not isinstance(stmt, walk.COMPOUND):
            return stmt
        # assigned variables may differ in the next iteration and after the statement, so they get fresh numbers
        for block in walk.blocks(stmt):
            for name in walk.assigned(block):
                self._forget(name)
        return walk.with_blocks(stmt, self._inside)

    def _inside(self, block: Block) -> Block:
        return self.block(block) if Expect in walk.inventory(block).kinds else block

    def _forget(self, name: str) -> None:
        self._values[name] = next(self._fresh)

    def _barrier(self, stmt: Expect | Arrive) -> Hashable:
        assert isinstance(stmt.place, Vector), "lowering leaves no Element"
        return stmt.place.buffer.name, self._value(stmt.place.offset)

    def _value(self, expr: Expr) -> Hashable:
        match expr:
            case Var(name=name):
                return self._values.get(name, name)
            case Const(value=value, dtype=dtype):
                return dtype, repr(value)
            case Special(name=name):
                return "%", name
            case Op(name=name, args=args):
                return name, expr.dtype, *map(self._value, args)
            case Cast(x=x):
                return "cast", expr.dtype, expr.saturate, self._value(x)
            case Load():
                return next(self._fresh)
            case _:
                return assert_never(expr)


def _indexing(body: Block) -> frozenset[str]:
    barriers = [stmt.place for stmt in walk.each(body, Expect)] + [stmt.place for stmt in walk.each(body, Arrive)]
    return sources(body, [index for place in barriers for index in walk.indices(place)])


def _still_open(open: list[_OpenExpect], statements: Iterable[Stmt]) -> list[_OpenExpect]:
    """Return the expects that an arrival after `statements` may still take over.

    There are none if `statements` may jump past the arrival, or may let this thread observe that other threads
    completed the phase. An arrival among them may complete a phase, too: expects of its buffer are excluded.
    """
    for stmt in statements:
        if isinstance(stmt, walk.JUMPS) or _may_observe_others(stmt):
            return []
        if isinstance(stmt, Arrive):
            open = [expected for expected in open if expected.stmt.place.buffer != stmt.place.buffer]
    return open


def _may_observe_others(stmt: Stmt) -> bool:
    """True if a thread may observe other threads' effects from `stmt` on."""
    match stmt:
        case WaitPhase() | Sync() | Atomic():
            return True
        case Let(value=Load() as load):
            return bool(load.order)
        case Instruction(name=name):
            return ROWS[name].memory and not ROWS[name].elides_sync
    return False


def _with_bytes(stmt: Arrive, taken: Iterable[_OpenExpect]) -> Arrive:
    total: Expr = build.const(0, int32) if stmt.bytes is None else stmt.bytes
    for expected in taken:
        total = build.add(total, expected.stmt.bytes)
    return stmt if total == build.const(0, int32) else replace(stmt, bytes=total)
