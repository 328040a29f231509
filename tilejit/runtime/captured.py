"""Whether the values that a kernel reads from outside have changed since its last launch.

`frontend.captures` makes a key of them, which takes long. So every launch compares only the objects by identity, and
the key is made again where one is another object.
"""

from __future__ import annotations

from collections.abc import Hashable
from types import CellType, ModuleType
from typing import Any

from ..frontend import KernelSource, captures, changes
from ..frontend.language import Function

_MISSING = object()


class Captured:
    """The captured values of a kernel, as a number that changes whenever one of them does."""

    def __init__(self, source: KernelSource) -> None:
        self._source = source
        self._numbers: dict[tuple[Hashable, tuple[str, ...]], int] = {}
        self._number = -1
        self._places: tuple[tuple[dict[str, Any], str, Any], ...] = ()
        self._cells: tuple[tuple[CellType, Any], ...] = ()
        self._is_fixed = False

    def number(self) -> int:
        """Equal numbers mean equal values, now and before."""
        if not self._is_fixed:
            return self._read()
        for namespace, name, value in self._places:
            if namespace.get(name, _MISSING) is not value:
                return self._read()
        for cell, value in self._cells:
            if _content(cell) is not value:
                return self._read()
        return self._number

    def changes(self, old: int, new: int) -> list[str]:
        """What differs between the values of two numbers, in words."""
        tokens = list(self._numbers)
        return changes(tokens[old][0], tokens[new][0])

    def _read(self) -> int:
        watched = _Watched()
        watched.source(self._source, [])
        token = captures(self._source), tuple(map(repr, watched.loose))
        self._number = self._numbers.setdefault(token, len(self._numbers))
        self._places = tuple((namespace, name, value) for (_, name), (namespace, value) in watched.places.items())
        self._cells = tuple(watched.cells.values())
        self._is_fixed = watched.is_fixed
        return self._number


class _Watched:
    """The places that a kernel's captured values come from, with what they hold now.

    is_fixed: comparing these objects by identity tells every change. loose: numbers that change in place.
    """

    def __init__(self) -> None:
        self.places: dict[tuple[int, str], tuple[dict[str, Any], Any]] = {}
        self.cells: dict[int, tuple[CellType, Any]] = {}
        self.loose: list[Any] = []
        self.is_fixed = True

    def source(self, source: KernelSource, inside: list[KernelSource]) -> None:
        """Everything that one function reads, and the functions among it."""
        if source in inside:
            return
        for chain in source.references:
            value = self._root(source, chain[0])
            for name in chain[1:]:
                # tilejit's own names don't change
                if not isinstance(value, ModuleType) or value.__name__.partition(".")[0] == "tilejit":
                    break
                value = self._name(vars(value), name)
                # a module that computes its attributes may compute another one next time
                self.is_fixed &= value is not _MISSING
            self._value(value, [*inside, source])

    def _root(self, source: KernelSource, name: str) -> Any:
        fn = source.function
        if name in fn.__code__.co_freevars and fn.__closure__ is not None:
            cell = fn.__closure__[fn.__code__.co_freevars.index(name)]
            self.cells[id(cell)] = cell, _content(cell)
            return _content(cell)
        value = self._name(fn.__globals__, name)
        return source.lookup(name)[1] if value is _MISSING else value

    def _name(self, namespace: dict[str, Any], name: str) -> Any:
        value = namespace.get(name, _MISSING)
        self.places[id(namespace), name] = namespace, value
        return value

    def _value(self, value: Any, inside: list[KernelSource]) -> None:
        if isinstance(value, tuple):
            for item in value:
                self._value(item, inside)
        elif isinstance(value, Function):
            self.source(value.source, inside)
        elif getattr(value, "shape", None) == () and hasattr(value, "__setitem__"):
            self.loose.append(value)
            self.is_fixed = False


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING
