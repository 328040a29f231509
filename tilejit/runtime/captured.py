"""Whether the values that a kernel reads from outside have changed since its last launch.

`frontend.captures` makes a key of them, which takes long. So every launch compares only the objects by identity, and
the key is made again where one is another object.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from types import CellType, ModuleType
from typing import Any, NamedTuple

from ..forks import renewed_at_fork
from ..frontend import KernelSource, captures, changes
from ..frontend.language import Function

#: what a name or a cell without a value holds
MISSING = object()


class CapturedPlaces(NamedTuple):
    """Where a kernel's captured values come from. names: namespaces, each with a name in it. cells: of a closure."""

    names: tuple[tuple[dict[str, Any], str], ...]
    cells: tuple[CellType, ...]

    def are(self, others: CapturedPlaces) -> bool:
        """Whether both are the same places."""
        return self._ids() == others._ids()

    def _ids(self) -> tuple[object, ...]:
        return (tuple((id(namespace), name) for namespace, name in self.names), tuple(map(id, self.cells)))


class CapturedValues(NamedTuple):
    """The captured values of one moment, with their places.

    number: equal numbers mean equal values. is_fixed: that each place holds the same object means equal values.
    """

    number: int
    names: tuple[tuple[dict[str, Any], str, Any], ...]
    cells: tuple[tuple[CellType, Any], ...]
    is_fixed: bool

    @property
    def places(self) -> CapturedPlaces:
        return CapturedPlaces(
            tuple((namespace, name) for namespace, name, _ in self.names), tuple(cell for cell, _ in self.cells)
        )

    @property
    def values(self) -> tuple[Any, ...]:
        """In the order of the places, the names first."""
        return *(value for _, _, value in self.names), *(value for _, value in self.cells)

    def hold(self) -> bool:
        """Whether no place holds another object now."""
        for namespace, name, value in self.names:
            if namespace.get(name, MISSING) is not value:
                return False
        for cell, value in self.cells:
            if _content(cell) is not value:
                return False
        return self.is_fixed

    def watch(self) -> Callable[[], bool]:
        """What `hold` says, sooner where there is one name or none."""
        if self.cells or not self.is_fixed:
            return self.hold
        if not self.names:
            return lambda: True
        missing, ((namespace, name, value), *others) = MISSING, self.names
        get = namespace.get
        if not others:
            return lambda: get(name, missing) is value
        return self.hold


class Captured:
    """The captured values of a kernel, as a number that changes whenever one of them does."""

    def __init__(self, source: KernelSource) -> None:
        self._source = source
        self._numbers: dict[Hashable, int] = {}
        self._current: CapturedValues | None = None
        self._lock = renewed_at_fork(threading.RLock())

    def number(self) -> int:
        """Equal numbers mean equal values, now and before."""
        return self.current().number

    def current(self) -> CapturedValues:
        """The values as they are."""
        # read once, because another thread may set it meanwhile
        current = self._current
        if current is None or not current.hold():
            with self._lock:
                current = self._current = self._read()
        return current

    def changes(self, old: int, new: int) -> list[str]:
        """What differs between the values of two numbers, in words."""
        tokens = list(self._numbers)
        return changes(tokens[old], tokens[new])

    def _read(self) -> CapturedValues:
        while True:
            watched = _Watched()
            watched.source(self._source, [])
            token = captures(self._source)
            number = self._numbers.setdefault(token, len(self._numbers))
            names = tuple((namespace, name, value) for (_, name), (namespace, value) in watched.places.items())
            current = CapturedValues(number, names, tuple(watched.cells.values()), watched.is_fixed)
            # another thread may have changed a value between the two readings
            if not current.is_fixed or current.hold():
                return current


class _Watched:
    """The places that a kernel's captured values come from, with what they hold now.

    is_fixed: comparing these objects by identity tells every change.
    """

    def __init__(self) -> None:
        self.places: dict[tuple[int, str], tuple[dict[str, Any], Any]] = {}
        self.cells: dict[int, tuple[CellType, Any]] = {}
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
                self.is_fixed &= value is not MISSING
            self._value(value, [*inside, source])
        for value in source.defaults.values():
            self._value(value, [*inside, source])

    def _root(self, source: KernelSource, name: str) -> Any:
        fn = source.function
        if name in fn.__code__.co_freevars and fn.__closure__ is not None:
            cell = fn.__closure__[fn.__code__.co_freevars.index(name)]
            self.cells[id(cell)] = cell, _content(cell)
            return _content(cell)
        value = self._name(fn.__globals__, name)
        return source.lookup(name)[1] if value is MISSING else value

    def _name(self, namespace: dict[str, Any], name: str) -> Any:
        value = namespace.get(name, MISSING)
        self.places[id(namespace), name] = namespace, value
        return value

    def _value(self, value: Any, inside: list[KernelSource]) -> None:
        if isinstance(value, tuple):
            for item in value:
                self._value(item, inside)
        elif isinstance(value, Function):
            self.source(value.source, inside)
        elif isinstance(value, ModuleType):
            # asking tilejit for an attribute imports all that its language names
            return
        elif getattr(value, "shape", None) == () and hasattr(value, "__setitem__"):
            # a number that changes in place
            self.is_fixed = False


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING
