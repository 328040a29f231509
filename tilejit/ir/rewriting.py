"""Cloning of statements with substituted expressions, buffers, spans and definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..dataclass import replace
from ..remember import once
from ..source import Span
from . import nodes as ir
from .arithmetic.intern import with_operands
from .walk import FIELDS, Block, Place, indices, mapped

P = TypeVar("P", ir.Element | ir.Vector, ir.Vector, Place)


class Rewriting:
    """Clones statements with other buffers and spans; subclasses substitute expressions and defined variables.

    Blocks, statements and their parts remain the same objects if nothing in them changes.
    buffers: name of a buffer -> its replacement. span: maps each statement's source location.
    """

    def __init__(
        self, buffers: Mapping[str, ir.Buffer], span: Callable[[Span | None], Span | None] = lambda span: span
    ) -> None:
        self._buffers, self._span = dict(buffers), span

    def expr(self, expr: ir.Expr) -> ir.Expr:
        """Return the replacement of an expression. This implementation rewrites only expressions that are loads."""
        if not isinstance(expr, ir.Load):
            return expr
        place = self.place(expr.place)
        return expr if place is expr.place else replace(expr, place=place)

    def defined(self, var: ir.Var) -> ir.Var:
        """Return the replacement of a variable at its definition."""
        return var

    def block(self, body: Block) -> Block:
        """Clone a block, visiting its statements in program order."""
        return mapped(body, self.stmt)

    def stmt(self, stmt: ir.Stmt) -> ir.Stmt:
        """Clone a statement, including its blocks."""
        changed: dict[str, Any] = {}
        fields = FIELDS[type(stmt)]
        used = ("var",) if isinstance(stmt, ir.Assign) else ()
        for name in (*used, *fields.operands, *fields.defined, *fields.blocks):
            part: Any = getattr(stmt, name)
            if name in fields.blocks:
                made: Any = self.block(part)
            elif name in fields.defined:
                made = self.view(part) if name == "buffer" else part and self.defined(part)
            else:
                made = self.operand(part)
            if made is not part:
                changed[name] = made
        span = self._span(stmt.span)
        if span is not stmt.span:
            changed["span"] = span
        return replace(stmt, **changed) if changed else stmt

    def view(self, buffer: ir.Buffer) -> ir.Buffer:
        """Return the replacement of a buffer or view at its definition, and use it for later places."""
        if buffer.name in self._buffers or buffer.offset is None or buffer.base is None:
            return self._buffers.get(buffer.name, buffer)
        base, offset = self._buffers.get(buffer.base.name, buffer.base), self.expr(buffer.offset)
        if base is not buffer.base or offset is not buffer.offset:
            self._buffers[buffer.name] = replace(buffer, base=base, offset=offset)
        return self._buffers.get(buffer.name, buffer)

    def place(self, place: P) -> P:
        """Return the rewritten place."""
        buffer = self._buffers.get(place.buffer.name, place.buffer)
        if isinstance(place, ir.Vector):
            # most offsets are constants, which are never replaced
            offset = place.offset if type(place.offset) is ir.Const else self.expr(place.offset)
            if buffer is place.buffer and offset is place.offset:
                return place
            return ir.Vector(buffer, offset, place.width, place.span)
        exprs = mapped(indices(place), self.expr)
        if buffer is place.buffer and exprs is indices(place):
            return place
        if isinstance(place, ir.Element):
            return replace(place, buffer=buffer, indices=exprs)
        return replace(place, buffer=buffer, starts=exprs)

    def operand(self, operand: Any) -> Any:
        """Return a rewritten place, expression, descriptor or tuple of these; None and strings remain unchanged."""
        if isinstance(operand, tuple):
            return mapped(operand, self.operand)
        if isinstance(operand, (ir.Vector, ir.Element, ir.Region)):
            return self.place(operand)
        if isinstance(operand, ir.Descriptor):
            place = self.place(operand.place)
            return operand if place is operand.place else replace(operand, place=place)
        return operand if operand is None or isinstance(operand, str) else self.expr(operand)


class Renaming(Rewriting):
    """Clones statements with fresh variables, other buffers and other spans.

    buffers, span: as in `Rewriting`. fresh: maps the name of a defined variable to a new one.
    """

    def __init__(
        self, buffers: Mapping[str, ir.Buffer], fresh: Callable[[str], str], span: Callable[[Span | None], Span | None]
    ) -> None:
        super().__init__(buffers, span)
        self._fresh = fresh
        self._vars: dict[str, ir.Var] = {}

    def defined(self, var: ir.Var) -> ir.Var:
        made = self._vars[var.name] = replace(var, name=self._fresh(var.name))
        return made

    def expr(self, expr: ir.Expr) -> ir.Expr:
        if isinstance(expr, ir.Var):
            return self._vars.get(expr.name, expr)
        if not isinstance(expr, (ir.Op, ir.Cast)):
            return super().expr(expr)
        return self._with_operands(expr)

    @once
    def _with_operands(self, expr: ir.Op | ir.Cast) -> ir.Expr:
        return with_operands(expr, self.expr)
