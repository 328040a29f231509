"""The walk over statements and expressions: their blocks, operands, reads and writes; and rewriting.

Only this file of the compiler lists the classes of nodes for that purpose. Each list ends with `assert_never`, so a
new class of statement or expression fails type checking until every list has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import Any

from ..dataclass import replace
from ..errors import assert_never
from ..remember import remembered
from . import nodes as ir

__all__ = [
    "Block",
    "COMPOUND",
    "NAMELESS",
    "Place",
    "assigned",
    "blocks",
    "defines",
    "expressions",
    "in_memory",
    "indices",
    "loads",
    "operands",
    "reads",
    "rewrite",
    "size",
    "statements",
    "subexpressions",
    "with_blocks",
    "with_buffers",
    "within",
    "writes",
]

Block = tuple[ir.Stmt, ...]

#: the part of a buffer that an operand names
Place = ir.Region | ir.Element | ir.Vector
_PLACES = (ir.Region, ir.Element, ir.Vector)

#: the expressions that most places begin at
_LEAVES = (ir.Const, ir.Var, ir.Special)

#: the classes of statements that hold blocks: few statements are of these
COMPOUND = (ir.If, ir.For, ir.Loop)

_WITHOUT_BLOCKS = (
    ir.Let, ir.Instruction, ir.Move, ir.Store, ir.Atomic, ir.Assign, ir.Declare,
    ir.TileOp, ir.Alloc, ir.BufferView, ir.Sync, ir.Arrive, ir.WaitPhase, ir.Expect,
    ir.Break, ir.Continue, ir.Return, ir.Assert, ir.Print,
)


def blocks(stmt: ir.Stmt) -> tuple[Block, ...]:
    """The blocks that a statement holds, in the order of the text."""
    if isinstance(stmt, ir.If):
        return stmt.then, stmt.orelse
    if isinstance(stmt, (ir.For, ir.Loop)):
        return (stmt.body,)
    if isinstance(stmt, _WITHOUT_BLOCKS):
        return ()
    return assert_never(stmt)


def with_blocks(stmt: ir.Stmt, change: Callable[[Block], Block]) -> ir.Stmt:
    """The statement with each of its blocks changed, in the order of the text; itself where they stay as they are."""
    if isinstance(stmt, ir.If):
        then, orelse = change(stmt.then), change(stmt.orelse)
        return stmt if then is stmt.then and orelse is stmt.orelse else replace(stmt, then=then, orelse=orelse)
    if isinstance(stmt, (ir.For, ir.Loop)):
        body = change(stmt.body)
        return stmt if body is stmt.body else replace(stmt, body=body)
    leaf: ir.Simple | ir.Jump = stmt
    return leaf


def within(stmt: ir.Stmt) -> tuple[ir.Stmt, ...]:
    """The statement and every one in its blocks, in the order of the text."""
    return _statements((stmt,))


def _statements(body: Block) -> tuple[ir.Stmt, ...]:
    """Every statement, those in blocks too, in the order of the text."""
    listed: list[ir.Stmt] = []
    waiting = list(reversed(body))
    while waiting:
        stmt = waiting.pop()
        listed.append(stmt)
        if isinstance(stmt, ir.If):
            waiting += reversed(stmt.orelse)
            waiting += reversed(stmt.then)
        elif isinstance(stmt, COMPOUND):
            waiting += reversed(stmt.body)
    return tuple(listed)


#: remembered, because each pass walks over all of a kernel; of few kernels, because each is large
statements = remembered(_statements, limit=32)


def size(stmt: ir.Stmt) -> int:
    """The number of statements in a statement: itself, and all in its blocks."""
    return len(within(stmt))


def rewrite(body: Block, change: Callable[[ir.Stmt], Iterable[ir.Stmt]]) -> Block:
    """The block with each statement replaced by those that `change` returns for it.

    Statements are visited in the order of the text; the blocks of the returned statements are rewritten as well. What
    stays as it is, is the same object, a block and a statement with blocks, too.
    """

    def block(inner: Block) -> Block:
        made: list[ir.Stmt] = []
        for stmt in inner:
            for new in change(stmt):
                made.append(with_blocks(new, block) if isinstance(new, COMPOUND) else new)
        is_same = len(made) == len(inner) and all(map(is_, made, inner))
        return inner if is_same else tuple(made)

    return block(body)


def with_buffers(stmt: ir.Stmt, change: Callable[[ir.Buffer], ir.Buffer]) -> ir.Stmt:
    """The statement with the buffer of each place that it reads or writes itself changed (open and tile level)."""

    def place(part: Place) -> Any:
        buffer = change(part.buffer)
        return part if buffer is part.buffer else replace(part, buffer=buffer)

    match stmt:
        case ir.TileOp():
            operands = tuple([place(o) if isinstance(o, ir.Region) else o for o in stmt.operands])
            is_same = all(map(is_, operands, stmt.operands))
            return stmt if is_same else replace(stmt, operands=operands)
        case ir.Store() | ir.Atomic() | ir.Arrive() | ir.WaitPhase() | ir.Expect():
            return replace(stmt, place=place(stmt.place))
        case ir.Let(value=ir.Load() as load):
            return replace(stmt, value=replace(load, place=place(load.place)))
        case _:
            return stmt


#: the classes of statements that define a variable, those that define a buffer, and all others
_VARIABLES = (ir.Let, ir.Declare, ir.For, ir.Atomic, ir.Instruction, ir.WaitPhase)
_BUFFERS = (ir.Alloc, ir.BufferView)
NAMELESS = (
    ir.Assign, ir.Store, ir.If, ir.Loop, ir.Break, ir.Continue, ir.Return,
    ir.Sync, ir.Arrive, ir.Expect, ir.Assert, ir.Print, ir.TileOp, ir.Move,
)


def defines(stmt: ir.Stmt) -> ir.Var | ir.Buffer | None:
    """The variable or buffer that a statement gives a name to."""
    if isinstance(stmt, _VARIABLES):
        return stmt.var
    if isinstance(stmt, _BUFFERS):
        return stmt.buffer
    if isinstance(stmt, NAMELESS):
        return None
    return assert_never(stmt)


def assigned(body: Block) -> frozenset[str]:
    """The names of the variables that the statements, those in blocks too, assign."""
    return frozenset([stmt.var.name for stmt in statements(body) if isinstance(stmt, ir.Assign)])


#: the classes of statements that compute nothing themselves
_WITHOUT_EXPRESSIONS = (ir.Alloc, ir.BufferView, ir.Loop, ir.Break, ir.Continue, ir.Return, ir.Sync)


def expressions(stmt: ir.Stmt) -> Sequence[ir.Expr]:
    """The expressions that a statement itself computes, those of places included, in the order of its fields."""
    if isinstance(stmt, _WITHOUT_EXPRESSIONS):
        return ()
    match stmt:
        case ir.TileOp():
            return _computed(stmt.operands)
        case ir.Let() | ir.Assign():
            return (stmt.value,)
        case ir.Store():
            return (*indices(stmt.place), stmt.value)
        case ir.For():
            return (stmt.start, stmt.stop, stmt.step)
        case ir.Move():
            given = [expr for expr in (stmt.predicate, stmt.otherwise) if expr is not None]
            return [*_computed((stmt.dst, stmt.src)), *given]
        case ir.Instruction():
            return _computed((*stmt.outputs, *(x.place if isinstance(x, ir.Descriptor) else x for x in stmt.inputs)))
        case ir.Declare():
            return () if stmt.init is None else (stmt.init,)
        case ir.Atomic():
            return (*indices(stmt.place), *stmt.operands)
        case ir.If():
            return (stmt.cond,)
        case ir.WaitPhase():
            return (*indices(stmt.place), stmt.phase)
        case ir.Arrive() | ir.Expect():
            return (*indices(stmt.place), *(() if stmt.bytes is None else (stmt.bytes,)))
        case ir.Assert():
            return (stmt.cond, *stmt.values)
        case ir.Print():
            return [part for part in stmt.parts if not isinstance(part, str)]
        case _:
            return assert_never(stmt)


def _computed(values: Iterable[Place | ir.Expr | None]) -> list[ir.Expr]:
    computed: list[ir.Expr] = []
    for value in values:
        if isinstance(value, ir.Region):
            computed += value.starts
        elif isinstance(value, _PLACES):
            computed += indices(value)
        elif value is not None:
            computed.append(value)
    return computed


def _reads(stmt: ir.Stmt) -> tuple[Place, ...]:
    """The places that a statement itself reads.

    Of an instruction's inputs these are the ones in registers. Of the others the instruction takes the address, and
    the instruction table says whether it reads there.
    """
    if isinstance(stmt, _WITHOUT_EXPRESSIONS):
        return ()
    places = [*_read_directly(stmt)]
    for expr in expressions(stmt):
        if not isinstance(expr, _LEAVES):
            places += [part.place for part in subexpressions(expr) if isinstance(part, ir.Load)]
    return tuple(places)


def _read_directly(stmt: ir.Stmt) -> Sequence[Place]:
    """The places that a statement itself reads, without those that its expressions load."""
    match stmt:
        case ir.Alloc() | ir.BufferView() | ir.Loop() | ir.Break() | ir.Continue() | ir.Return() | ir.Sync():
            return ()
        case ir.TileOp():
            return stmt.read
        case ir.Let() | ir.Declare() | ir.Assign() | ir.Store() | ir.If() | ir.For() | ir.Assert() | ir.Print():
            return ()
        case ir.Arrive() | ir.WaitPhase() | ir.Expect():
            # nobody reads or writes what a barrier is made of
            return ()
        case ir.Move():
            return (stmt.src,)
        case ir.Atomic():
            return (stmt.place,)
        case ir.Instruction():
            return [v for v in stmt.inputs if isinstance(v, ir.Vector) and v.buffer.space == "local"]
        case _:
            return assert_never(stmt)


#: remembered, because each analysis asks it of all of a kernel's statements
reads = remembered(_reads, limit=1 << 14)


#: the classes of statements that write to no place
_WITHOUT_WRITES = (
    ir.Let, ir.Declare, ir.Assign, ir.Alloc, ir.BufferView, ir.If, ir.For, ir.Loop,
    ir.Break, ir.Continue, ir.Return, ir.Sync, ir.Arrive, ir.WaitPhase, ir.Expect, ir.Assert, ir.Print,
)


def _writes(stmt: ir.Stmt) -> Sequence[Place]:
    """The places that a statement itself writes, without those of which an instruction takes the address."""
    if isinstance(stmt, _WITHOUT_WRITES):
        return ()
    match stmt:
        case ir.TileOp():
            return stmt.written
        case ir.Store() | ir.Atomic():
            return (stmt.place,)
        case ir.Move():
            return (stmt.dst,)
        case ir.Instruction():
            return stmt.outputs
        case _:
            return assert_never(stmt)


#: remembered, as `reads` is
writes = remembered(_writes, limit=1 << 14)


def _in_memory(stmt: ir.Stmt) -> tuple[tuple[Place, bool], ...]:
    """The places that a statement itself reads or writes but for those in registers, and whether it writes each."""
    accesses = [(place, False) for place in reads(stmt) if place.buffer.space != "local"]
    accesses += [(place, True) for place in writes(stmt) if place.buffer.space != "local"]
    return tuple(accesses)


#: remembered, as `reads` is: most statements of lane IR have none
in_memory = remembered(_in_memory, limit=1 << 14)


def operands(expr: ir.Expr) -> tuple[ir.Expr, ...]:
    """The expressions that an expression is directly made of."""
    match expr:
        case ir.Op():
            return expr.args
        case ir.Const() | ir.Var() | ir.Special():
            return ()
        case ir.Cast():
            return (expr.x,)
        case ir.Load():
            return indices(expr.place)
        case _:
            return assert_never(expr)


def subexpressions(expr: ir.Expr) -> Sequence[ir.Expr]:
    """The expression and all that it is made of, from the left."""
    if isinstance(expr, _LEAVES):
        return (expr,)
    parts: list[ir.Expr] = []
    waiting: list[ir.Expr] = [expr]
    while waiting:
        part = waiting.pop()
        parts.append(part)
        if isinstance(part, ir.Op):
            waiting.extend(reversed(part.args))
        elif isinstance(part, ir.Cast):
            waiting.append(part.x)
        elif isinstance(part, ir.Load) and isinstance(part.place, ir.Vector):
            waiting.append(part.place.offset)
        elif not isinstance(part, _LEAVES):
            waiting.extend(reversed(operands(part)))
    return parts


def loads(expr: ir.Expr) -> Sequence[ir.Load]:
    """The loads in an expression."""
    if isinstance(expr, _LEAVES):
        return ()
    return [part for part in subexpressions(expr) if isinstance(part, ir.Load)]


def indices(place: Place) -> tuple[ir.Expr, ...]:
    """The expressions that give a place's position in its buffer."""
    match place:
        case ir.Vector():
            return (place.offset,)
        case ir.Region():
            return place.starts
        case ir.Element():
            return place.indices
        case _:
            return assert_never(place)
