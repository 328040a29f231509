"""Statements written again, with other names for what they define and for the buffers that they use."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..dataclass import replace
from ..errors import assert_never
from ..source import Span
from . import nodes as ir
from .rewriting import Rewriting

__all__ = ["Renaming"]


class Renaming(Rewriting):
    """Other names for the variables that statements define, and other buffers; each span as `span` makes of it.

    buffers: by the name of the one that each replaces. fresh: a name for a variable that is defined.
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
        """The expression; itself where nothing in it has another name."""
        match expr:
            case ir.Var():
                return self._vars.get(expr.name, expr)
            case ir.Const() | ir.Special():
                return expr
            case ir.Op():
                args = tuple([self.expr(arg) for arg in expr.args])
                is_same = all(a is b for a, b in zip(args, expr.args, strict=True))
                return expr if is_same else replace(expr, args=args)
            case ir.Cast():
                x = self.expr(expr.x)
                return expr if x is expr.x else replace(expr, x=x)
            case ir.Load():
                place = self.place(expr.place)
                return expr if place is expr.place else replace(expr, place=place)
            case _:
                return assert_never(expr)
