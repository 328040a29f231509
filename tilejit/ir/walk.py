"""Traversal of statements and expressions (their blocks, operands, reads and writes), and rewriting of blocks.

A new class of statements needs an entry in `FIELDS`. The functions that list all classes of expressions or places end
with `assert_never`, so type checking fails for a new class until each of them lists it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import is_
from typing import Any, NamedTuple, TypeVar

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


class Fields(NamedTuple):
    """The names of fields of a class of statements, each group in the order in which a statement has them.

    operands: the fields with the expressions and places that the statement itself evaluates. defined: the field with
    the variable or buffer that it defines. read, written: fields and properties with the places that it reads, other
    than by loads in expressions, and those that it writes.
    """

    operands: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    defined: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()


FIELDS: dict[type[ir.Stmt], Fields] = {
    ir.Let: Fields(("value",), defined=("var",)),
    ir.Declare: Fields(("init",), defined=("var",)),
    ir.Assign: Fields(("value",)),
    ir.Alloc: Fields(defined=("buffer",)),
    ir.BufferView: Fields(defined=("buffer",)),
    ir.Store: Fields(("place", "value"), written=("place",)),
    ir.Atomic: Fields(("place", "operands"), defined=("var",), read=("place",), written=("place",)),
    ir.If: Fields(("cond",), blocks=("then", "orelse")),
    ir.For: Fields(("start", "stop", "step"), blocks=("body",), defined=("var",)),
    ir.Loop: Fields(blocks=("body",)),
    ir.Break: Fields(),
    ir.Continue: Fields(),
    ir.Return: Fields(),
    ir.Sync: Fields(),
    ir.Arrive: Fields(("place", "bytes")),
    ir.WaitPhase: Fields(("place", "phase"), defined=("var",)),
    ir.Expect: Fields(("place", "bytes")),
    ir.Assert: Fields(("cond", "values")),
    ir.Print: Fields(("parts",)),
    ir.Breakpoint: Fields(("values",), read=("registers",)),
    ir.TileOp: Fields(("operands",), read=("read",), written=("written",)),
    ir.Move: Fields(("dst", "src", "predicate", "otherwise"), read=("src",), written=("dst",)),
    ir.Instruction: Fields(("outputs", "inputs"), defined=("var",), read=("registers",), written=("outputs",)),
}


def blocks(stmt: ir.Stmt) -> tuple[Block, ...]:
    """Return the blocks of a statement, in program order."""
    return tuple([getattr(stmt, name) for name in FIELDS[type(stmt)].blocks])


def with_blocks(stmt: ir.Stmt, change: Callable[[Block], Block]) -> ir.Stmt:
    """Return the statement with `change` applied to each block, in program order; the same object if none changes."""
    made: dict[str, Any] = {name: change(getattr(stmt, name)) for name in FIELDS[type(stmt)].blocks}
    return stmt if all(map(is_, made.values(), blocks(stmt))) else replace(stmt, **made)


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
    for stmt in body:
        listed.append(stmt)
        for block in blocks(stmt) if type(stmt) in COMPOUND_KINDS else ():
            held = inventory(block)
            listed += held.statements
            kinds |= held.kinds
            assigned |= held.assigned
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


#: the classes of statements that may define a variable, and those that define a buffer
VARIABLES = (ir.Let, ir.Declare, ir.For, ir.Atomic, ir.Instruction, ir.WaitPhase)
BUFFERS = (ir.Alloc, ir.BufferView)


def defines(stmt: ir.Stmt) -> ir.Var | ir.Buffer | None:
    """Return the variable or buffer that a statement defines, or None."""
    names = FIELDS[type(stmt)].defined
    defined: ir.Var | ir.Buffer | None = getattr(stmt, names[0]) if names else None
    return defined


def assigned(body: Block) -> frozenset[str]:
    """Return the names of the variables that the statements assign, including nested ones."""
    return inventory(body).assigned


def expressions(stmt: ir.Stmt) -> Sequence[ir.Expr]:
    """Return the expressions that a statement itself evaluates, including indices of places, in field order."""
    if isinstance(stmt, ir.BufferView):
        return () if stmt.buffer.offset is None else (stmt.buffer.offset,)
    return [expr for name in FIELDS[type(stmt)].operands for expr in _computed(getattr(stmt, name))]


def _computed(operand: Any) -> Sequence[ir.Expr]:
    """Return the expressions in a field that holds expressions, places, descriptors, texts, or tuples of these."""
    if isinstance(operand, tuple):
        return [expr for part in operand for expr in _computed(part)]
    place = operand.place if isinstance(operand, ir.Descriptor) else operand
    if isinstance(place, _PLACES):
        return indices(place)
    return () if operand is None or isinstance(operand, str) else (operand,)


def _places(stmt: ir.Stmt, names: Sequence[str]) -> list[Place]:
    """Return the places in fields or properties, each of which holds one place or several."""
    values = [getattr(stmt, name) for name in names]
    return [place for value in values for place in (value if isinstance(value, tuple) else (value,))]


def _reads(stmt: ir.Stmt) -> tuple[Place, ...]:
    """Return the places that a statement reads, not counting nested statements.

    Of the places among an instruction's inputs, only those in local buffers count. For any other place, the input is
    its address; the instruction table specifies whether the instruction reads the memory there. Operations on barriers
    don't count as reads.
    """
    names = FIELDS[type(stmt)].read
    places = _places(stmt, names) if names else []
    for expr in expressions(stmt):
        # most expressions are leaves
        if type(expr) not in _LEAF_KINDS:
            places += [load.place for load in loads(expr)]
    return tuple(places)


#: memoized: several analyses call it for all statements of a kernel
reads = remembered(_reads, limit=1 << 14)


def _writes(stmt: ir.Stmt) -> Sequence[Place]:
    """Return the places that a statement writes, except memory whose address an instruction takes."""
    names = FIELDS[type(stmt)].written
    return _places(stmt, names) if names else ()


#: memoized, like `reads`
writes = remembered(_writes, limit=1 << 14)


#: the classes of statements that may write places
WRITING = (ir.TileOp, ir.Store, ir.Atomic, ir.Move, ir.Instruction)


#: the classes of statements that read or write places at open and tile level
ACCESSING: frozenset[type[ir.Stmt]] = frozenset((ir.Let, ir.Store, ir.TileOp, ir.Atomic, ir.Breakpoint))


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
