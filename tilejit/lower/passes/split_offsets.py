"""Splits offsets of memory accesses by the loops in which their terms change. Invariant parts become views.

    for row in …                                  for row in …
      for k in …                                    for k in …
        move r[0 +: 4] <- A[row * stride +            view A.1 = A + row * stride
                            k * 64 + 128 +: 4]        move r[0 +: 4] <- A.1[k * 64 + 128 +: 4]

Terms that change in inner loops are added last, so that the view of the others is invariant and `hoist` can move it.
The constant becomes part of the access instruction. Unrolled iterations share the view of their common terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import Any

from ...dataclass import replace
from ...forks import cached_property
from ...ir import walk
from ...ir.analyses.loop_depths import STAYS, LoopDepths, added
from ...ir.arithmetic.facts import bounds, full_range, multiple_of
from ...ir.arithmetic.intern import integer
from ...ir.names import FreshNames
from ...ir.nodes import (
    Alloc,
    Atomic,
    Buffer,
    BufferView,
    Const,
    Declare,
    Expr,
    For,
    If,
    Instruction,
    Kernel,
    Let,
    Load,
    Loop,
    Move,
    Op,
    Stmt,
    Store,
    Var,
    Vector,
    WaitPhase,
)
from ...ir.rewriting import P, Rewriting
from ...ir.walk import Block, mapped
from ...source import Span


def split_offsets(kernel: Kernel) -> Kernel:
    """Split offsets in a kernel at lane level into views, terms that change in the innermost loop, and a constant."""
    body = _Splitting(kernel).block(kernel.body)
    return kernel if body is kernel.body else replace(kernel, body=body)


_Key = tuple[str, int]


class _Splitting(Rewriting):
    """Splits offsets in one walk over a kernel. `_depth` counts enclosing loops; `_made` collects the current block.

    `_inexact` names the variables that `_depths` expands to sums that may wrap around. The keys of `_views` and
    `_places` are (name of the buffer, id of the offset); the entries of a block are dropped at its end.
    """

    def __init__(self, kernel: Kernel) -> None:
        super().__init__({})
        self._kernel = kernel
        self._depth = 0
        self._depths = LoopDepths()
        self._made: list[Stmt] = []
        self._place: Span | None = None
        self._inexact: set[str] = set()
        self._addressed: set[str] = set()
        self._views: dict[_Key, Buffer] = {}
        self._places: dict[_Key, tuple[Buffer, Expr, Expr]] = {}

    @cached_property
    def _names(self) -> FreshNames:
        return FreshNames.of(self._kernel)

    def block(self, body: Block) -> Block:
        outside, self._made, sizes = self._made, [], (len(self._views), len(self._places))
        is_same = True
        for stmt in body:
            split = _SPLIT.get(type(stmt))
            if split is None or (type(stmt) is Store and stmt.place.buffer.space == "local"):
                # most local stores are to registers; those to local memory rarely share an offset
                self._made.append(stmt)
                continue
            self._place = stmt.span
            made = split(self, stmt)
            is_same = is_same and made is stmt
            self._made.append(made)
        tables: tuple[dict[_Key, Any], ...] = (self._views, self._places)
        for table, size in zip(tables, sizes, strict=True):
            while len(table) > size:
                table.popitem()
        made_block, self._made = self._made, outside
        return body if is_same and len(made_block) == len(body) else tuple(made_block)

    def _alloc(self, stmt: Alloc) -> Stmt:
        if stmt.addressed:
            self._addressed.add(stmt.buffer.name)
        return stmt

    def _let(self, stmt: Let) -> Stmt:
        var, value = stmt.var, stmt.value
        if isinstance(value, Load):
            self.defined(var)
            place = self.place(value.place)
            return stmt if place is value.place else replace(stmt, value=replace(value, place=place))
        if self._depth:
            depth = self._depths.of(value)
            self._depths.variables[var.name] = min(depth, self._depth)
            is_sum = depth != STAYS and self._depths.record_sum(var, value)
            if is_sum and var.dtype.bits < 64 and not self._is_exact(value):
                self._inexact.add(var.name)
        return stmt

    def _declare(self, stmt: Declare) -> Stmt:
        self._depths.variables[stmt.var.name] = STAYS
        return stmt

    def _if(self, stmt: If) -> Stmt:
        return walk.with_blocks(stmt, self.block)

    def _loop(self, stmt: For | Loop) -> Stmt:
        self._depth += 1
        if isinstance(stmt, For):
            self._depths.variables[stmt.var.name] = self._depth
        made = walk.with_blocks(stmt, self.block)
        self._depth -= 1
        return made

    def _move(self, stmt: Move) -> Stmt:
        dst, src = self.place(stmt.dst), self.place(stmt.src)
        return stmt if dst is stmt.dst and src is stmt.src else replace(stmt, dst=dst, src=src)

    def _instruction(self, stmt: Instruction) -> Stmt:
        if stmt.var is not None:
            self.defined(stmt.var)
        # outputs are registers
        inputs = mapped(stmt.inputs, self.operand)
        return stmt if inputs is stmt.inputs else replace(stmt, inputs=inputs)

    def expr(self, expr: Expr) -> Expr:
        return expr

    def defined(self, var: Var) -> Var:
        if self._depth:
            self._depths.variables[var.name] = self._depth
        return var

    def place(self, place: P) -> P:
        assert isinstance(place, Vector), "lowering leaves no Element"
        offset, buffer = place.offset, place.buffer
        if type(offset) is Const or not self._is_split(buffer):
            return place
        key = (buffer.name, id(offset))
        entry = self._places.get(key)
        if entry is None:
            view, left = self._split(buffer, offset)
            entry = self._places[key] = (view, left, offset)
        view, left, _ = entry
        return place if left is offset else Vector(view, left, place.width, place.span)

    def _is_split(self, buffer: Buffer) -> bool:
        """True if the buffer is in memory that has addresses, not in registers."""
        return buffer.space in ("global", "shared") or buffer.root.name in self._addressed

    def _split(self, buffer: Buffer, offset: Expr) -> tuple[Buffer, Expr]:
        """Return a view of `buffer` displaced by shareable terms, or `buffer` itself, and the rest of the offset."""
        dtype = offset.dtype
        if dtype.bits < 64 and not (self._depth and self._is_exact(offset)):
            # a 32-bit sum isn't split outside loops, or if it may wrap around
            return buffer, offset
        terms, constant = self._depths.summands(offset)
        if not self._depth and len(terms) == 1:
            return buffer, offset
        groups = self._depths.groups(terms)
        stages = self._stages(groups, dtype.bits)
        left: list[Expr] = []
        if groups and groups[-1][0] >= self._depth:
            left.append(stages.pop())
        if constant or not left:
            left.append(integer(constant, dtype))
        rest = added(left)
        if dtype.bits < 64 and not all(map(self._is_exact, (*stages, rest))):
            # reassociation may make an intermediate sum wrap around
            return buffer, offset
        for stage in stages:
            buffer = self._view(buffer, stage)
        return buffer, rest

    def _is_exact(self, expr: Expr) -> bool:
        """True if no sum in an offset can wrap around before it is extended to a 64-bit address."""
        if isinstance(expr, Var):
            return expr.name not in self._inexact
        if not isinstance(expr, Op) or expr.name != "add":
            return True
        return bounds(expr) != full_range(expr.dtype) and all(map(self._is_exact, expr.args))

    def _stages(self, groups: Sequence[tuple[int, Sequence[Expr]]], bits: int) -> list[Expr]:
        """Return the values to add to an address, outer loops first. groups: (loop depth, terms that change there).

        The last of several 64-bit terms of a loop is added separately. That costs no more, and unrolled iterations
        share the sum of the others.
        """
        stages: list[Expr] = []
        for depth, group in groups:
            if bits == 64 and len(group) > 1 and depth != STAYS:
                stages += [added(group[:-1]), group[-1]]
            else:
                stages.append(added(group))
        return stages

    def _view(self, base: Buffer, offset: Expr) -> Buffer:
        key = (base.name, id(offset))
        view = self._views.get(key)
        if view is None:
            name, align = self._names.name(base.root.name), gcd(base.align, multiple_of(offset) * base.dtype.bytes)
            view = replace(base, name=name, base=base, offset=offset, align=align, span=None)
            self._views[key] = view
            self._made.append(BufferView(view, self._place))
        return view


_SPLIT: dict[type, Callable[[_Splitting, Any], Stmt]] = {
    Alloc: _Splitting._alloc, Let: _Splitting._let, Declare: _Splitting._declare, If: _Splitting._if,
    For: _Splitting._loop, Loop: _Splitting._loop, Move: _Splitting._move, Store: _Splitting.stmt,
    Atomic: _Splitting.stmt, WaitPhase: _Splitting.stmt, Instruction: _Splitting._instruction,
}
