"""Rematerialization of masks: where possible, a copy computes its mask's elements from their indices and scalars.

    cta.indices at[…]; axis=0
    cta.less mask[…], at[…], n             ─▶ element i of mask: i < n
    cta.copy Y[…], y[…], None, mask[…]

So a mask such as this one is tested for a whole vector at the vector's first and last elements, and a mask that is used
only in this way needs no registers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from functools import partial

from ..dtypes import DType
from ..forks import cached_property
from ..ir import walk
from ..ir.arithmetic import build
from ..ir.nodes import Alloc, Buffer, BufferView, Const, Expr, For, Kernel, Load, Region, Stmt, Store, TileOp, Var
from ..ir.walk import Block
from ..ops.copies import CAST, FILL, INDICES
from ..ops.elementwise import ELEMENTWISE, result_type

#: operations that take a few machine instructions per element on integers and bool_
_CHEAP = frozenset((
    "add", "sub", "neg", "mul", "minimum", "maximum", "less", "less_equal", "greater", "greater_equal", "equal",
    "not_equal", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", CAST.name, FILL.name, INDICES.name,
))

#: this many operations per element cost about as much as keeping the element in a register
_MOST_OPERATIONS = 16

#: the extents of a single element: 1 for a slice, and None for an index, which removes the dimension
_SINGLE = (1, None)


class Recomputed:
    """The tiles whose elements can be recomputed at the statement that is being lowered.

    Such a tile holds integers or bool_ and is written by a single statement, as a whole: a cheap operation on other
    such tiles and on scalars that read no memory and are never reassigned. The operation precedes the statement that is
    being lowered, in its block or an enclosing one.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._body = kernel.body
        self._assigned = walk.assigned(kernel.body)
        self._definitions: dict[str, TileOp] = {}
        self._asked: set[str] = set()

    @cached_property
    def _writers(self) -> Counter[str]:
        writing = [stmt for stmt in walk.statements(self._body) if isinstance(stmt, walk.WRITING)]
        return Counter([place.buffer.root.name for stmt in writing for place in walk.writes(stmt)])

    @contextmanager
    def block(self) -> Iterator[None]:
        """On exit, forget the tiles that were recorded inside the context."""
        before = dict(self._definitions)
        yield
        self._definitions = before

    def record(self, op: TileOp) -> None:
        """Record `op` for the statements after it, if its destination may be recomputed."""
        if op.name not in _CHEAP:
            return
        dst = op.region("dst")
        if dst.dtype.is_float:
            return
        scalars = [operand for operand in op.inputs.values() if not isinstance(operand, Region)]
        is_whole = dst.buffer.base is None and dst.extents == dst.buffer.shape
        if is_whole and self._writers[dst.buffer.name] == 1 and all(map(self._stays, scalars)):
            self._definitions[dst.buffer.name] = op

    def _stays(self, scalar: Expr) -> bool:
        """True if a scalar has the same value wherever it is in scope."""
        parts = list(walk.subexpressions(scalar))
        return not any(isinstance(p, Load) or (isinstance(p, Var) and p.name in self._assigned) for p in parts)

    def element(self, region: Region, index: Sequence[Expr]) -> Expr | None:
        """Return the value of a region's element at `index`, which omits unit dimensions; None if not recomputable."""
        asked: dict[str, TileOp] = {}
        element = self._element(region, index, asked)
        if element is not None:
            self._asked |= asked.keys()
        return element

    def _element(self, region: Region, index: Sequence[Expr], asked: dict[str, TileOp]) -> Expr | None:
        """Like `element`. asked: collects the tiles that the element depends on."""
        name = region.buffer.root.name
        op = self._definitions.get(name)
        if op is None or not _is_unmoved(region.buffer):
            return None
        asked[name] = op
        if len(asked) > _MOST_OPERATIONS:
            return None
        starts = [start for start, n in zip(region.starts, region.extents, strict=True) if n not in _SINGLE]
        if not all(isinstance(s, Const) for s in region.starts) or _is_part_of_dimension(region):
            return None
        within = [build.add(i, build.cast(start, i.dtype)) for i, start in zip(index, starts, strict=True)]
        return self._value(op, within, asked)

    def _value(self, op: TileOp, index: Sequence[Expr], asked: dict[str, TileOp]) -> Expr | None:
        dst = op.region("dst")
        if op.name == INDICES.name:
            axis = op.attr("axis")
            assert isinstance(axis, int)
            number = sum(n != 1 for n in dst.shape[:axis])
            zero = build.const(0, dst.dtype)
            return zero if dst.shape[axis] == 1 else build.cast(index[number], dst.dtype)
        values: list[Expr] = []
        for operand in op.inputs.values():
            if isinstance(operand, Region):
                value = self._element(operand, along(operand.shape, dst.shape, index), asked)
                if value is None:
                    return None
                values.append(value)
            else:
                values.append(operand)
        return value_of(op, values, dst.dtype)

    def remove_unread(self, body: Block) -> Block:
        """Return `body` without the allocations, views, stores and loops of stores of tiles that `_unread` finds."""
        unread = self._unread(body) if self._asked else frozenset()
        return walk.rewrite(body, partial(_without, unread)) if unread else body

    def _unread(self, body: Block) -> Set[str]:
        """Return the recomputed tiles that are read only to fill each other, or not at all."""
        read: set[str] = set()
        to_fill: dict[str, set[str]] = {name: set() for name in self._asked}
        for stmt in walk.statements(body):
            places = walk.reads(stmt)
            if places:
                filled = stmt.place.buffer.root.name if isinstance(stmt, Store) else ""
                to_fill.get(filled, read).update([place.buffer.root.name for place in places])
        waiting = read & self._asked
        while waiting:
            needed = to_fill.pop(waiting.pop(), set())
            waiting |= needed & to_fill.keys()
        return to_fill.keys()


def _without(names: Set[str], stmt: Stmt) -> tuple[Stmt, ...]:
    return () if _fills(stmt, names) else (stmt,)


def _fills(stmt: Stmt, names: Set[str]) -> bool:
    match stmt:
        case Alloc() | BufferView():
            return stmt.buffer.root.name in names
        case Store():
            return stmt.place.buffer.root.name in names
        case For():
            return all(_fills(inner, names) for inner in stmt.body)
        case _:
            return False


def along(shape: Sequence[int], to: Sequence[int], index: Sequence[Expr]) -> list[Expr]:
    """Return the index of a broadcast operand for an index into the result. Both omit dimensions of extent 1."""
    numbers = iter(index)
    of_dim = [None if n == 1 else next(numbers) for n in to]
    aligned = of_dim[len(to) - len(shape):]
    return [i for n, i in zip(shape, aligned, strict=True) if n != 1 and i is not None]


def _is_unmoved(buffer: Buffer) -> bool:
    """True if a buffer is its root tile, or a view of all of it that differs only in dimensions of extent 1."""
    base = buffer.root
    return buffer == base or (
        buffer.layout == base.layout
        and buffer.dtype == base.dtype
        and [n for n in buffer.shape if n != 1] == [n for n in base.shape if n != 1]
    )


def _is_part_of_dimension(region: Region) -> bool:
    """True if the region takes a single element of a longer dimension."""
    return any(e in _SINGLE and n != 1 for e, n in zip(region.extents, region.buffer.shape, strict=True))


def value_of(op: TileOp, values: Sequence[Expr], dtype: DType) -> Expr:
    """Return the result of `op` for input elements `values`, computed in the operation's type, then cast to `dtype`."""
    if op.name not in ELEMENTWISE:
        return build.cast(values[0], dtype, op.attr("saturate") is not False)
    rule = result_type(op.name, tuple([v.dtype for v in values]))
    assert not isinstance(rule, str)
    conditions = ELEMENTWISE[op.name].conditions
    converted = [build.cast(v, rule[0]) for v in values[conditions:]]
    return build.cast(build.apply(op.name, (*values[:conditions], *converted)), dtype)
