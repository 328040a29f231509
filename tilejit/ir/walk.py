"""Traversal of statements and expressions (their blocks, operands, reads and writes), and rewriting of blocks.

Functions that list all classes of statements or expressions end with `assert_never`, so type checking fails for a new
class until each of them lists it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import is_
from typing import Any, TypeVar

from ..dataclass import lean, replace
from ..errors import assert_never
from ..remember import remembered
from . import nodes as ir

S = TypeVar("S")

Block = tuple[ir.Stmt, ...]

#: a part of a buffer, to which a statement or a load refers
Place = ir.Region | ir.Element | ir.Vector
_PLACES = (ir.Region, ir.Element, ir.Vector)

#: the classes of expressions without subexpressions
LEAVES = (ir.Const, ir.Var, ir.Special)
_LEAF_KINDS: frozenset[type[ir.Expr]] = frozenset(LEAVES)
#: the classes of expressions that `inputs` returns
_INPUTS = (ir.Var, ir.Special, ir.Load)

#: the classes of statements that contain blocks
COMPOUND = (ir.If, ir.For, ir.Loop)
#: a set, because a lookup is faster than an `isinstance` check that fails for three classes
COMPOUND_KINDS: frozenset[type[ir.Stmt]] = frozenset(COMPOUND)

#: the classes of statements by which threads leave a block
JUMPS = (ir.Break, ir.Continue, ir.Return)
#: the classes of statements that affect the flow of control
CONTROL: frozenset[type[ir.Stmt]] = COMPOUND_KINDS.union(JUMPS)
#: the classes of statements that can by themselves keep control from reaching the next statement
UNBOUNDED: frozenset[type[ir.Stmt]] = frozenset((*JUMPS, ir.Loop))

_WITHOUT_BLOCKS = (
    ir.Let, ir.Instruction, ir.Move, ir.Store, ir.Atomic, ir.Assign, ir.Declare,
    ir.TileOp, ir.Alloc, ir.BufferView, ir.Sync, ir.Arrive, ir.WaitPhase, ir.Expect,
    ir.Break, ir.Continue, ir.Return, ir.Assert, ir.Print,
)


def blocks(stmt: ir.Stmt) -> tuple[Block, ...]:
    """Return the blocks of a statement, in program order."""
    if isinstance(stmt, ir.If):
        return stmt.then, stmt.orelse
    if isinstance(stmt, (ir.For, ir.Loop)):
        return (stmt.body,)
    if isinstance(stmt, _WITHOUT_BLOCKS):
        return ()
    return assert_never(stmt)


def with_blocks(stmt: ir.Stmt, change: Callable[[Block], Block]) -> ir.Stmt:
    """Return the statement with `change` applied to each block, in program order; the same object if none changes."""
    if isinstance(stmt, ir.If):
        then, orelse = change(stmt.then), change(stmt.orelse)
        return stmt if then is stmt.then and orelse is stmt.orelse else replace(stmt, then=then, orelse=orelse)
    if isinstance(stmt, (ir.For, ir.Loop)):
        body = change(stmt.body)
        return stmt if body is stmt.body else replace(stmt, body=body)
    leaf: ir.Simple | ir.Jump = stmt
    return leaf


@lean(frozen=True, slots=True)
class Inventory:
    """The statements of a block, including nested ones."""

    #: all statements, in program order
    statements: Block
    size: int
    #: the classes of the statements
    kinds: frozenset[type[ir.Stmt]]
    #: the names of the variables that the statements assign
    assigned: frozenset[str]


def _inventory(body: Block) -> Inventory:
    kinds = set(map(type, body))
    assigned = {stmt.var.name for stmt in body if isinstance(stmt, ir.Assign)} if ir.Assign in kinds else set[str]()
    if kinds.isdisjoint(COMPOUND):
        return Inventory(body, len(body), frozenset(kinds), frozenset(assigned))
    listed: list[ir.Stmt] = []
    done = 0
    for k in [k for k, kind in enumerate(map(type, body)) if kind in COMPOUND_KINDS]:
        listed += body[done : k + 1]
        done = k + 1
        for block in blocks(body[k]):
            if block:
                held = inventory(block)
                listed += held.statements
                kinds |= held.kinds
                assigned |= held.assigned
    listed += body[done:]
    return Inventory(tuple(listed), len(listed), frozenset(kinds), frozenset(assigned))


#: memoized: many passes traverse the whole kernel, and most blocks don't change between passes
inventory = remembered(_inventory, limit=1 << 14)


def within(stmt: ir.Stmt) -> tuple[ir.Stmt, ...]:
    """Return the statement and all nested ones, in program order."""
    return (stmt, *[inner for block in blocks(stmt) for inner in statements(block)])


def statements(body: Block) -> Block:
    """Return all statements of a block, including nested ones, in program order."""
    return inventory(body).statements


@remembered
def _numbered_by_kind(body: Block) -> dict[type, list[tuple[int, Any]]]:
    made: dict[type, list[tuple[int, Any]]] = defaultdict(list)
    for number, stmt in enumerate(statements(body)):
        made[type(stmt)].append((number, stmt))
    return made


def numbered(body: Block, kind: type[S]) -> Sequence[tuple[int, S]]:
    """Return the statements of a class, including nested ones, each with its index in `statements(body)`."""
    return list(_numbered_by_kind(body).get(kind, ())) if kind in inventory(body).kinds else ()


def each(body: Block, kind: type[S]) -> list[S]:
    """Return the statements of a class, including nested ones, in program order."""
    return [stmt for _, stmt in _numbered_by_kind(body).get(kind, ())]


def size(stmt: ir.Stmt) -> int:
    """Return the number of statements in a statement, including itself."""
    return 1 + sum([inventory(block).size for block in blocks(stmt)])


def mapped(parts: tuple[S, ...], change: Callable[[S], S]) -> tuple[S, ...]:
    """Return the tuple with `change` applied to each part, or the same object if no part changes."""
    made = tuple([change(part) for part in parts])
    return parts if all(map(is_, made, parts)) else made


def rewrite(body: Block, change: Callable[[ir.Stmt], Iterable[ir.Stmt]]) -> Block:
    """Return the block with each statement replaced by the statements that `change` returns for it.

    Statements are visited in program order; the blocks of the returned statements are rewritten, too. Unchanged blocks
    and statements remain the same objects.
    """

    made: list[ir.Stmt] = []
    recurse = partial(rewrite, change=change)
    for stmt in body:
        for new in change(stmt):
            made.append(with_blocks(new, recurse) if type(new) in COMPOUND_KINDS else new)
    is_same = len(made) == len(body) and all(map(is_, made, body))
    return body if is_same else tuple(made)


def edited(body: Block, edits: Mapping[int, Sequence[ir.Stmt]]) -> Block:
    """Return the block with some statements replaced. edits: index in `statements(body)` -> replacements.

    If a statement with blocks is among its own replacements, its blocks are edited, too. Unchanged statements remain
    the same objects.
    """
    return _Edits(edits).block(body)


class _Edits:
    def __init__(self, edits: Mapping[int, Sequence[ir.Stmt]]) -> None:
        self.edits, self.numbers = edits, sorted(edits)
        self.at = 0

    def block(self, body: Block) -> Block:
        if not body:
            return body
        end = self.at + inventory(body).size
        if bisect_left(self.numbers, self.at) == bisect_left(self.numbers, end):
            self.at = end
            return body
        made: list[ir.Stmt] = []
        for stmt in body:
            others = self.edits.get(self.at)
            self.at += 1
            same = with_blocks(stmt, self.block) if type(stmt) in COMPOUND_KINDS else stmt
            made += (same,) if others is None else [same if other is stmt else other for other in others]
        return tuple(made)


#: the classes of statements that may define a variable, those that define a buffer, and those that define nothing
VARIABLES = (ir.Let, ir.Declare, ir.For, ir.Atomic, ir.Instruction, ir.WaitPhase)
BUFFERS = (ir.Alloc, ir.BufferView)
NAMELESS = (
    ir.Assign, ir.Store, ir.If, ir.Loop, ir.Break, ir.Continue, ir.Return,
    ir.Sync, ir.Arrive, ir.Expect, ir.Assert, ir.Print, ir.TileOp, ir.Move,
)


def defines(stmt: ir.Stmt) -> ir.Var | ir.Buffer | None:
    """Return the variable or buffer that a statement defines, or None."""
    if isinstance(stmt, VARIABLES):
        return stmt.var
    if isinstance(stmt, BUFFERS):
        return stmt.buffer
    if isinstance(stmt, NAMELESS):
        return None
    return assert_never(stmt)


def assigned(body: Block) -> frozenset[str]:
    """Return the names of the variables that the statements assign, including nested ones."""
    return inventory(body).assigned


#: the classes of statements without expressions
_WITHOUT_EXPRESSIONS = (ir.Alloc, ir.Loop, ir.Break, ir.Continue, ir.Return, ir.Sync)


def expressions(stmt: ir.Stmt) -> Sequence[ir.Expr]:
    """Return the expressions that a statement itself evaluates, including indices of places, in field order."""
    match stmt:
        case ir.Let() | ir.Assign():
            return (stmt.value,)
        case ir.TileOp():
            return _computed(stmt.operands)
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
        case ir.BufferView():
            return () if stmt.buffer.offset is None else (stmt.buffer.offset,)
    return () if isinstance(stmt, _WITHOUT_EXPRESSIONS) else assert_never(stmt)


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


#: the classes of statements whose only reads are loads in expressions; operations on barriers don't count
_WITHOUT_READS = (
    ir.Let, ir.Declare, ir.Assign, ir.Store, ir.Alloc, ir.BufferView, ir.If, ir.For, ir.Loop,
    ir.Break, ir.Continue, ir.Return, ir.Sync, ir.Arrive, ir.WaitPhase, ir.Expect, ir.Assert, ir.Print,
)


def _reads(stmt: ir.Stmt) -> tuple[Place, ...]:
    """Return the places that a statement reads, not counting nested statements.

    Of the places among an instruction's inputs, only those in local buffers count. For any other place, the input is
    its address; the instruction table specifies whether the instruction reads the memory there.
    """
    places = [*_read_directly(stmt)]
    for expr in expressions(stmt):
        # most expressions are leaves
        if type(expr) not in _LEAF_KINDS:
            places += [load.place for load in loads(expr)]
    return tuple(places)


def _read_directly(stmt: ir.Stmt) -> Sequence[Place]:
    match stmt:
        case ir.TileOp():
            return stmt.read
        case ir.Move():
            return (stmt.src,)
        case ir.Atomic():
            return (stmt.place,)
        case ir.Instruction():
            return [v for v in stmt.inputs if isinstance(v, ir.Vector) and v.buffer.space == "local"]
    return () if isinstance(stmt, _WITHOUT_READS) else assert_never(stmt)


#: memoized: several analyses call it for all statements of a kernel
reads = remembered(_reads, limit=1 << 14)


#: the classes of statements that write no places
_WITHOUT_WRITES = (
    ir.Let, ir.Declare, ir.Assign, ir.Alloc, ir.BufferView, ir.If, ir.For, ir.Loop,
    ir.Break, ir.Continue, ir.Return, ir.Sync, ir.Arrive, ir.WaitPhase, ir.Expect, ir.Assert, ir.Print,
)


def _writes(stmt: ir.Stmt) -> Sequence[Place]:
    """Return the places that a statement writes, except memory whose address an instruction takes."""
    match stmt:
        case ir.TileOp():
            return stmt.written
        case ir.Move():
            return (stmt.dst,)
        case ir.Instruction():
            return stmt.outputs
        case ir.Store() | ir.Atomic():
            return (stmt.place,)
    return () if isinstance(stmt, _WITHOUT_WRITES) else assert_never(stmt)


#: memoized, like `reads`
writes = remembered(_writes, limit=1 << 14)


#: the classes of statements that may write places
WRITING = (ir.TileOp, ir.Store, ir.Atomic, ir.Move, ir.Instruction)


#: the classes of statements that read or write places at open and tile level
ACCESSING: frozenset[type[ir.Stmt]] = frozenset((ir.Let, ir.Store, ir.TileOp, ir.Atomic))


def in_memory(stmt: ir.Stmt) -> Sequence[tuple[Place, bool]]:
    """Return the places in `reads` and `writes` that aren't in local buffers, each with True if it's written."""
    touched: list[tuple[Place, bool]] = []
    for place in reads(stmt):
        if place.buffer.space != "local":
            touched.append((place, False))
    for place in writes(stmt):
        if place.buffer.space != "local":
            touched.append((place, True))
    return touched


def operands(expr: ir.Expr) -> tuple[ir.Expr, ...]:
    """Return the direct operands of an expression."""
    if isinstance(expr, ir.Op):
        return expr.args
    if isinstance(expr, ir.Cast):
        return (expr.x,)
    if isinstance(expr, ir.Load):
        return indices(expr.place)
    return () if isinstance(expr, LEAVES) else assert_never(expr)


def subexpressions(expr: ir.Expr) -> Sequence[ir.Expr]:
    """Return the expression and all its subexpressions in preorder."""
    if isinstance(expr, LEAVES):
        return (expr,)
    parts: list[ir.Expr] = []
    waiting: list[ir.Expr] = [expr]
    while waiting:
        part = waiting.pop()
        parts.append(part)
        if type(part) is ir.Op:
            waiting.extend(reversed(part.args))
        elif type(part) not in _LEAF_KINDS:
            waiting.extend(reversed(operands(part)))
    return parts


@remembered
def inputs(expr: ir.Expr) -> tuple[ir.Var | ir.Special | ir.Load, ...]:
    """Return the variables, special registers and loads in an expression, each object once, from left to right."""
    found: dict[int, Any] = {id(expr): expr} if isinstance(expr, _INPUTS) else {}
    for part in operands(expr):
        if type(part) not in _LEAF_KINDS:
            for inner in inputs(part):
                found[id(inner)] = inner
        elif type(part) is not ir.Const:
            found[id(part)] = part
    return tuple(found.values())


def loads(expr: ir.Expr) -> Sequence[ir.Load]:
    """Return the loads in an expression, each object once."""
    if type(expr) in _LEAF_KINDS:
        return ()
    return [part for part in inputs(expr) if isinstance(part, ir.Load)]


def indices(place: Place) -> tuple[ir.Expr, ...]:
    """Return the expressions that position a place in its buffer."""
    match place:
        case ir.Vector():
            return (place.offset,)
        case ir.Region():
            return place.starts
        case ir.Element():
            return place.indices
        case _:
            return assert_never(place)
