"""Names in a kernel: defined names, names that expressions depend on, and fresh names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from itertools import count

from ..remember import remembered
from . import walk
from .nodes import Expr, Kernel, Let, Stmt, Var
from .walk import Block


def defined_names(body: Block) -> Set[str]:
    """Return the names of all variables and buffers that the statements define, including nested ones."""
    kinds: Sequence[type[Stmt]] = (*walk.BUFFERS, *walk.VARIABLES)
    found = [getattr(stmt, walk.FIELDS[kind].defined[0]) for kind in kinds for stmt in walk.each(body, kind)]
    return {each.name for each in found if each is not None}


@remembered
def names_in(expr: Expr) -> frozenset[str]:
    """Return the names of the variables in an expression."""
    return frozenset([part.name for part in walk.inputs(expr) if isinstance(part, Var)])


def sources(body: Block, exprs: Iterable[Expr]) -> frozenset[str]:
    """Return the names of the variables that expressions depend on, directly or through the `Let`s of a block."""
    lets = {stmt.var.name: stmt.value for stmt in walk.each(body, Let)}
    waiting, names = list(exprs), set[str]()
    while waiting:
        more = names_in(waiting.pop()) - names
        names |= more
        waiting += [lets[name] for name in more if name in lets]
    return frozenset(names)


class FreshNames:
    """A supply of names `stem.number` that aren't in `taken`. first: the first number to try."""

    def __init__(self, taken: Set[str], first: int = 0) -> None:
        self._taken = taken
        self._numbers = count(first)

    @classmethod
    def of(cls, kernel: Kernel) -> FreshNames:
        """Return fresh names for a kernel, distinct from the names in its statements and parameters."""
        params = [param.defines.name for param in kernel.params if param.defines is not None]
        return cls({*defined_names(kernel.body), *params})

    def name(self, stem: str) -> str:
        """Return `stem` with the next number that makes a fresh name. Numbers are unique across stems."""
        while True:
            name = f"{stem}.{next(self._numbers)}"
            if name not in self._taken:
                return name
