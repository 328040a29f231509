"""The variables visible at a point of a kernel, and the expressions verified there.

Scopes are nested: the parameters, then each enclosing block. A verified expression stays valid until the innermost
scope of its variables ends, and until then isn't verified again.
"""

from __future__ import annotations

from .. import nodes as ir

#: the scope of the parameters, and of expressions without variables
OUTERMOST = 0


class Scopes:
    """The scopes around the current point, outermost first."""

    def __init__(self) -> None:
        #: the visible variables, by name
        self.vars: dict[str, ir.Var] = {}
        #: the index of each visible variable's scope
        self.of: dict[str, int] = {}
        #: the variables that may be assigned
        self.mutable: set[str] = set()
        #: ids of expressions without violations -> index of the scope at whose end they become invalid
        self.sound: dict[int, int] = {}
        #: per scope, the ids of the expressions that are valid until its end
        self.ending: list[list[int]] = [[]]
        #: names of views at an offset whose scopes have ended
        self.gone: set[str] = set()
        self._names: list[list[str]] = [[]]
        self._views: list[list[str]] = [[]]

    def define(self, var: ir.Var) -> None:
        if var.name not in self.vars:
            self.of[var.name] = len(self._names) - 1
            self._names[-1].append(var.name)
        self.vars[var.name] = var

    def define_view(self, view: ir.Buffer) -> None:
        """Define a view with an offset, which may be used only until the current scope ends."""
        self._views[-1].append(view.name)

    def begin(self) -> None:
        self._names.append([])
        self._views.append([])
        self.ending.append([])

    def end(self) -> None:
        for name in self._names.pop():
            del self.vars[name], self.of[name]
            self.mutable.discard(name)
        for identity in self.ending.pop():
            del self.sound[identity]
        self.gone.update(self._views.pop())
