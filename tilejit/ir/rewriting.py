"""Cloning of statements with substituted expressions, buffers, spans and definitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from operator import is_
from typing import Any, TypeVar

from ..dataclass import replace
from ..errors import assert_never
from ..source import Span
from . import nodes as ir
from .walk import Block, Place

P = TypeVar("P", ir.Element | ir.Vector, ir.Vector, Place)
S = TypeVar("S", bound=ir.Stmt)
T = TypeVar("T")


class Rewriting(ABC):
    """Clones statements; subclasses substitute expressions and defined variables.

    buffers: replacements, by the name of the replaced buffer. span: maps each statement's source location.
    """

    def __init__(
        self, buffers: Mapping[str, ir.Buffer], span: Callable[[Span | None], Span | None] = lambda span: span
    ) -> None:
        self._buffers, self._span = dict(buffers), span

    @abstractmethod
    def expr(self, expr: ir.Expr) -> ir.Expr:
        """Return the replacement of an expression, or the same object if nothing in it changes."""

    @abstractmethod
    def defined(self, var: ir.Var) -> ir.Var:
        """Return the replacement of a variable at its definition."""

    def block(self, body: Block) -> Block:
        """Clone a block, visiting its statements in program order."""
        return tuple([self.stmt(stmt) for stmt in body])

    def stmt(self, stmt: ir.Stmt) -> ir.Stmt:
        """Clone a statement; one without blocks is the same object if nothing in it changes."""
        span = self._span(stmt.span)
        match stmt:
            # the most frequent statements first
            case ir.Store():
                return _changed(stmt, place=self.place(stmt.place), value=self.expr(stmt.value), span=span)
            case ir.Instruction():
                outputs = mapped(self.place, stmt.outputs)
                inputs = mapped(self._input, stmt.inputs)
                defined = None if stmt.var is None else self.defined(stmt.var)
                return _changed(stmt, outputs=outputs, inputs=inputs, var=defined, span=span)
            case ir.Move():
                predicate, otherwise = self._optional(stmt.predicate), self._optional(stmt.otherwise)
                dst, src = self.place(stmt.dst), self.place(stmt.src)
                return _changed(stmt, dst=dst, src=src, predicate=predicate, otherwise=otherwise, span=span)
            case ir.Let():
                value = self.expr(stmt.value)
                return _changed(stmt, var=self.defined(stmt.var), value=value, span=span)
            case ir.Declare():
                init = self._optional(stmt.init)
                return _changed(stmt, var=self.defined(stmt.var), init=init, span=span)
            case ir.Assign():
                var = self.expr(stmt.var)
                assert isinstance(var, ir.Var), "an assigned variable must map to a variable"
                return _changed(stmt, var=var, value=self.expr(stmt.value), span=span)
            case ir.Atomic():
                place, operands = self.place(stmt.place), mapped(self.expr, stmt.operands)
                defined = None if stmt.var is None else self.defined(stmt.var)
                return _changed(stmt, place=place, operands=operands, var=defined, span=span)
            case ir.Arrive() | ir.WaitPhase() | ir.Expect():
                return self._at_barrier(stmt, span)
            case ir.If() | ir.For() | ir.Loop():
                return self._with_blocks(stmt, span)
            case ir.Assert():
                values = mapped(self.expr, stmt.values)
                return _changed(stmt, cond=self.expr(stmt.cond), values=values, span=span)
            case ir.Print():
                parts = tuple([part if isinstance(part, str) else self.expr(part) for part in stmt.parts])
                return _changed(stmt, parts=parts, span=span)
            case ir.TileOp():
                return _changed(stmt, operands=tuple([self._operand(o) for o in stmt.operands]), span=span)
            case ir.Alloc():
                return _changed(stmt, buffer=self._buffers.get(stmt.buffer.name, stmt.buffer), span=span)
            case ir.BufferView():
                return _changed(stmt, buffer=self.view(stmt.buffer), span=span)
            case ir.Break() | ir.Continue() | ir.Return() | ir.Sync():
                return _changed(stmt, span=span)
            case _:
                return assert_never(stmt)

    def _at_barrier(self, stmt: ir.Arrive | ir.WaitPhase | ir.Expect, span: Span | None) -> ir.Stmt:
        place = self.place(stmt.place)
        if isinstance(stmt, ir.Arrive):
            return _changed(stmt, place=place, bytes=self._optional(stmt.bytes), span=span)
        if isinstance(stmt, ir.Expect):
            return _changed(stmt, place=place, bytes=self.expr(stmt.bytes), span=span)
        phase = self.expr(stmt.phase)
        defined = None if stmt.var is None else self.defined(stmt.var)
        return _changed(stmt, place=place, phase=phase, var=defined, span=span)

    def _with_blocks(self, stmt: ir.If | ir.For | ir.Loop, span: Span | None) -> ir.Stmt:
        if isinstance(stmt, ir.Loop):
            return replace(stmt, body=self.block(stmt.body), span=span)
        if isinstance(stmt, ir.If):
            cond = self.expr(stmt.cond)
            return replace(stmt, cond=cond, then=self.block(stmt.then), orelse=self.block(stmt.orelse), span=span)
        start, stop, step = self.expr(stmt.start), self.expr(stmt.stop), self.expr(stmt.step)
        var = self.defined(stmt.var)
        return replace(stmt, var=var, start=start, stop=stop, step=step, body=self.block(stmt.body), span=span)

    def view(self, view: ir.Buffer) -> ir.Buffer:
        """Return the replacement of a view at its definition, and use it for later places."""
        if view.name in self._buffers or view.offset is None or view.base is None:
            return self._buffers.get(view.name, view)
        base, offset = self._buffers.get(view.base.name, view.base), self.expr(view.offset)
        if base is not view.base or offset is not view.offset:
            self._buffers[view.name] = replace(view, base=base, offset=offset)
        return self._buffers.get(view.name, view)

    def place(self, place: P) -> P:
        """Return the rewritten place; a `Vector` is the same object if nothing in it changes."""
        buffer = self._buffers.get(place.buffer.name, place.buffer)
        if isinstance(place, ir.Vector):
            # most offsets are constants, which are never replaced
            offset = place.offset if type(place.offset) is ir.Const else self.expr(place.offset)
            if buffer is place.buffer and offset is place.offset:
                return place
            return ir.Vector(buffer, offset, place.width, place.span)
        if isinstance(place, ir.Element):
            return replace(place, buffer=buffer, indices=tuple([self.expr(index) for index in place.indices]))
        return replace(place, buffer=buffer, starts=tuple([self.expr(start) for start in place.starts]))

    def _input(self, given: ir.Input) -> ir.Input:
        if isinstance(given, ir.Descriptor):
            place = self.place(given.place)
            return given if place is given.place else replace(given, place=place)
        return self.place(given) if isinstance(given, ir.Vector) else self.expr(given)

    def _operand(self, operand: ir.Region | ir.Expr | None) -> ir.Region | ir.Expr | None:
        if isinstance(operand, ir.Region):
            buffer = self._buffers.get(operand.buffer.name, operand.buffer)
            return replace(operand, buffer=buffer, starts=tuple([self.expr(start) for start in operand.starts]))
        return self._optional(operand)

    def _optional(self, expr: ir.Expr | None) -> ir.Expr | None:
        return None if expr is None else self.expr(expr)


def _changed(stmt: S, **parts: Any) -> S:
    """Return a statement with other parts, or the same object if none of them is another object."""
    for name, part in parts.items():
        if getattr(stmt, name) is not part:
            return replace(stmt, **parts)
    return stmt


def mapped(change: Callable[[T], T], parts: tuple[T, ...]) -> tuple[T, ...]:
    """Return the changed parts, or the same tuple if no part changes."""
    made = tuple([change(part) for part in parts])
    return parts if all(map(is_, made, parts)) else made
