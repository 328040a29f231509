"""Cloning of statements with new names for the variables that they define, and with other buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import is_

from ..dataclass import replace
from ..source import Span
from . import nodes as ir
from .arithmetic.intern import operation
from .rewriting import Rewriting


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
        self._renamed: dict[int, tuple[ir.Expr, ir.Expr]] = {}

    def defined(self, var: ir.Var) -> ir.Var:
        made = self._vars[var.name] = replace(var, name=self._fresh(var.name))
        return made

    def stmt(self, stmt: ir.Stmt) -> ir.Stmt:
        """Clone a statement. The clone is another object even if nothing changes, since passes tell clones apart."""
        made = super().stmt(stmt)
        return replace(made) if made is stmt else made

    def expr(self, expr: ir.Expr) -> ir.Expr:
        """Return the renamed expression; at lane level, the same object if nothing in it changes."""
        match expr:
            case ir.Var():
                return self._vars.get(expr.name, expr)
            case ir.Const() | ir.Special():
                return expr
            case ir.Load():
                place = self.place(expr.place)
                return expr if place is expr.place else replace(expr, place=place)
        entry = self._renamed.get(id(expr))
        if entry is None:
            entry = self._renamed[id(expr)] = (expr, self._with_operands(expr))
        return entry[1]

    def _with_operands(self, expr: ir.Op | ir.Cast) -> ir.Expr:
        if isinstance(expr, ir.Cast):
            x = self.expr(expr.x)
            return expr if x is expr.x else replace(expr, x=x)
        args = tuple([self.expr(arg) for arg in expr.args])
        if all(map(is_, args, expr.args)):
            return expr
        return operation(expr.name, args, expr.dtype) if expr.span is None else replace(expr, args=args)
