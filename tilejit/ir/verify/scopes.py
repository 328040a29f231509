"""What is visible at one place of a kernel, and what is known to be sound there.

Scopes lie in each other: that of the parameters, and one for each block around the place. What is sound stays so as
long as all its variables are visible: until the innermost scope ends that defines one of them. So an expression is
looked at once, however many statements have it.
"""

from __future__ import annotations

from .. import nodes as ir

__all__ = ["OUTERMOST", "Scopes"]

#: the scope of what names no variables, and of the parameters
OUTERMOST = 0


class Scopes:
    """Those around the present place, the outermost first.

    vars: the variables that are visible. of: the number of each one's scope. mutable: those that may be assigned.
    sound: identities of expressions without a violation, each with the number of the scope that it ends with.
    ending: of each scope, the identities of those that end with it.
    gone: the views that started behind their bases, by name, where their scopes have ended.
    """

    def __init__(self) -> None:
        self.vars: dict[str, ir.Var] = {}
        self.of: dict[str, int] = {}
        self.mutable: set[str] = set()
        self.sound: dict[int, int] = {}
        self.ending: list[list[int]] = [[]]
        self.gone: set[str] = set()
        self._names: list[list[str]] = [[]]
        self._views: list[list[str]] = [[]]

    def define(self, var: ir.Var) -> None:
        if var.name not in self.vars:
            self.of[var.name] = len(self._names) - 1
            self._names[-1].append(var.name)
        self.vars[var.name] = var

    def define_view(self, view: ir.Buffer) -> None:
        """A view with an address of its own, which is computed where it is defined."""
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
